"""Rewards of a verified episode. Each maps (strict, passed checks, family scale) to a number in [0, 1].

FDR and SPR are named by the paper; their formulas are inferred (PAPER.md, "FDR and SPR").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Graded:
    """What a reward may look at. passed/total count the checks above the no-op baseline; progress is their share, 1 if strict."""

    strict: bool
    passed: int
    total: int
    family: str = ""

    @property
    def progress(self) -> float:
        if self.strict:
            return 1.0
        return self.passed / self.total if self.total else 0.0


def binary(g: Graded) -> float:
    return float(g.strict)


def raw_ratio(g: Graded) -> float:
    """Share of passed checks: the dense reward the audit starts from."""
    return g.progress


def per_twenty(g: Graded, scale: float = 20.0) -> float:
    """T1: P / 20, where 20 is near the 90th percentile of the check count; binary when there is no per-check report."""
    if g.total == 0:
        return binary(g)
    return min(1.0, max(g.passed, g.total if g.strict else 0) / scale)


def fdr(g: Graded, scales: Mapping[str, float]) -> float:
    """Family-calibrated dense reward, inferred: r = min(1, passed / S_f), S_f fixed per family for the whole run.

    Binary when there is no per-check report, so that a solved task never scores 0. An unmeasured family uses the median scale.
    """
    if g.total == 0:
        return binary(g)
    scale = scales.get(g.family) or float(np.median(list(scales.values()) or [g.total]))
    passed = g.total if g.strict else g.passed
    return min(1.0, passed / scale)


def spr(g: Graded, beta: float = 0.4) -> float:
    """Strict success apart from bounded partial credit, inferred: r = b + (1 - b) * beta * progress.

    Raises ValueError unless 0 <= beta < 1: at beta = 1 a failure could equal a success.
    """
    if not 0 <= beta < 1:
        raise ValueError(f"reward.beta must lie in [0, 1), got {beta}: a failure must stay below strict success")
    return 1.0 if g.strict else beta * g.progress


def family_scales(totals: Mapping[str, Sequence[int]], quantile: float = 0.9) -> dict[str, float]:
    """S_f: the 90th percentile of each family's check counts on the training pool, measured once (inferred; T1 for the percentile)."""
    return {f: float(max(1.0, np.quantile(list(counts), quantile))) for f, counts in sorted(totals.items())}


def make_reward(kind: str, *, beta: float, scales: Mapping[str, float]) -> Callable[[Graded], float]:
    """The reward function named in params.yaml. Raises ValueError for an unknown name."""
    table = {"binary": binary, "raw": raw_ratio, "per_twenty": per_twenty, "fdr": lambda g: fdr(g, scales), "spr": lambda g: spr(g, beta)}
    if kind not in table:
        raise ValueError(f"reward.rpr1, reward.rpr2 or reward.direct: {kind!r} is unknown; use one of {', '.join(table)}")
    return table[kind]
