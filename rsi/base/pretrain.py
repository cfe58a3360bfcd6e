"""Base: a Qwen3-architecture model trained from scratch on the corpus; loss on actions and observations, not on prompts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rsi.harness.episode import Episode
from rsi.params import Base
from rsi.persist import WorkDir
from rsi.policy.batch import Example
from rsi.policy.chat import ChatFormat
from rsi.policy.model import Policy, new_base
from rsi.policy.train import TrainConfig, train_lm


def renamer(fmt: ChatFormat, names: Sequence[str]):
    """Augmentation: a random permutation of the name tokens, another one for every transcript in every batch.

    It teaches copying instead of memorising. Only Base's corpus, mixed in quality by design, is renamed without running
    it again; sorted observations are then no longer sorted in a few families, which is noise of the same kind.
    """
    ids = np.asarray(fmt.tokenizer.convert_tokens_to_ids(list(names)), np.int32)

    def rename(rng: np.random.Generator, tokens: np.ndarray) -> np.ndarray:
        table = np.arange(len(fmt.tokenizer), dtype=np.int32)
        table[ids] = ids[rng.permutation(len(ids))]
        return table[tokens]

    return rename


def pretrain(episodes: Sequence[Episode], fmt: ChatFormat, params: Base, positions: int, names: Sequence[str], work: WorkDir) -> tuple[Policy, list[dict]]:
    """Train Base on the short transcripts (half an epoch), then on all; returns it with its loss curve."""
    model = new_base(fmt.tokenizer, hidden=params.hidden, layers=params.layers, heads=params.heads, kv_heads=params.kv_heads, head_dim=params.head_dim,
                     mlp=params.mlp, positions=positions, seed=params.seed)
    examples = []
    for e in episodes:
        if e.verdict.valid and len(e.tokens) <= positions:
            mask = np.ones(len(e.tokens), bool)
            mask[: e.prompt_length] = False
            examples.append(Example(e.tokens, mask))
    phases = [("short", [e for e in examples if len(e.tokens) <= params.short_tokens], 0.5), ("all", examples, params.epochs)]
    curve: list[dict] = []
    for label, chosen, epochs in phases:
        if chosen:
            config = TrainConfig(lr=params.lr, epochs=epochs, batch_tokens=params.batch_tokens)
            rows = train_lm(model, chosen, config, key=(params.seed, "base", label), work=work, augment=renamer(fmt, names), label=label, save_every=200)
            curve += [{**row, "step": len(curve) + k, "phase": label} for k, row in enumerate(rows)]
    return Policy(model, fmt), curve
