"""Every generated task in the real sandbox: the reference solves it, nothing else does."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from rsi.sandbox import make_pool
from rsi.sandbox.oracle import oracle, verdicts
from rsi.tasks.load import TaskError, load_task
from rsi.tasks.suites import SUITES, generate, rename, size
from rsi.tasks.words import WORDS

WORKERS = 2


def flaw_script(task):
    return "\n".join(a.command for step in task.steps for a in step.flaw)


def check(files, out_dir):
    """One worker's share: the problems found, as text."""
    tasks = [load_task(f.write(out_dir)) for f in files]
    with make_pool() as pool:
        problems = [repr(row) for row in oracle(tasks, pool) if not row.ok]
        flaws = [flaw_script(f) for f in files]
        flawed = [(t, s) for t, s in zip(tasks, flaws, strict=True) if s]
        for (task, _), verdict in zip(flawed, verdicts([t for t, _ in flawed], [s for _, s in flawed], pool), strict=True):
            if verdict.strict or not verdict.valid:
                problems.append(f"{task.id}: the flaw of {task.family} solves it or breaks the verifier: {verdict}")
    return problems


def check_all(files, out_dir):
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as workers:
        return [p for part in workers.map(check, [files[i::WORKERS] for i in range(WORKERS)], [out_dir] * WORKERS)
                for p in part]


@pytest.mark.parametrize("name", SUITES)
def test_oracle(name, tmp_path):
    files = generate(name, 0, min(size(name), 300) if name == "corpus" else None)
    assert check_all(files, tmp_path) == []


def test_renamed_tasks_hold_too(tmp_path):
    """Sort orders, counts and checksums are right under other names."""
    mapping = dict(zip(WORDS, WORDS[7:] + WORDS[:7], strict=True))
    renamed = []
    for task in generate("pool", 0, 120):
        try:
            renamed.append(rename(task, mapping))
        except TaskError:  # it would become an evaluation task
            continue
    assert len(renamed) > 60 and check_all(renamed, tmp_path) == []
