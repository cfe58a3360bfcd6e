"""The value-leak filter: a run that uses a value neither the task nor the environment could yield is dropped (RSR paper)."""

from __future__ import annotations

import re

from rsi.harness.episode import Episode
from rsi.harness.protocol import SUBMIT
from rsi.rsr.method import GIT, TOOLS

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]{2,}")
_NUMBER = re.compile(r"(?<![\w$-])\d{2,}(?![\w])")
_QUOTED = re.compile(r"""["']([^"'\n]+)["']""")


def leaked_values(episode: Episode, private: set[str]) -> list[str]:
    """Private values that a turn used before anything public showed them: numbers and names in its command, numbers in its thought.

    Names in a thought are left out, since the tests of a task from elsewhere quote common English.

    private: words and numbers that only tests, solution or the hidden initial state hold (see `private_values`).
    Public so far: the instruction and all earlier observations of the executed episode.
    """
    seen = set(_NAME.findall(episode.instruction)) | set(_NUMBER.findall(episode.instruction))
    found: list[str] = []
    for turn in episode.turns:
        used = set(_NUMBER.findall(turn.text)) | (set(_NAME.findall(turn.command)) if turn.command != SUBMIT else set())
        found += sorted(w for w in used if w in private and w not in seen)
        seen |= set(_NAME.findall(turn.observation)) | set(_NUMBER.findall(turn.observation))
    return list(dict.fromkeys(found))


def private_values(task, vocabulary: set[str]) -> set[str]:
    """Values of a task that its instruction does not say: names and numbers of two digits and more in its tests, solution and setup.

    Of a task generated here the names are those of `vocabulary`. Another's cannot be told from the words of its scripts by a list:
    there, whatever stands in quotes counts, tools apart. That is a guess both ways: a good run may be lost to it, and a name that no
    script quotes is not found.
    """
    files = [*sorted(task.tests_dir.rglob("*")), task.solution_script, task.setup_script]
    text = "\n".join(p.read_text(errors="replace") for p in files if p.is_file())
    if "suite" in task.metadata:
        names = {w for w in _NAME.findall(text) if w in vocabulary}
    else:
        names = {w for quoted in _QUOTED.findall(text) for w in _NAME.findall(quoted)} - TOOLS - GIT
    return (names | set(_NUMBER.findall(text))) - set(_NAME.findall(task.instruction)) - set(_NUMBER.findall(task.instruction))
