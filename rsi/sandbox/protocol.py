"""The sandbox contract (DESIGN, "Sandbox" and "Verdict"). Every backend and every harness speaks exactly this."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from rsi.tasks.task import Task


class SandboxError(RuntimeError):
    """The sandbox itself failed (could not start, died). Infrastructure, never the agent's fault.

    kind: its row in `rsi.sandbox.verdict.ERRORS`.
    """

    kind = "sandbox"


class ShellLost(SandboxError):
    """The agent cut its own shell off from the host. The sandbox lives, and its end state can be verified."""


class SetupError(SandboxError):
    """The sandbox is well, but the task cannot be laid out in it: its setup script failed, or it needs what is not there."""

    kind = "setup"


@dataclass(frozen=True)
class CommandResult:
    """What one command did. `output`: stdout and stderr in order, capped to head and tail, decoded with replacement."""

    exit_code: int
    output: str
    truncated: bool = False
    timed_out: bool = False


@dataclass(frozen=True)
class Verdict:
    """What the verifier said. `valid=False` means there is no verdict: never a reward of 0, never trained on.

    checks: {name: passed}, in the order of the report. strict: every final check passed (False where invalid).
    reward: the scalar of the reward file, None where there is none. cause: why invalid, else "".
    """

    checks: dict[str, bool] = field(default_factory=dict)
    strict: bool = False
    valid: bool = True
    cause: str = ""
    reward: float | None = None


class Sandbox(Protocol):
    """One episode's machine. State (cwd, environment, background jobs) lives across `run` calls; it starts in /app."""

    def open(self, task: Task) -> None:
        """Build the task's initial state. Raises SetupError when the setup script fails, SandboxError otherwise."""

    def run(self, command: str, timeout: float) -> CommandResult:
        """Run one command block in the episode's shell. Raises SandboxError when the sandbox is dead."""

    def put(self, path: str, data: bytes) -> None: ...

    def get(self, path: str) -> bytes: ...

    def verify(self, *, final: bool = True) -> Verdict:
        """Run the task's verifier apart from the agent. With `final=False` the agent's shell goes on afterwards
        and finds no trace of the verification. Never raises for what the agent or the verifier did."""

    def close(self) -> None:
        """Leave no process behind. Idempotent."""
