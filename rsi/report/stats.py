"""Means with task-clustered bootstrap intervals: tasks are drawn, and a task brings all its attempts and seeds along.

Attempts at one task are not independent, and a suite's tasks are the sample; hence tasks are the unit. Every comparison on a
suite uses the same draws, so that the interval of a difference is a paired one.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Sample:
    """Sums and counts by task of one suite: sums[t] / counts[t] is task t's mean over its valid attempts."""

    suite: str
    tasks: tuple[str, ...]
    sums: np.ndarray
    counts: np.ndarray


@dataclass(frozen=True)
class Estimate:
    """A mean and its bootstrap draws; `low` and `high` bound the central 95 %."""

    mean: float
    draws: np.ndarray

    @property
    def low(self) -> float:
        return float(np.nanquantile(self.draws, 0.025)) if np.isfinite(self.draws).any() else float("nan")

    @property
    def high(self) -> float:
        return float(np.nanquantile(self.draws, 0.975)) if np.isfinite(self.draws).any() else float("nan")

    def __sub__(self, other: Estimate) -> Estimate:
        """Paired difference: both must come from the same tasks and draws (see `estimate`)."""
        return Estimate(self.mean - other.mean, self.draws - other.draws)


def sample(suite: str, tasks: Sequence[str], values: Sequence[float], valid: Sequence[bool], universe: Sequence[str] | None = None) -> Sample:
    """Collect valid attempts by task. Tasks of `universe` without one stay in with a count of 0, so that draws stay aligned."""
    names = tuple(sorted(set(universe if universe is not None else tasks)))
    at = {name: i for i, name in enumerate(names)}
    sums, counts = np.zeros(len(names)), np.zeros(len(names))
    for task, value, ok in zip(tasks, values, valid, strict=True):
        if ok:
            sums[at[task]] += value
            counts[at[task]] += 1
    return Sample(suite, names, sums, counts)


def estimate(samples: Sequence[Sample], draws: int) -> Estimate:
    """The mean over suites of each suite's attempt mean, suites drawn independently and deterministically by name and size."""
    means, drawn = [], []
    for s in samples:
        weights = _weights(s.suite, len(s.tasks), draws)
        with np.errstate(invalid="ignore", divide="ignore"):
            means.append(s.sums.sum() / s.counts.sum() if s.counts.sum() else float("nan"))
            drawn.append((weights @ s.sums) / (weights @ s.counts))
    return Estimate(float(np.mean(means)), np.mean(drawn, axis=0))


@functools.cache
def _weights(suite: str, tasks: int, draws: int) -> np.ndarray:
    """How often each task is drawn [draws, tasks]. The same for every stage: that pairs the differences."""
    rng = np.random.default_rng([zlib.crc32(suite.encode()), tasks, draws])
    return rng.multinomial(tasks, np.full(tasks, 1 / tasks), size=draws).astype(float)
