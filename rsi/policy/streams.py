"""Per-episode random streams: all randomness of an episode comes from (run seed, stage, task, attempt) alone."""

from __future__ import annotations

import hashlib

import numpy as np


def stream(*key: object) -> np.random.Generator:
    """A counter-based generator keyed by its arguments, the same on every platform and in every process."""
    digest = hashlib.blake2b("\x1f".join(map(str, key)).encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))
