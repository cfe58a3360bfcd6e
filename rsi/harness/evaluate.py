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


def evaluate(tasks: Sequence[Task], actor: Path, pool: RolloutPool, config: RolloutConfig, sampling: Sampling, attempts: int, *, stage: str, seed: int,
             work: WorkDir, name: str) -> list[Episode]:
    """`attempts` episodes a task at `sampling`, in order of task and attempt."""
    jobs = [Job(t, "terminus", k) for t in tasks for k in range(attempts)]
    return pool.run(jobs, PolicyRef(actor), replace(config, sampling=sampling), stage=stage, seed=seed, work=work.sub(name), label=f"{stage} {name}")
