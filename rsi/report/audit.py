"""The reward-mass audit of stored episodes: what failed runs hold under each reward, near misses, invalid ones by cause."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from rsi.harness.episode import counted
from rsi.harness.store import read_verdicts
from rsi.rewards.audit import failed_share
from rsi.rewards.rewards import Graded, make_reward

REWARDS = ("raw", "fdr", "spr")


class NoScales(LookupError):
    """FDR's family scales were not recorded, or not once and for all; says how to get them."""


def stages_beside(file: Path) -> Path:
    """data/results/stages of the checkout whose data/episodes `file` is in, not of the one this is run in. Raises NoScales for any other file."""
    for folder in (*file.parents, *file.absolute().parents):
        if folder.name == "episodes":
            return folder.with_name("results") / "stages"
    raise NoScales(f"{file}: not below a data/episodes, so there is no telling which run's family scales FDR was trained with; name them: --stages DIR")


def recorded_scales(files: Sequence[Path], stages: Path | None = None) -> tuple[dict[str, float], list[str]]:
    """FDR's family scales as training used them, and the results of the stages they were read from: those of `files`, below `stages` or
    beside each file; for files of stages that use none (Base, RSR) those of any stage, as all measure the same pool. Raises NoScales."""
    mine: dict[Path, dict[str, float]] = {}
    for folder in dict.fromkeys(stages or stages_beside(f) for f in files):
        found = {p: json.loads(p.read_text()) for p in sorted(folder.glob("*.json"))}
        scales = {p: f["scales"] for p, f in found.items() if "scales" in f}
        if not scales:
            raise NoScales(f"{folder}: no stage recorded FDR's family scales; run `dvc repro` (rpr1, rpr2 and direct_ppo record them)")
        names = {f.stem for f in files if stages or stages_beside(f) == folder}
        mine |= {p: s for p, s in scales.items() if p.stem in names} or dict(list(scales.items())[:1])
    first, *others = mine
    if differing := [str(p) for p in others if mine[p] != mine[first]]:
        raise NoScales(f"{first} and {', '.join(differing)}: trained on pools of other scales; audit their files one by one, or run `dvc repro`")
    return mine[first], [str(p) for p in mine]


def audit(files: Sequence[Path], beta: float, stages: Path | None = None) -> dict:
    """{"all": {...}, "families": {family: {...}}, "invalid": {cause: n}, "files": [...], "scales": [...]}; see `_summary` for the inner keys.

    stages: where the stages' results are, for FDR's scales (default: data/results/stages beside each file's data/episodes). Raises NoScales.
    """
    scales, source = recorded_scales([Path(f) for f in files], stages)
    rewards = {kind: make_reward(kind, beta=beta, scales=scales) for kind in REWARDS}
    graded, causes = [], Counter()
    for family, verdict, specs in (row for file in files for row in read_verdicts(file)):
        if not verdict.valid:
            causes[verdict.cause or "unknown"] += 1
            continue
        checks = counted(verdict, specs)
        steps = [checks[s.name] for s in specs if s.kind == "intermediate" and s.name in checks]
        near = bool(steps) and all(steps) and not verdict.strict  # every intermediate check passed, the endpoint failed (paper)
        graded.append((Graded(verdict.strict, sum(checks.values()), len(checks), family), near))
    families = {f: _summary([x for x in graded if x[0].family == f], rewards) for f in sorted({g.family for g, _ in graded})}
    return {
        "all": _summary(graded, rewards),
        "families": families,
        "invalid": dict(sorted(causes.items())),
        "files": [str(f) for f in files],
        "scales": source,
        "beta": beta,
    }


def _summary(graded: Iterable[tuple[Graded, bool]], rewards: dict) -> dict:
    graded = list(graded)
    failed = [g for g, _ in graded if not g.strict]
    return {
        "episodes": len(graded),
        "strict": len(graded) - len(failed),
        "near_misses": sum(near for _, near in graded),
        "failed_progress": sum(g.progress for g in failed) / len(failed) if failed else None,
        "failed_mass": {kind: failed_share([g for g, _ in graded], reward) for kind, reward in rewards.items()},
    }
