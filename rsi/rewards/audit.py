"""The reward-mass audit: how much of the reward failed runs hold (PAPER.md, C4 and C5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rsi.rewards.rewards import Graded


def failed_share(graded: Sequence[Graded], reward: Callable[[Graded], float]) -> float | None:
    """Sum of reward over failed runs / sum over all runs; None (undefined) when no run holds any reward.

    Invalid runs have no reward and must not be passed in.
    """
    values = [(g.strict, reward(g)) for g in graded]
    total = sum(r for _, r in values)
    if total == 0:
        return None
    return sum(r for strict, r in values if not strict) / total
