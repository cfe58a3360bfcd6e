"""The reward-mass audit of stored episodes: what failed runs hold under each reward, near misses, invalid ones by cause."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from rsi import paths
from rsi.harness.episode import counted
from rsi.harness.store import read_verdicts
from rsi.rewards.audit import failed_share
from rsi.rewards.rewards import Graded, make_reward

REWARDS = ("raw", "fdr", "spr")


class NoScales(LookupError):
    """FDR's family scales were not recorded, or not once and for all; says how to get them."""


def recorded_scales(files: Sequence[Path], stages: Path) -> dict[str, float]:
    """FDR's family scales as training used them, from the results that the stages of `files` left below `stages`; for files of
    stages that use none (Base, RSR) those of any stage, as all measure the same pool. Raises NoScales."""
    results = {p.stem: json.loads(p.read_text()) for p in sorted(stages.glob("*.json"))}
    scales = {run: found["scales"] for run, found in results.items() if "scales" in found}
    mine = {run: s for run, s in scales.items() if run in {f.stem for f in files}} or dict(list(scales.items())[:1])
    if not mine:
        raise NoScales(f"{stages}: no stage recorded FDR's family scales; run `dvc repro` (rpr1, rpr2 and direct_ppo record them)")
    first, *others = mine
    if differing := [run for run in others if mine[run] != mine[first]]:
        raise NoScales(f"{stages}: {first} and {', '.join(differing)} were trained on pools of other scales; audit them one by one, or run `dvc repro`")
    return mine[first]


def audit(files: Sequence[Path], beta: float, stages: Path | None = None) -> dict:
    """{"all": {...}, "families": {family: {...}}, "invalid": {cause: n}, "files": [...]}; see `_summary` for the inner keys.

    stages: where the stages' results are, for FDR's scales (default: data/results/stages). Raises NoScales.
    """
    scales = recorded_scales([Path(f) for f in files], stages or paths.result("stages"))
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
    return {"all": _summary(graded, rewards), "families": families, "invalid": dict(sorted(causes.items())), "files": [str(f) for f in files], "beta": beta}


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
