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
from rsi.policy.streams import stream
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


def primer(count: int, vocab: int, names: np.ndarray, key: tuple) -> list[Example]:
    """`count` short streams of random tokens said twice; the loss is on the second time.

    Copying forms on these in seconds; without them the transcripts are fitted for thousands of steps by phrases alone.
    """
    rng, out = stream(*key), []
    for _ in range(count):
        length = int(rng.integers(8, 25))
        span = rng.integers(5, vocab, length) if rng.random() < 0.5 else rng.choice(names, length)
        gap = rng.integers(5, vocab, int(rng.integers(0, 8)))
        tokens = np.concatenate([span, gap, span]).astype(np.int32)
        mask = np.zeros(len(tokens), bool)
        mask[1 - length :] = True
        out.append(Example(tokens, mask))
    return out


def pretrain(episodes: Sequence[Episode], fmt: ChatFormat, params: Base, positions: int, names: Sequence[str], work: WorkDir) -> tuple[Policy, list[dict]]:
    """Train Base in three phases (copying primer, short transcripts, all transcripts); returns it with its loss curve."""
    model = new_base(fmt.tokenizer, hidden=params.hidden, layers=params.layers, heads=params.heads, kv_heads=params.kv_heads, head_dim=params.head_dim,
                     mlp=params.mlp, positions=positions, seed=params.seed)
    examples = []
    for e in episodes:
        if e.verdict.valid and len(e.tokens) <= positions:
            mask = np.ones(len(e.tokens), bool)
            mask[: e.prompt_length] = False
            examples.append(Example(e.tokens, mask))
    ids = np.asarray(fmt.tokenizer.convert_tokens_to_ids(list(names)), np.int32)
    phases = [("primer", primer(params.primer, len(fmt.tokenizer), ids, (params.seed, "primer")), 1.0, params.batch_tokens // 2, None),
              ("short", [e for e in examples if len(e.tokens) <= params.short_tokens], 1.0, params.batch_tokens, renamer(fmt, names)),
              ("all", examples, params.epochs, params.batch_tokens, renamer(fmt, names))]
    curve: list[dict] = []
    for label, chosen, epochs, batch, augment in phases:
        if chosen:
            config = TrainConfig(lr=params.lr, epochs=epochs, batch_tokens=batch)
            rows = train_lm(model, chosen, config, key=(params.seed, "base", label), work=work, augment=augment, label=label, save_every=200)
            curve += [{**row, "step": len(curve) + k, "phase": label} for k, row in enumerate(rows)]
    return Policy(model, fmt), curve
