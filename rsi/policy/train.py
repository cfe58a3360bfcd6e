"""Supervised training of a causal model on token examples: Base's pretraining and RSR's actor-only SFT."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from tqdm import tqdm

from rsi.persist import WorkDir
from rsi.policy.batch import Batch, Example, collate, epoch_batches
from rsi.policy.forward import Replicas, target_logprobs
from rsi.policy.streams import stream


@dataclass(frozen=True)
class TrainConfig:
    """lr: peak, linear warm-up then cosine to a tenth. batch_tokens: padded tokens of one optimizer step."""

    lr: float
    epochs: float
    batch_tokens: int = 4096
    warmup_steps: int = 20
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.98)
    clip: float = 1.0
    threads: int = 2


def _schedule(step: int, total: int, warmup: int) -> float:
    if step < warmup:
        return (step + 1) / warmup
    share = (step - warmup) / max(1, total - warmup)
    return 0.1 + 0.45 * (1 + math.cos(math.pi * share))


def train_lm(model, examples: Sequence[Example], config: TrainConfig, *, key: tuple, work: WorkDir,
             augment: Callable[[np.random.Generator, np.ndarray], np.ndarray] | None = None, label: str = "train",
             save_every: int = 100) -> list[dict]:
    """Train in place and return the loss curve [{step, loss, lr, tokens}]; the loss is the mean over target tokens.

    key seeds order and augmentation. Progress is kept in `work` every `save_every` steps and resumed to the same bytes.
    Raises ValueError when there is nothing to train on or an example has no target (see Example).
    """
    if not examples:
        raise ValueError(f"{label}: no examples to train on")
    lengths = [len(e.tokens) for e in examples]
    batches: list[list[int]] = []
    for epoch in range(math.ceil(config.epochs)):
        batches += epoch_batches(lengths, config.batch_tokens, (*key, "order", epoch))
    total = max(1, round(len(batches) * config.epochs / math.ceil(config.epochs)))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=config.lr, betas=config.betas,
                                  weight_decay=config.weight_decay)
    replicas, curve, first = Replicas(model, config.threads), [], 0
    name = f"{label}.pt"
    if (state := work.load(name)) is not None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        curve, first = state["curve"], state["step"]
    for twin in replicas.models:  # no dropout: a given model's would make the two replicas' draws depend on thread timing
        twin.eval()
    for step in tqdm(range(first, total), desc=label, initial=first, total=total, leave=False, disable=None):
        chosen = [examples[i] for i in batches[step]]
        if augment is not None:
            rng = stream(*key, "augment", step)
            chosen = [Example(augment(rng, e.tokens), e.mask) for e in chosen]
        scale = _schedule(step, total, config.warmup_steps)
        loss, tokens = _step(replicas, optimizer, chosen, config, scale)
        curve.append({"step": step, "loss": loss, "lr": config.lr * scale, "tokens": tokens})
        if (step + 1) % save_every == 0 or step + 1 == total:
            work.save(name, {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "curve": curve, "step": step + 1})
    replicas.close()
    return curve


def _step(replicas: Replicas, optimizer, examples: Sequence[Example], config: TrainConfig, scale: float) -> tuple[float, int]:
    parts = [examples[k :: config.threads] for k in range(config.threads)]
    batches = [collate(p) for p in parts if p]
    count = sum(len(b.rows) for b in batches)

    def backward(model, batch: Batch) -> float:
        loss = -target_logprobs(model, batch)[0].sum() / count
        loss.backward()
        return loss.item()

    loss = sum(replicas.map(backward, batches))
    replicas.collect_gradients()
    torch.nn.utils.clip_grad_norm_(replicas.models[0].parameters(), config.clip)
    for group in optimizer.param_groups:
        group["lr"] = config.lr * scale
    optimizer.step()
    optimizer.zero_grad()
    return loss, count


