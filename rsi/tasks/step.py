"""A step: one clause of an instruction with everything needed to set it up, solve it, get it wrong and check it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from rsi.tasks.words import WORDS


@dataclass(frozen=True)
class Action:
    """One turn: a command block and a short lower-case remark for the thought line (may be empty)."""

    command: str
    note: str = ""


@dataclass(frozen=True)
class Check:
    """One named condition in bash, evaluated in /app by the verifier with the functions of `rsi.tasks.verifier`."""

    name: str
    test: str
    kind: Literal["intermediate", "final"] = "final"
    holds_before: bool = False


@dataclass(frozen=True)
class Step:
    """One clause of a task.

    `clause`: imperative, lower case, without number and final period. `setup`: bash lines run in /app.
    `solve`: the reference. `flaw`: the family's dominant systematic mistake; it runs and leaves a final check failing.
    `hint`: the method without names or values. `start`: bash lines that start processes in the agent's sandbox.
    `functions`: bash functions that the checks use beyond those of `rsi.tasks.verifier`.
    """

    family: str
    clause: str
    setup: str
    solve: tuple[Action, ...]
    flaw: tuple[Action, ...]
    hint: str
    checks: tuple[Check, ...]
    start: str = ""
    functions: str = ""


class Names:
    """Hands out pool words, each at most once per task, so that steps joined in one task never collide.

    `mapping` renames words as they are drawn: the same draws under other names give a renamed task whose sorted
    contents, counts and checksums are right by construction.
    """

    def __init__(self, rng: random.Random, mapping: Mapping[str, str] | None = None) -> None:
        mapping = mapping or {}
        self._left = [mapping.get(w, w) for w in rng.sample(WORDS, len(WORDS))]
        self._rank = {w: -i for i, w in enumerate(self._left)}

    def word(self) -> str:
        """A fresh word. Raises IndexError when the pool is used up."""
        return self._left.pop()

    def oldest_first(self, words: Iterable[str]) -> list[str]:
        """The words in the order in which they were handed out, which no renaming changes."""
        return sorted(words, key=self._rank.__getitem__)

    def words(self, n: int) -> list[str]:
        return [self.word() for _ in range(n)]

    def file(self, ext: str = "txt") -> str:
        return f"{self.word()}.{ext}"


Build = Callable[[random.Random, Names], Step]


def put(path: str, *lines: str) -> str:
    """The setup line that writes `lines` to `path` (a builtin, no process)."""
    return "printf '%s\\n' " + " ".join(f"'{line}'" for line in lines) + f" > {path}"


def same(path: str, *lines: str) -> str:
    """The condition that `path` holds exactly `lines`."""
    return f"same {path} " + " ".join(f"'{line}'" for line in lines)


def has(path: str, line: str) -> str:
    """The condition that one line of `path` is `line`."""
    return f"has {path} '{line}'"
