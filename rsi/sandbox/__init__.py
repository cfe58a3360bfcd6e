"""WHERE tasks are solved: the sandbox protocol, its backends by name, and the functions that drive many at once."""

from __future__ import annotations

from importlib import import_module

from rsi.sandbox.protocol import CommandResult, Sandbox, SandboxError, Verdict

# name: module with a SandboxPool and open_many, run_many, verify_many
SANDBOXES = {"bubblewrap": "rsi.sandbox.bubblewrap"}

__all__ = [
    "SANDBOXES",
    "CommandResult",
    "Sandbox",
    "SandboxError",
    "Verdict",
    "make_pool",
    "open_many",
    "refusals",
    "run_many",
    "verify_many",
]


def make_pool(name: str = "bubblewrap", limit: int = 96):
    """A pool of a named backend's sandboxes. Raises KeyError for an unknown name."""
    return import_module(SANDBOXES[name]).SandboxPool(limit)


def refusals(tasks, name: str = "bubblewrap") -> list[str]:
    """Why a named backend cannot run some of `tasks`: a line for each of these, with its remedy."""
    return [reason for task in tasks if (reason := import_module(SANDBOXES[name]).refusal(task))]


def _backend(sandboxes):
    return import_module(type(sandboxes[0]).__module__)


def open_many(sandboxes, tasks) -> list[SandboxError | None]:
    """Open each sandbox with its task; None, or the error in its place."""
    return _backend(sandboxes).open_many(sandboxes, tasks) if sandboxes else []


def run_many(sandboxes, commands, timeout: float) -> list[CommandResult | SandboxError]:
    """One command in each sandbox; a SandboxError in the place of a dead one."""
    return _backend(sandboxes).run_many(sandboxes, commands, timeout) if sandboxes else []


def verify_many(sandboxes, *, final: bool = True) -> list[Verdict]:
    """The verdict on each sandbox's task."""
    return _backend(sandboxes).verify_many(sandboxes, final=final) if sandboxes else []
