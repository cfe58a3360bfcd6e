"""The reward-mass audit of stored episodes: what failed runs hold under each reward, near misses, invalid ones by cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from rsi.harness.store import read_table
from rsi.rewards.audit import failed_share
from rsi.rewards.rewards import Graded, family_scales, make_reward

REWARDS = ("raw", "fdr", "spr")


def audit(files: Sequence[Path], beta: float) -> dict:
    """{"all": {...}, "families": {family: {...}}, "invalid": {cause: n}, "files": [...]}; see `_summary` for the inner keys.

    FDR's family scales are the 90th percentile of the check counts of the tasks met in `files`.
    """
    graded, totals, causes = [], {}, Counter()
    for file in files:
        for row in read_table(file, ["task", "family", "valid", "strict", "cause", "checks", "specs"]).to_dict("records"):
            if not row["valid"]:
                causes[row["cause"] or "unknown"] += 1
                continue
            g, near = _graded(row)
            graded.append((g, near))
            totals.setdefault(g.family, {})[row["task"]] = g.total
    rewards = {kind: make_reward(kind, beta=beta, scales=family_scales({f: list(t.values()) for f, t in totals.items()})) for kind in REWARDS}
    families = {f: _summary([x for x in graded if x[0].family == f], rewards) for f in sorted(totals)}
    return {"all": _summary(graded, rewards), "families": families, "invalid": dict(sorted(causes.items())), "files": [str(f) for f in files], "beta": beta}


def _graded(row: dict) -> tuple[Graded, bool]:
    """What a reward sees, and whether the run passed every intermediate check and failed the endpoint (the paper's near miss)."""
    spec = {s["name"]: s for s in row["specs"]}
    counted = {c["name"]: c["passed"] for c in row["checks"] if not spec.get(c["name"], {}).get("holds_before")}
    steps = [ok for name, ok in counted.items() if spec.get(name, {}).get("kind") == "intermediate"]
    return Graded(row["strict"], sum(counted.values()), len(counted), row["family"]), bool(steps) and all(steps) and not row["strict"]


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
