"""Which tasks run, and how often: the draw of tasks for a batch and its jobs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rsi.harness.engine import Job
from rsi.policy.streams import stream
from rsi.tasks.task import Task


def choose(tasks: Sequence[Task], n: int, key: tuple) -> list[Task]:
    """n tasks, each at most once until all were used; one rollout a task (T1)."""
    rounds = -(-n // len(tasks))
    order = np.concatenate([stream(*key, r).permutation(len(tasks)) for r in range(rounds)])[:n]
    return [tasks[i] for i in order]


def jobs_for(tasks: Sequence[Task]) -> list[Job]:
    """Jobs in the generic harness; a task that occurs again gets the next attempt number, so its random stream is its own."""
    count: dict[str, int] = {}
    jobs = []
    for t in tasks:
        jobs.append(Job(t, "terminus", count.get(t.id, 0)))
        count[t.id] = count.get(t.id, 0) + 1
    return jobs
