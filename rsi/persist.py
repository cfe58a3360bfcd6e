"""Scratch directories that make long stages resumable: keyed by a hash of all that determines their content."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import torch

ROOT = Path("data/work")


def digest(*parts: object) -> str:
    """Hash of parameters and inputs: JSON-able values by value, paths by the bytes below them."""
    h = hashlib.blake2b(digest_size=12)
    for part in parts:
        if isinstance(part, Path):
            for file in sorted(p for p in ([part] if part.is_file() else part.rglob("*")) if p.is_file()):
                h.update(str(file.relative_to(part)).encode() + b"\0" + file.read_bytes() + b"\0")
        else:
            h.update(json.dumps(part, sort_keys=True, default=str).encode() + b"\0")
    return h.hexdigest()


class WorkDir:
    """Scratch space of one stage. Reopened with the same key after a kill it still holds what was finished."""

    def __init__(self, name: str, *key: object, root: Path | None = None):
        self.path = (root or ROOT) / name.replace("/", "-") / digest(*key)
        self.path.mkdir(parents=True, exist_ok=True)

    def sub(self, name: str) -> Path:
        path = self.path / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def save(self, name: str, state: object) -> None:
        """torch.save, whole or not at all."""
        part = self.path / f"{name}.part{os.getpid()}"
        torch.save(state, part)
        os.replace(part, self.path / name)

    def load(self, name: str):
        path = self.path / name
        return torch.load(path, weights_only=False) if path.exists() else None

    def once(self, name: str, make: Callable[[], object]):
        """The stored value of `name`, made and stored when it is not there yet."""
        value = self.load(name)
        if value is None:
            value = make()
            self.save(name, value)
        return value

    def discard(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
