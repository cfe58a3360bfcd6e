"""From steps to a Harbor task directory, in memory (`TaskFiles`) or on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import tomli_w

from rsi.tasks.step import Check, Step
from rsi.tasks.verifier import test_script

SCHEMA_VERSION = "1.4"

DOCKERFILE = """FROM debian:12-slim
RUN apt-get update && apt-get install -y --no-install-recommends git patch procps && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY setup.sh /tmp/setup.sh
RUN bash /tmp/setup.sh && rm /tmp/setup.sh
"""
DOCKERFILE_START = """COPY start.sh /usr/local/lib/start.sh
CMD ["bash", "-c", "bash /usr/local/lib/start.sh; while :; do sleep 600 & wait; done"]
"""


@dataclass(frozen=True)
class TaskFiles:
    """One generated task: the text of its files by relative path, and the steps they were made from.

    `origin`: (suite, seed, index, attempt) from which the generator makes the same task again.
    `renamed`: the words that were given other names.
    """

    id: str
    suite: str
    family: str
    instruction: str
    files: Mapping[str, str]
    steps: tuple[Step, ...] = field(repr=False)
    origin: tuple[str, int, int, int]
    renamed: Mapping[str, str] = field(default_factory=dict)

    def write(self, out_dir: Path) -> Path:
        """Write the directory `out_dir/<id>` and return it. Raises OSError."""
        root = Path(out_dir) / self.id
        for folder in {(root / name).parent for name in self.files}:
            folder.mkdir(parents=True, exist_ok=True)
        for name, text in self.files.items():
            (root / name).write_text(text)
            if name.endswith(".sh"):
                (root / name).chmod(0o755)
        return root


def numbered_checks(steps: Sequence[Step]) -> list[Check]:
    """The checks of all steps, each named `s<step>-<name>`."""
    return [replace(c, name=f"s{k}-{c.name}") for k, step in enumerate(steps, 1) for c in step.checks]


def instruction_of(steps: Sequence[Step], note: str = "") -> str:
    """The note (a caution), if any, as the first line, then numbered clauses, one a line."""
    lines = [f"{k}. {step.clause}." for k, step in enumerate((s for s in steps if s.clause), 1)]
    return "\n".join([*([f"caution: {note}."] if note else []), *lines]) + "\n"


def assemble(
    task_id: str,
    steps: Sequence[Step],
    origin: tuple[str, int, int, int],
    *,
    guide: bool,
    note: str = "",
    renamed: Mapping[str, str] | None = None,
) -> TaskFiles:
    """Make the files of one task. `guide`: write hint, solution and flaw of each step into task.toml (the pretraining corpus only).

    A step without a clause (a distractor) only adds its setup and checks.
    """
    families = [s.family for s in steps if s.clause]
    family = "+".join(sorted(set(families)))
    checks = numbered_checks(steps)
    suite, seed, index, attempt = origin
    metadata: dict = {
        "family": family, "families": families, "suite": suite, "seed": seed, "index": index, "attempt": attempt,
    }
    if renamed:
        metadata["renamed"] = dict(renamed)
    if guide:
        metadata["steps"] = [
            {"family": s.family, "clause": s.clause, "hint": s.hint, "solve": [asdict(a) for a in s.solve],
             "flaw": [asdict(a) for a in s.flaw]}
            for s in steps
        ]
    metadata["checks"] = [{"name": c.name, "kind": c.kind, "holds_before": c.holds_before} for c in checks]
    config = {
        "schema_version": SCHEMA_VERSION,
        "metadata": metadata,
        "agent": {"timeout_sec": 120.0},
        "verifier": {"timeout_sec": 30.0},
        "environment": {"build_timeout_sec": 600.0, "cpus": 1, "memory_mb": 256, "storage_mb": 64},
    }
    instruction = instruction_of(steps, note)
    setup = "\n".join(s.setup for s in steps if s.setup)
    start = "\n".join(s.start for s in steps if s.start)
    files = {
        "task.toml": tomli_w.dumps(config),
        "instruction.md": instruction,
        "environment/Dockerfile": DOCKERFILE + (DOCKERFILE_START if start else ""),
        "environment/setup.sh": f"#!/bin/bash\nset -e\ncd /app\n{setup}\n",
        "tests/test.sh": test_script(checks, "".join(dict.fromkeys(s.functions for s in steps if s.functions))),
        "solution/solve.sh": "#!/bin/bash\ncd /app\n" + "".join(f"{a.command}\n" for s in steps for a in s.solve),
    }
    if start:
        files["environment/start.sh"] = f"#!/bin/bash\ncd /app\n{start}\n"
    return TaskFiles(task_id, suite, family, instruction, files, tuple(steps), origin, dict(renamed or {}))
