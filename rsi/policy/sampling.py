"""The lock-step session: token in, token out, one cache kept across turns, a random stream per episode.

A sampler is anything with `session(keys, capacity, sampling) -> Session`. `LockstepSession` holds what samplers share:
row bookkeeping, the sampling distribution and the token loop; a backend adds a forward pass over its own cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from rsi.policy.streams import stream


@dataclass(frozen=True)
class Sampling:
    """The sampling distribution: softmax(logits / temperature), cut to `top_k` and `top_p` where given (0 and 1: uncut)."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0

    def __post_init__(self) -> None:
        if not self.temperature > 0 or not 0 < self.top_p <= 1 or self.top_k < 0:
            raise ValueError(f"sampling: temperature > 0, 0 < top_p <= 1, top_k >= 0 expected, got {self}")

    @property
    def train_temperature(self) -> float | None:
        """Temperature to recompute the log-probabilities with, None where a cut makes that impossible."""
        return self.temperature if self.top_p == 1 and self.top_k == 0 else None


@dataclass(frozen=True)
class Sampled:
    ids: list[int]
    logprobs: list[float]


class Session(Protocol):
    def turn(self, feeds: dict[int, Sequence[int]], limits: dict[int, int]) -> dict[int, Sampled]:
        """Append `feeds[row]` to each row's cache, then sample up to `limits[row]` tokens or the stop token."""

    def drop(self, rows: Sequence[int]) -> None:
        """These rows are finished; their cache is freed."""


def pick(logits: Tensor, u: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Inverse-CDF sampling of one token a row. logits [B, V] float32, u [B] in [0, 1) -> ids [B], log-probabilities [B]
    of the distribution sampled from: temperature, then top-k, then top-p on what top-k left, as transformers' warpers do."""
    scaled, order = logits.float() / sampling.temperature, None
    if sampling.top_k or sampling.top_p < 1:
        scaled, order = scaled.topk(min(sampling.top_k or scaled.shape[1], scaled.shape[1]), dim=-1)
    logprobs = torch.log_softmax(scaled, dim=-1)
    if sampling.top_p < 1:
        probs = logprobs.exp()
        logprobs = torch.log_softmax(logprobs.masked_fill(probs.cumsum(-1) - probs >= sampling.top_p, -torch.inf), dim=-1)
    cdf = logprobs.exp().double().cumsum(-1)
    ids = (cdf <= u[:, None] * cdf[:, -1:]).sum(-1).clamp_(max=logprobs.shape[1] - 1)
    chosen = logprobs.gather(1, ids[:, None])[:, 0]
    return ids if order is None else order.gather(1, ids[:, None])[:, 0], chosen


class LockstepSession:
    """Rows advance together, one forward pass per sampled token; finished rows are compacted away.

    A backend overrides `_forward(ids [B, n], lengths [B]) -> logits [B, V]` (append each row's first `lengths` ids, return
    the logits after its last one) and `_keep(index)`; and, where copying rows is cheap, `_narrow` and `_widen`.
    `row_of[i]` is the caller's row at cache position i.
    """

    def __init__(self, keys: Sequence[tuple], stop_id: int, sampling: Sampling):
        self.row_of = list(range(len(keys)))
        self.streams = [stream(*key) for key in keys]
        self.stop_id, self.sampling = stop_id, sampling
        self.dropped: set[int] = set()

    def _forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        raise NotImplementedError

    def _keep(self, index: Tensor) -> None:
        raise NotImplementedError

    def _narrow(self, index: Tensor, room: int) -> LockstepSession | None:
        """A session of the cache positions `index` alone for `room` more tokens, or None where that is not worth a copy."""
        return None

    def _widen(self, narrow: LockstepSession, index: Tensor) -> None:
        """Take back what `narrow` appended."""
        raise NotImplementedError

    def drop(self, rows: Sequence[int]) -> None:
        self.dropped.update(rows)

    def _compact(self) -> None:
        """Copying the cache costs about as much as a few decode steps, so wait until a sixth of the rows is gone."""
        if len(self.dropped) * 6 >= len(self.row_of) and self.dropped:
            index = [i for i, row in enumerate(self.row_of) if row not in self.dropped]
            self.row_of = [self.row_of[i] for i in index]
            self.dropped.clear()
            if index:
                self._keep(torch.tensor(index))

    @torch.inference_mode()
    def turn(self, feeds: dict[int, Sequence[int]], limits: dict[int, int]) -> dict[int, Sampled]:
        self._compact()
        place = {row: i for i, row in enumerate(self.row_of)}
        rows = sorted(feeds, key=place.__getitem__)
        width = max(len(feeds[row]) for row in rows)
        ids = torch.zeros(len(self.row_of), width, dtype=torch.long)
        lengths = torch.zeros(len(self.row_of), dtype=torch.long)
        for row in rows:
            ids[place[row], : len(feeds[row])] = torch.tensor(feeds[row])
            lengths[place[row]] = len(feeds[row])
        draws = np.zeros((len(self.row_of), max(limits[row] for row in rows)))
        for row in rows:
            draws[place[row], : limits[row]] = self.streams[row].random(limits[row])
        budget = torch.zeros(len(self.row_of), dtype=torch.long)
        budget[[place[row] for row in rows]] = torch.tensor([limits[row] for row in rows])
        out_ids, out_lp, counts = self._decode(self._forward(ids, lengths), torch.from_numpy(draws), budget)
        return {row: Sampled(out_ids[place[row], : counts[place[row]]].tolist(), out_lp[place[row], : counts[place[row]]].tolist())
                for row in rows}

    def _decode(self, logits: Tensor, draws: Tensor, budget: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Sample until every row has its stop token or its budget. Turns differ in length: when half of the rows are done, the
        others go on in a narrow session, so that a step costs what its rows cost."""
        steps = draws.shape[1]
        out_ids, out_lp = torch.zeros(draws.shape, dtype=torch.long), torch.zeros(draws.shape)
        counts = torch.zeros(len(budget), dtype=torch.long)
        session, at, wider = self, torch.arange(len(budget)), []
        active = budget > 0
        for step in range(steps):
            token, logprob = pick(logits, draws[at, step], self.sampling)
            out_ids[at, step], out_lp[at, step] = token, logprob
            counts[at] += active
            alive = active & (token != self.stop_id) & (counts[at] < budget[at])
            # the last sampled tokens belong in the cache too: the next turn attends to them
            logits = session._forward(token[:, None], active.long())
            active = alive
            if not active.any():
                break
            index = active.nonzero()[:, 0]
            if 2 * len(index) <= len(active) and (narrow := session._narrow(index, steps - step)) is not None:
                wider.append((session, narrow, index))
                session, at, logits, active = narrow, at[index], logits[index], active[index]
        for wide, narrow, index in reversed(wider):
            wide._widen(narrow, index)
        return out_ids, out_lp.clamp_(max=0), counts
