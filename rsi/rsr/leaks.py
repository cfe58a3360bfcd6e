"""The value-leak filter: a run that uses a value neither the task nor the environment could yield is dropped (RSR paper)."""

from __future__ import annotations

import re

from rsi.harness.episode import Episode
from rsi.harness.protocol import SUBMIT

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]{2,}")
_NUMBER = re.compile(r"(?<![\w$-])\d{2,}(?![\w])")


def leaked_values(episode: Episode, private: set[str]) -> list[str]:
    """Private values used in a command before anything public showed them.

    private: words and numbers that only tests, solution or the hidden initial state hold (see `private_values`).
    Public so far: the instruction and all earlier observations of the executed episode.
    """
    seen = set(_NAME.findall(episode.instruction)) | set(_NUMBER.findall(episode.instruction))
    found: list[str] = []
    for turn in episode.turns:
        if turn.command and turn.command != SUBMIT:
            used = set(_NAME.findall(turn.command)) | set(_NUMBER.findall(turn.command))
            found += sorted(w for w in used if w in private and w not in seen)
        seen |= set(_NAME.findall(turn.observation)) | set(_NUMBER.findall(turn.observation))
    return list(dict.fromkeys(found))


def private_values(task, vocabulary: set[str]) -> set[str]:
    """Values of a task that its instruction does not say: names of `vocabulary` and numbers of two digits and more."""
    text = "\n".join(p.read_text(errors="replace") for p in (task.tests_dir / "test.sh", task.solution_script, task.setup_script) if p.is_file())
    names = {w for w in _NAME.findall(text) if w in vocabulary}
    return (names | set(_NUMBER.findall(text))) - set(_NAME.findall(task.instruction)) - set(_NUMBER.findall(task.instruction))
