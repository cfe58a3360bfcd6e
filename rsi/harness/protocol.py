"""What a harness is: it opens the conversation and answers each action with one request to the engine.

A harness never runs anything itself. It is one small object per episode, so its state is the episode's state.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, Protocol

from rsi.sandbox.protocol import CommandResult
from rsi.tasks.task import Task

SUBMIT = "submit"
_BLOCK = re.compile(r"```(?:bash|sh)?\n(.*?)\n?```", re.DOTALL)


@dataclass(frozen=True)
class Action:
    """One parsed model turn: a thought line and a command block. `error` says why there is no command."""

    thought: str
    command: str
    error: str = ""

    @property
    def submits(self) -> bool:
        return self.command == SUBMIT


@dataclass(frozen=True)
class Request:
    """What the harness wants done: run a command, verify a claim, say `text`, or finish the episode."""

    kind: Literal["run", "verify", "say", "finish"]
    text: str = ""


class Harness(Protocol):
    name: str

    def messages(self) -> list[dict]:
        """System and user message that open the episode."""

    def react(self, action: Action) -> Request: ...

    def observe(self, result: CommandResult) -> str:
        """Observation text after a command."""

    def verified(self, strict: bool) -> str | None:
        """Text after a mid-episode verification; None ends the episode."""


def parse_action(text: str) -> Action:
    """Exactly one fenced block is the command; the text before it is the thought."""
    blocks = list(_BLOCK.finditer(text))
    if len(blocks) != 1:
        return Action(text.strip(), "", "no command block" if not blocks else "more than one command block")
    command = blocks[0].group(1).strip("\n")
    if not command.strip():
        return Action(text.strip(), "", "the command block is empty")
    return Action(text[: blocks[0].start()].strip(), command.strip() if command.strip() == SUBMIT else command)


def format_action(thought: str, command: str) -> str:
    """The text of a turn: what `parse_action` reads."""
    return f"{thought}\n```bash\n{command}\n```"


def format_result(result: CommandResult) -> str:
    """Exit code and capped output, as every harness shows them."""
    head = "timed out" if result.timed_out else f"exit {result.exit_code}"
    return f"{head}\n{result.output}".rstrip("\n")


class Terminus:
    """The generic harness, the one evaluated (Terminus-2 in small): commands, output, and the model says when it is done.

    With a `runbook` it is the guided form: private notes stand before the task. They are not part of the public
    transcript; `rsi.rsr` rebuilds the stream without them before anything is trained on.
    """

    name = "terminus"
    system = "one thought line, then one bash block."

    def __init__(self, task: Task, runbook: str = ""):
        self.task, self.runbook = task, runbook

    def messages(self) -> list[dict]:
        notes = f"notes:\n{self.runbook}\n" if self.runbook else ""
        return [{"role": "system", "content": self.system},
                {"role": "user", "content": f"{notes}{self.task.instruction.strip()}\nend of task."}]

    def react(self, action: Action) -> Request:
        if action.error:
            return Request("say", f"error: {action.error}")
        return Request("finish") if action.submits else Request("run", action.command)

    def observe(self, result: CommandResult) -> str:
        return format_result(result)

    def verified(self, strict: bool) -> str | None:
        return None
