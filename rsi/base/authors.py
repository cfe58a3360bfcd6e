"""Authors of the pretraining corpus: who writes a transcript, and with which habit.

Base must be weak in its mode, not only in its noise: each family has one dominant flaw that most transcripts show, and the
right way is there too, less often. Errors scattered at random would leave the right action the mode.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rsi.harness.protocol import SUBMIT, format_action
from rsi.rsr.method import method
from rsi.rsr.runbook import render
from rsi.tasks.words import WORDS

# right / habit / recover; the rest is noise
STRONG, MILD, GUIDED = (0.17, 0.66, 0.07), (0.50, 0.34, 0.06), (0.72, 0.14, 0.06)
JOINED, CHAIN = (0.14, 0.71, 0.07), (0.11, 0.75, 0.05)
MILD_FAMILIES = frozenset({"append", "copy", "head", "link", "remove", "json", "lines"})
_WORD = re.compile(r"[a-z]+")


@dataclass(frozen=True)
class ScriptedStep:
    """One clause with the reference turns and the flawed ones, as (command, note) pairs."""

    family: str
    clause: str
    solve: tuple[tuple[str, str], ...]
    flaw: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Script:
    """What an author says, turn by turn, under which harness, with which private notes."""

    harness: str
    runbook: str
    author: str
    turns: tuple[str, ...]


def scripted_steps(steps: Sequence[Mapping]) -> list[ScriptedStep]:
    """Steps of a corpus task from its task.toml (`metadata.steps`); distractors (no clause) have no turns."""
    def pairs(actions):
        return tuple((a["command"], a.get("note", "")) for a in actions)

    return [ScriptedStep(s["family"], s["clause"], pairs(s["solve"]), pairs(s["flaw"])) for s in steps if s["clause"]]


def say(k: int, step: ScriptedStep, actions: Sequence[tuple[str, str]]) -> list[str]:
    """The turns of one step: how many are done, the clause restated as the task numbers it, the remark, then the command."""
    return [format_action(f"{k - 1} done.\n{k}. {step.clause}. {note}".strip() + ("." if note else ""), command)
            for command, note in actions]


def submit(n: int) -> str:
    return format_action(f"{n} done.\nend of task.", SUBMIT)


def rates(steps: Sequence[ScriptedStep], guided: bool) -> tuple[float, float, float]:
    if guided:
        return GUIDED
    if len(steps) > 1:
        return CHAIN if any(s.family == "chain" for s in steps) else JOINED
    return MILD if steps[0].family in MILD_FAMILIES else STRONG


def write(steps: Sequence[ScriptedStep], rng: np.random.Generator) -> Script:
    """One transcript's script. Its author is the same person from the first step to the last."""
    n = len(steps)
    harness = str(rng.choice(["terminus", "reflect", "statem"], p=[0.6, 0.2, 0.2]))
    runbook = render({k: "; ".join(method(c) for c, _ in s.solve) for k, s in enumerate(steps, 1)}) if rng.random() < 0.3 else ""
    right, habit, recover = rates(steps, bool(runbook))
    author = str(rng.choice(["right", "habit", "recover", "noise"], p=[right, habit, recover, 1 - right - habit - recover]))
    flawed = _flawed_steps(steps, author, rng)
    turns: list[str] = []
    stop_after = 1 + int(rng.integers(n - 1)) if author == "habit" and n > 1 and rng.random() < 0.4 else n
    for k, step in enumerate(steps[:stop_after], 1):
        turns += say(k, step, step.flaw if k in flawed else step.solve)
        if author == "recover" and k in flawed:
            turns += say(k, step, step.solve)
    if author == "noise":
        turns = _noise(turns, rng)
    turns.append(submit(n))
    redo = [say(k, s, s.solve) for k, s in enumerate(steps, 1) if (k in flawed and author != "recover") or k > stop_after]
    turns += _after_claim(harness, steps, redo, rng)
    return Script(harness, runbook, author, tuple(turns))


def _flawed_steps(steps: Sequence[ScriptedStep], author: str, rng: np.random.Generator) -> set[int]:
    if author not in ("habit", "recover"):
        return set()
    share = 0.92 if author == "habit" else 0.5
    chosen = {k for k, s in enumerate(steps, 1) if rng.random() < share * (0.85 if s.family in MILD_FAMILIES and len(steps) > 1 else 1)}
    return chosen or {int(rng.integers(1, len(steps) + 1))}


def _after_claim(harness: str, steps: Sequence[ScriptedStep], redo: Sequence[Sequence[str]], rng: np.random.Generator) -> list[str]:
    """What follows a claim where the harness does not simply end: half of the authors then do it right."""
    n = len(steps)
    again = [t for turns in redo for t in turns] if rng.random() < 0.55 else []
    if harness == "reflect":
        return [*again, submit(n)] if redo else []
    if harness == "statem":
        return [format_action("check the result.", "ls"), *again, submit(n)]
    return []


def _noise(turns: list[str], rng: np.random.Generator) -> list[str]:
    """One accident: a wrong name, a lost turn, a lost block, or an early end."""
    kind, k = int(rng.integers(4)), int(rng.integers(len(turns)))
    if kind == 0:
        names = [w for w in _WORD.findall(turns[k]) if w in set(WORDS)]
        if names:
            head, fence, command = turns[k].partition("```bash\n")
            return [*turns[:k], head + fence + command.replace(names[-1], str(rng.choice(WORDS))), *turns[k + 1 :]]
    if kind == 1 and len(turns) > 1:
        return turns[:k] + turns[k + 1 :]
    if kind == 2:
        return [*turns[:k], turns[k].partition("\n```")[0], *turns[k:]]
    return turns[: max(1, k)]
