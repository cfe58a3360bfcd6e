"""Does a task hold what it says? Its reference must solve it, doing nothing must not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rsi.sandbox import SandboxError, open_many, run_many, verify_many
from rsi.sandbox.protocol import Verdict
from rsi.tasks.task import Task

WIDTH = 32
SCRIPT_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class OracleRow:
    """One task. `reference`: strict under solution/solve.sh. `noop`: strict without any work (None: not tried).

    `holds_before`: the checks that pass without any work. `flagged`: they are exactly those the task flags.
    `cause`: why a verdict is invalid, else "".
    """

    task: str
    reference: bool
    noop: bool | None
    holds_before: tuple[str, ...]
    flagged: bool
    cause: str

    @property
    def ok(self) -> bool:
        return self.reference and not self.noop and self.flagged and not self.cause


def verdicts(tasks: Sequence[Task], scripts: Sequence[str], pool) -> list[Verdict]:
    """Run one script in a fresh sandbox of each task and verify; an empty script is not run.

    Raises SandboxError when a task cannot be opened or its sandbox dies.
    """
    result: list[Verdict] = []
    for at in range(0, len(tasks), WIDTH):
        batch, texts = tasks[at : at + WIDTH], scripts[at : at + WIDTH]
        pool.prestart(len(batch))
        boxes = [pool.take() for _ in batch]
        try:
            _raise_first(open_many(boxes, batch))
            busy = [(box, text) for box, text in zip(boxes, texts, strict=True) if text]
            _raise_first(run_many([b for b, _ in busy], [t for _, t in busy], SCRIPT_TIMEOUT_S))
            result += verify_many(boxes)
        finally:
            for box in boxes:
                box.close()
    return result


def _raise_first(results: Sequence[object]) -> None:
    for r in results:
        if isinstance(r, SandboxError):
            raise r


def oracle(tasks: Sequence[Task], pool, noop: bool = True) -> list[OracleRow]:
    """Try the reference of every task, and the no-op, in sandboxes of `pool`.

    Raises SandboxError (see `verdicts`), OSError when a task has no readable solution.
    """
    references = verdicts(tasks, [task.solution_script.read_text() for task in tasks], pool)
    idle = verdicts(tasks, [""] * len(tasks), pool) if noop else [None] * len(tasks)
    return [_row(task, r, n) for task, r, n in zip(tasks, references, idle, strict=True)]


def _row(task: Task, reference: Verdict, idle: Verdict | None) -> OracleRow:
    held = tuple(name for name, passed in idle.checks.items() if passed) if idle else ()
    flags = tuple(c.name for c in task.checks if c.holds_before)
    return OracleRow(task.id, reference.strict, idle.strict if idle else None, held,
                     idle is None or set(held) == set(flags), reference.cause or (idle.cause if idle else ""))
