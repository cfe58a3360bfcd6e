"""The critic: the actor's architecture with a scalar head. Its checkpoints say what they are; nothing is silently fresh.

A critic is made from an actor by name (`critic_from_actor`), warmed up, and inherited by the next RPR stage: weights only,
optimizer and schedule anew (T1; PAPER.md, "RPR").
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoModel

from rsi.persist import replace_dir
from rsi.policy.batch import Batch
from rsi.policy.model import CheckpointError, Policy


class Critic(nn.Module):
    """values [N] of the states in which the batch's N target tokens were sampled (the position before each)."""

    def __init__(self, backbone: nn.Module):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(backbone.config.hidden_size, 1)
        # a zero head starts at V = 0: a random one gives EV far below 0 in the first steps (LAPTOP figures: -14.5)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def all_values(self, batch: Batch) -> Tensor:
        """V after every position [B, T]."""
        hidden = self.backbone(input_ids=batch.tokens, use_cache=False).last_hidden_state  # no mask: see rsi.policy.forward
        return self.head(hidden)[..., 0]

    def forward(self, batch: Batch) -> Tensor:
        return self.all_values(batch)[batch.rows, batch.cols - 1]


def critic_from_actor(policy: Policy, head: str = "zero", seed: int = 0) -> Critic:
    """A new critic whose backbone starts from the actor's weights (adapters merged); `head` is "zero" or "random"."""
    import copy

    model = copy.deepcopy(policy.model)
    if hasattr(model, "merge_and_unload"):
        model = model.merge_and_unload()
    critic = Critic(model.base_model)
    for p in critic.parameters():
        p.requires_grad_(True)
    if head == "random":
        torch.manual_seed(seed)
        nn.init.normal_(critic.head.weight, std=critic.head.in_features**-0.5)
    elif head != "zero":
        raise ValueError(f"rpr.critic_head must be zero or random, got {head!r}")
    return critic


def save_critic(critic: Critic, path: Path, made_from: str) -> Path:
    path = Path(path)
    part = path.with_name(path.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    critic.backbone.save_pretrained(part)
    save_file({k: v.contiguous() for k, v in critic.head.state_dict().items()}, part / "value_head.safetensors")
    (part / "critic.json").write_text(json.dumps({"kind": "critic", "made_from": made_from}, indent=1) + "\n")
    replace_dir(part, path)
    return path


def load_critic(path: Path) -> Critic:
    """Load a critic's weights. Raises CheckpointError when `path` is an actor or its value head is missing."""
    path = Path(path)
    if not (path / "critic.json").is_file():
        raise CheckpointError(f"{path}: not a critic (no critic.json); an actor becomes one only through critic_from_actor (RPR-1 and direct PPO do that)")
    if not (path / "value_head.safetensors").is_file():
        raise CheckpointError(f"{path}: the critic has no value_head.safetensors; warm it up again or name another checkpoint")
    critic = Critic(AutoModel.from_pretrained(path, local_files_only=True, dtype=torch.float32))
    critic.head.load_state_dict(load_file(path / "value_head.safetensors"))
    return critic


def explained_variance(returns: Tensor, values: Tensor) -> float:
    """EV = 1 - Var[R - V] / Var[R], over all action tokens of the batch together (T1). NaN where the returns (nearly) do not vary."""
    var = returns.double().var(unbiased=False)
    if var < 1e-10:
        return float("nan")
    return float(1 - (returns.double() - values.double()).var(unbiased=False) / var)
