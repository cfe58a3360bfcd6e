"""Evaluation: the generic harness on a suite, several attempts a task, each in a fresh sandbox (PAPER.md, "Evaluation")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rsi.harness.engine import Job, RolloutConfig
from rsi.harness.episode import Episode
from rsi.harness.pool import PolicyRef, RolloutPool
from rsi.persist import WorkDir
from rsi.policy.sampling import Sampling
from rsi.tasks.task import Task


def evaluate(tasks: Sequence[tuple[Task, int]], actor: Path, pool: RolloutPool, config: RolloutConfig, sampling: Sampling, *, stage: str, seed: int,
             work: WorkDir, name: str) -> list[Episode]:
    """(task, attempts) pairs at one sampling; episodes in order of task and attempt. All suites go in together, so that
    the workers are never left with the end of one suite.

    name: of the sampling. It is a part of the episodes' stage, so that two samplings share neither ids nor random streams."""
    jobs = [Job(t, "terminus", k) for t, attempts in tasks for k in range(attempts)]
    return pool.run(jobs, PolicyRef(actor), replace(config, sampling=sampling), stage=f"{stage}-{name}", seed=seed, work=work.sub(name))
