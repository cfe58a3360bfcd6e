"""The task contract: a Harbor task directory read into one immutable record (DESIGN, "Task")."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class CheckSpec:
    """One named check of a task's verifier.

    `kind`: *final* checks decide strict success, *intermediate* ones only count as progress.
    `holds_before`: the check already passes before any work; it is flagged and left out of progress.
    """

    name: str
    kind: Literal["intermediate", "final"] = "final"
    holds_before: bool = False


@dataclass(frozen=True)
class Task:
    """One task. Paths are absolute; everything else is what task.toml and instruction.md say."""

    id: str
    path: Path
    instruction: str
    family: str
    suite: str = ""
    checks: tuple[CheckSpec, ...] = ()
    verifier_timeout_s: float = 30.0
    memory_mb: int = 256
    storage_mb: int = 64
    metadata: dict = field(default_factory=dict, hash=False, compare=False)

    @property
    def setup_script(self) -> Path:
        """environment/setup.sh: builds the initial state of /app (run once, before the agent)."""
        return self.path / "environment" / "setup.sh"

    @property
    def tests_dir(self) -> Path:
        return self.path / "tests"

    @property
    def solution_script(self) -> Path:
        return self.path / "solution" / "solve.sh"
