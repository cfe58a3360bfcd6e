"""Planner and reviewer of Recursive Self-Rewrite: an interface with two implementations (programmatic here, chat model in chat.py).

A runbook says the end state, the milestones with their method, checks, recovery and pitfalls; never the deliverable (RSR paper).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from rsi.harness.episode import Episode
from rsi.harness.protocol import SUBMIT
from rsi.rsr.method import GIT, TOOLS, method
from rsi.tasks.task import Task

STEP = re.compile(r"^(\d+)\. ", re.MULTILINE)
_LITERAL = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{2,}|\d+")
_WORDS = frozenset("end all steps hold check look each result pitfall step may left out".split())
MAX_LINES, MAX_CHARS = 30, 1200


@dataclass(frozen=True)
class Review:
    """accepted, or the reason (a short code for the yield table) and the critique that goes back to the planner."""

    accepted: bool
    reason: str = ""
    critique: str = ""


class Planner(Protocol):
    def draft(self, task: Task, source: Episode, variant: int) -> str:
        """A runbook from a verified trajectory, harness messages stripped."""

    def rewrite(self, task: Task, source: Episode, runbook: str, review: Review) -> str:
        """The runbook again, with the critique applied."""


class Judge(Protocol):
    def judge(self, task: Task, runbook: str) -> Review:
        """Sees the public instruction and the runbook, nothing else."""


def milestones(source: Episode) -> dict[int, list[str]]:
    """The commands of each step as it was last done, in order: what a claim was rejected for, what failed and what a later
    return to the step replaced is left out."""
    blocks: dict[int, list[str]] = {}
    current = None
    for turn in source.turns:
        if turn.command == SUBMIT:
            current = None  # whatever follows does steps again
            continue
        found = STEP.search(turn.text)
        step = int(found.group(1)) if found else current
        if not turn.command or step is None:
            continue
        if step != current:
            blocks[step] = []
        if turn.exit_code == 0:
            blocks[step].append(turn.command)
        current = step
    return dict(sorted((step, commands) for step, commands in blocks.items() if commands))


def render(methods: dict[int, str], extra: list[str] | None = None) -> str:
    """The runbook's text; the pretraining corpus shows the same form."""
    lines = [f"end: all {len(methods)} steps hold."]
    lines += [f"{k}: {m}" for k, m in methods.items()]
    return "\n".join(lines + (extra or []))


class ProgrammaticPlanner:
    """The laptop planner. The first draft quotes each milestone's arguments; the reviewer's critique strips what is private.

    variant: 0 the methods alone, then with checks and with pitfalls, so that K runbooks of one source differ.
    """

    extras = ([], ["check: look at each result."], ["pitfall: no step may be left out."],
              ["check: look at each result.", "pitfall: no step may be left out."])

    def draft(self, task: Task, source: Episode, variant: int) -> str:
        blocks = milestones(source)
        if variant % 2 == 0:
            return render({k: "; ".join(method(c) for c in b) for k, b in blocks.items()}, self.extras[variant % 4])
        # odd variants begin with the last argument of each command as a milestone name: useful only if it is public
        named = {k: "; ".join(f"{method(c)} {c.split()[-1]}" if c.split() else "" for c in b) for k, b in blocks.items()}
        return render(named, self.extras[variant % 4])

    def rewrite(self, task: Task, source: Episode, runbook: str, review: Review) -> str:
        extra = [line for line in runbook.splitlines() if line.startswith(("check:", "pitfall:"))]
        return render({k: "; ".join(method(c) for c in b) for k, b in milestones(source).items()}, extra)


class ProgrammaticJudge:
    """Judges what a reader of the public task can: one milestone per numbered clause, each with a tool, no final answer."""

    def judge(self, task: Task, runbook: str) -> Review:
        clauses = len(re.findall(r"^\d+\. ", task.instruction, re.MULTILINE))
        steps = re.findall(r"^(\d+): *(.*)$", runbook, re.MULTILINE)
        if clauses and [int(k) for k, _ in steps] != list(range(1, clauses + 1)):
            return Review(False, "milestones", f"{len(steps)} milestones for {clauses} clauses")
        if any(not m.strip() for _, m in steps):
            return Review(False, "empty milestone", "a milestone names no method")
        return Review(True)


def private_literals(task: Task, source: Episode | None, text: str) -> list[str]:
    """Words and numbers of `text` that tests or solution hold and the public side (instruction, plain tools) does not."""
    private = "\n".join(p.read_text(errors="replace") for p in (task.tests_dir / "test.sh", task.solution_script) if p.is_file())
    hidden = set(_LITERAL.findall(private)) - set(_LITERAL.findall(task.instruction))
    said = re.sub(r"(?m)^\d+:|all \d+ steps|(?<!\S)--?[A-Za-z][A-Za-z-]*", " ", text)  # numbering and options are no values
    return [w for w in dict.fromkeys(_LITERAL.findall(said)) if w in hidden and w not in TOOLS | GIT | _WORDS]


def deterministic_review(task: Task, source: Episode, runbook: str) -> Review:
    """Checks before any judgement: format, unsupported tools, private literals, the deliverable itself."""
    lines = runbook.splitlines()
    if not lines or not lines[0].startswith("end:") or len(lines) > MAX_LINES or len(runbook) > MAX_CHARS:
        return Review(False, "format", "a runbook starts with 'end:', has at most 30 lines and 1200 characters")
    literals = private_literals(task, source, runbook)
    if literals:
        return Review(False, "private literal", f"remove {', '.join(literals[:5])}: tests or solution know it, the task does not say it")
    for turn in source.turns:
        words = turn.command.split()
        if len(words) >= 4 and turn.command in runbook:
            return Review(False, "deliverable", "a milestone quotes a whole command; say the method")
    unknown = [w for m in re.findall(r"^\d+: *(.*)$", runbook, re.MULTILINE) for part in re.split(r"[;|&]+", m) for w in part.split()[:1]
               if re.fullmatch(r"[a-z][a-z0-9]*", w) and w not in TOOLS]
    if unknown:
        return Review(False, "unsupported tool", f"{unknown[0]} is not available here")
    return Review(True)


def write_runbook(task: Task, source: Episode, variant: int, planner: Planner, judge: Judge, rounds: int) -> tuple[str | None, list[str]]:
    """Draft, review, rewrite with the critique, at most `rounds` times. Returns the runbook (None when given up) and the
    rejection reasons met on the way."""
    runbook, reasons = planner.draft(task, source, variant), []
    for _ in range(rounds + 1):
        review = deterministic_review(task, source, runbook)
        if review.accepted:
            review = judge.judge(task, runbook)
        if review.accepted:
            return runbook, reasons
        reasons.append(review.reason)
        runbook = planner.rewrite(task, source, runbook, review)
    return None, reasons
