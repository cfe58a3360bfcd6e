"""Sampler for any Hugging Face causal model (full or with a peft adapter): transformers' own cache, one slot a position.

Rows are ragged, so padding slots stay in the cache and are masked out; every row keeps its own positions.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import DynamicCache

from rsi.policy.sampling import LockstepSession, Sampling


class HFSampler:
    """Samples from `model` as it is; after an optimizer step there is nothing to reload."""

    def __init__(self, model, stop_id: int):
        self.model, self.stop_id = model, stop_id

    def load(self, model) -> None:
        self.model = model

    def session(self, keys: Sequence[tuple], capacity: int, sampling: Sampling) -> HFSession:
        limit = getattr(self.model.config, "max_position_embeddings", capacity)
        if capacity > limit:
            raise ValueError(f"context of {capacity} tokens is beyond the model's {limit} positions")
        return HFSession(self, keys, sampling)


class HFSession(LockstepSession):
    def __init__(self, sampler: HFSampler, keys: Sequence[tuple], sampling: Sampling):
        super().__init__(keys, sampler.stop_id, sampling)
        self.model = sampler.model
        self.cache = DynamicCache(config=self.model.config)
        self.visible = torch.zeros(len(keys), 0, dtype=torch.long)

    def _keep(self, index: Tensor) -> None:
        self.cache.batch_select_indices(index)
        self.visible = self.visible[index]

    def _forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        was_training = self.model.training
        self.model.eval()
        valid = (torch.arange(ids.shape[1])[None, :] < lengths[:, None]).long()
        self.visible = torch.cat([self.visible, valid], 1)
        positions = (self.visible.cumsum(1) - 1).clamp_(min=0)[:, -ids.shape[1] :]
        out = self.model(input_ids=ids, attention_mask=self.visible, position_ids=positions,
                         past_key_values=self.cache, use_cache=True)
        self.model.train(was_training)
        return out.logits[torch.arange(len(ids)), (lengths - 1).clamp_(min=0)]
