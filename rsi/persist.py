"""What is written whole or not at all: files, small results, and the scratch directories that make long stages resumable."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

ROOT = Path("data/work")
PACKAGE = Path(__file__).parent


def digest(*parts: object) -> str:
    """Hash of parameters and inputs: JSON-able values by value, paths by the bytes below them.

    Raises FileNotFoundError for a path that is not there: an input that is missing must not look like an empty one.
    """
    h = hashlib.blake2b(digest_size=12)
    for part in parts:
        if isinstance(part, Path):
            if not part.exists():
                raise FileNotFoundError(f"{part}: not found; an earlier stage makes it (`dvc repro`)")
            for file in sorted(p for p in ([part] if part.is_file() else part.rglob("*")) if p.is_file()):
                h.update(str(file.relative_to(part)).encode() + b"\0" + file.read_bytes() + b"\0")
        else:
            h.update(json.dumps(part, sort_keys=True, default=str).encode() + b"\0")
    return h.hexdigest()


@cache
def code() -> str:
    """Hash of this package's source, read once a process: what an edited stage left half done is not gone on with."""
    files = sorted(PACKAGE.rglob("*.py"))
    return digest([str(f.relative_to(PACKAGE)) for f in files], *files)


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A file to write in the place of `path`, which then appears whole or not at all: a reader never meets half of it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part{os.getpid()}")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> Path:
    with whole(path) as part:
        part.write_text(text)
    return Path(path)


def write_json(path: Path, value: object) -> Path:
    """Small results: sorted keys, floats to 8 digits, NaN as null (JSON can hold it, and no reader takes it for a number)."""
    return write_text(path, json.dumps(_plain(value), indent=1, sort_keys=True, allow_nan=False) + "\n")


def _plain(value):
    if isinstance(value, float):
        return round(value, 8) if value == value and abs(value) != float("inf") else None
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value


def replace_dir(part: Path, path: Path) -> None:
    """Move a finished directory into the place of `path`."""
    old = path.with_name(path.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        os.replace(path, old)
    os.replace(part, path)
    shutil.rmtree(old, ignore_errors=True)


class WorkDir:
    """Scratch space of one stage. Reopened with the same key and the same code after a kill it still holds what was finished.

    The key must hold all that determines the content, and nothing else.
    """

    def __init__(self, name: str, *key: object, root: Path | None = None):
        self.path = (root or ROOT) / name.replace("/", "-") / digest(code(), *key)
        self.path.mkdir(parents=True, exist_ok=True)

    def sub(self, name: str) -> Path:
        path = self.path / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def save(self, name: str, state: object) -> None:
        """torch.save, whole or not at all."""
        import torch  # takes seconds, and writers of text and JSON do not need it

        with whole(self.path / name) as part:
            torch.save(state, part)

    def load(self, name: str):
        import torch

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
