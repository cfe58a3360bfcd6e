"""Fast sampler for Qwen3-architecture checkpoints on CPU: fused projections and one static cache kept across turns.

The arithmetic is transformers' Qwen3 (RMSNorm of queries and keys, rotate-half RoPE, grouped key-value heads, SwiGLU);
log-probabilities equal its forward to 1e-4 (tests/unit/test_sampler.py).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from rsi.policy.sampling import LockstepSession, Sampling


@dataclass
class _Layer:
    norm1: Tensor
    qkv: Tensor
    q_norm: Tensor
    k_norm: Tensor
    out: Tensor
    norm2: Tensor
    gate_up: Tensor
    down: Tensor


def rms(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return F.rms_norm(x, (x.shape[-1],), weight, eps)


class QwenSampler:
    """Reads the weights of a `Qwen3ForCausalLM`; `load` refreshes them in place after an update."""

    def __init__(self, model, stop_id: int):
        config = model.config
        self.stop_id, self.eps = stop_id, config.rms_norm_eps
        self.heads, self.kv_heads, self.dim = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        self.max_positions = config.max_position_embeddings
        positions = torch.arange(self.max_positions, dtype=torch.float32)
        angles = torch.outer(positions, model.model.rotary_emb.inv_freq.float())
        self.cos = torch.cat([angles.cos(), angles.cos()], -1)
        self.sin = torch.cat([-angles.sin(), angles.sin()], -1)
        self.load(model)

    def load(self, model) -> None:
        """Take the weights of `model` (same architecture)."""
        with torch.no_grad():
            self.embed = model.model.embed_tokens.weight.detach().clone()
            self.head = model.lm_head.weight.detach().clone()
            self.final_norm = model.model.norm.weight.detach().clone()
            self.layers = [_layer(block) for block in model.model.layers]

    def session(self, keys: Sequence[tuple], capacity: int, sampling: Sampling) -> QwenSession:
        """Start `len(keys)` rows of up to `capacity` tokens. Raises ValueError beyond the model's positions."""
        if capacity > self.max_positions:
            raise ValueError(f"context of {capacity} tokens is beyond the model's {self.max_positions} positions")
        return QwenSession(self, keys, capacity, sampling)


def _layer(block) -> _Layer:
    attn, mlp = block.self_attn, block.mlp
    qkv = torch.cat([attn.q_proj.weight, attn.k_proj.weight, attn.v_proj.weight]).detach()
    gate_up = torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]).detach()
    return _Layer(block.input_layernorm.weight.detach().clone(), qkv, attn.q_norm.weight.detach().clone(),
                  attn.k_norm.weight.detach().clone(), attn.o_proj.weight.detach().clone(),
                  block.post_attention_layernorm.weight.detach().clone(), gate_up, mlp.down_proj.weight.detach().clone())


class QwenSession(LockstepSession):
    """Ragged rows: row b's keys and values lie at positions 0..length[b]-1 of the static cache."""

    def __init__(self, sampler: QwenSampler, keys: Sequence[tuple], capacity: int, sampling: Sampling):
        super().__init__(keys, sampler.stop_id, sampling)
        self.m, self.capacity = sampler, capacity
        shape = (len(keys), sampler.kv_heads, capacity, sampler.dim)
        # zeros, not empty: masked positions get weight 0, and 0 times an uninitialised NaN is NaN
        self.k = [torch.zeros(shape) for _ in sampler.layers]
        self.v = [torch.zeros(shape) for _ in sampler.layers]
        self.length = torch.zeros(len(keys), dtype=torch.long)

    def _keep(self, index: Tensor) -> None:
        # rows are copied only as far as they are filled
        top = int(self.length[index].max())
        for cache in (self.k, self.v):
            cache[:] = [_copied(old, index, top, self.capacity) for old in cache]
        self.length = self.length[index]

    def _narrow(self, index: Tensor, room: int) -> QwenSession | None:
        if len(self.length) < 8:
            return None
        narrow = copy.copy(self)
        narrow.length = self.length[index]
        top = int(narrow.length.max())
        narrow.k, narrow.v = ([_copied(old, index, top, min(self.capacity, top + room)) for old in cache] for cache in (self.k, self.v))
        return narrow

    def _widen(self, narrow: QwenSession, index: Tensor) -> None:
        for row, (i, start, end) in enumerate(zip(index.tolist(), self.length[index].tolist(), narrow.length.tolist(), strict=True)):
            for mine, theirs in ((self.k, narrow.k), (self.v, narrow.v)):
                for wide, thin in zip(mine, theirs, strict=True):
                    wide[i, :, start:end] = thin[row, :, start:end]
        self.length[index] = narrow.length

    def _forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        m, (rows, width) = self.m, ids.shape
        offsets = torch.arange(width)
        positions = (self.length[:, None] + offsets).clamp_(max=self.capacity - 1)
        valid = offsets[None, :] < lengths[:, None]
        top = int((self.length + lengths).max())
        if top > self.capacity:
            raise ValueError(f"a row grew to {top} tokens, beyond its capacity of {self.capacity}")
        # a query sees the keys up to its own position; padding queries see only the first key (their output is unused)
        seen = torch.where(valid, positions, 0)
        bias = torch.zeros(rows, 1, width, top).masked_fill_(torch.arange(top) > seen[:, None, :, None], -torch.inf)
        groups = m.heads // m.kv_heads
        bias = bias.repeat(1, 1, groups, 1)
        cos, sin = m.cos[positions][:, :, None], m.sin[positions][:, :, None]
        at = valid.nonzero(as_tuple=True)
        slot = positions[at]
        x = m.embed[ids]
        for i, layer in enumerate(m.layers):
            h = F.linear(rms(x, layer.norm1, m.eps), layer.qkv).view(rows, width, -1, m.dim)
            q, k, v = h.split([m.heads, m.kv_heads, m.kv_heads], dim=2)
            q, k = _rope(rms(q, layer.q_norm, m.eps), cos, sin), _rope(rms(k, layer.k_norm, m.eps), cos, sin)
            self.k[i][at[0], :, slot], self.v[i][at[0], :, slot] = k[at], v[at]
            q = q.transpose(1, 2).reshape(rows, m.kv_heads, groups * width, m.dim)
            a = F.scaled_dot_product_attention(q, self.k[i][:, :, :top], self.v[i][:, :, :top], attn_mask=bias)
            a = a.reshape(rows, m.heads, width, m.dim).transpose(1, 2).reshape(rows, width, -1)
            x = x + F.linear(a, layer.out)
            gate, up = F.linear(rms(x, layer.norm2, m.eps), layer.gate_up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, layer.down)
        self.length = self.length + lengths
        last = x[torch.arange(rows), (lengths - 1).clamp_(min=0)]
        return F.linear(rms(last, m.final_norm, m.eps), m.head)


def _copied(cache: Tensor, index: Tensor, top: int, capacity: int) -> Tensor:
    """Rows `index` of a cache [B, heads, T, dim], filled up to `top`, in a new one of `capacity`. Zeros, not empty: masked positions
    get weight 0, and 0 times an uninitialised NaN is NaN."""
    new = cache.new_zeros(len(index), cache.shape[1], capacity, cache.shape[3])
    new[:, :, :top] = cache[index, :, :top]
    return new


def _rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate-half RoPE; `sin` carries the sign of the first half."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat([x[..., half:], x[..., :half]], -1) * sin
