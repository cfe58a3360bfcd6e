"""Padded batches and length buckets: the same records feed pretraining, SFT and PPO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rsi.policy.streams import stream


@dataclass(frozen=True)
class Example:
    """tokens int32 [T]; mask bool [T], true where the token is predicted and counts in the loss (never the first token)."""

    tokens: np.ndarray
    mask: np.ndarray

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.mask):
            raise ValueError(f"{len(self.tokens)} tokens but {len(self.mask)} mask entries")
        if not self.mask[1:].any():
            raise ValueError("an example without a token to predict: a loss of 0.0 from nothing would be reported")


@dataclass(frozen=True)
class Batch:
    """tokens [B, T] right-padded; rows/cols: where the targets stand (cols >= 1)."""

    tokens: Tensor
    rows: Tensor
    cols: Tensor

    @property
    def targets(self) -> Tensor:
        return self.tokens[self.rows, self.cols]


def collate(examples: Sequence[Example]) -> Batch:
    width = max(len(e.tokens) for e in examples)
    tokens = torch.zeros(len(examples), width, dtype=torch.long)
    mask = torch.zeros(len(examples), width, dtype=torch.bool)
    for i, e in enumerate(examples):
        tokens[i, : len(e.tokens)] = torch.from_numpy(np.asarray(e.tokens, np.int64))
        mask[i, : len(e.tokens)] = torch.from_numpy(np.asarray(e.mask))
    mask[:, 0] = False
    rows, cols = mask.nonzero(as_tuple=True)
    return Batch(tokens, rows, cols)


def microbatches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Group indices of similar length so that padded size (rows x longest) stays within `budget` tokens; order is by length."""
    order = sorted(range(len(lengths)), key=lambda i: (lengths[i], i))
    out: list[list[int]] = [[]]
    for i in order:
        if out[-1] and (len(out[-1]) + 1) * lengths[i] > budget:
            out.append([])
        out[-1].append(i)
    return out


def epoch_batches(lengths: Sequence[int], budget: int, key: tuple) -> list[list[int]]:
    """One epoch of shuffled, length-bucketed batches, determined by `key` alone.

    Shuffled items are bucketed within groups of about 16 batches, so that a batch is neither padded nor always the same.
    """
    rng = stream(*key)
    order = rng.permutation(len(lengths))
    group, groups, size = [], [], 0
    for i in order:
        group.append(int(i))
        size += lengths[i]
        if size >= 16 * budget:
            groups.append(group)
            group, size = [], 0
    if group:
        groups.append(group)
    batches = [[g[i] for i in part] for g in groups for part in microbatches([lengths[j] for j in g], budget)]
    return [batches[i] for i in rng.permutation(len(batches))]
