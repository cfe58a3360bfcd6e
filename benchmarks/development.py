"""Checkpoints on development tasks: the suites' generators under another seed, so that sizes and rates are chosen without looking
at an evaluation suite. One attempt a task at temperature 0.1.

Usage: python benchmarks/development.py data/checkpoints/base/actor data/checkpoints/rsr1-s0/actor ...
"""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np

from rsi.harness.engine import Job
from rsi.harness.pool import PolicyRef
from rsi.params import load_params
from rsi.policy.sampling import Sampling
from rsi.stages import rollout_config, rollout_pool
from rsi.tasks.load import load_suite
from rsi.tasks.suites import make_suite

SEED, SUITES = 77, ("tb21", "hard", "tb3", "tb4", "lhtb")


def main(checkpoints: list[str]) -> None:
    params = load_params()
    if params.tasks.seed == SEED:
        sys.exit(f"tasks.seed in params.yaml is {SEED}, the seed of the development tasks: choose another")
    config = replace(rollout_config(params), sampling=Sampling(params.eval.temperature, params.eval.top_p, params.eval.top_k))
    with tempfile.TemporaryDirectory() as folder, rollout_pool(params) as pool:
        jobs = []
        for key in SUITES:
            make_suite(f"standin-{key}", SEED, Path(folder) / key)
            jobs += [Job(replace(t, suite=key)) for t in load_suite(Path(folder) / key)]
        for number, checkpoint in enumerate(checkpoints):
            episodes = pool.run(jobs, PolicyRef(Path(checkpoint)), config, stage="development", seed=0, work=Path(folder) / f"work-{number}", label=checkpoint)
            rows = defaultdict(list)
            for e in episodes:
                if e.verdict.valid:
                    rows[e.suite].append((e.verdict.strict, e.progress))
            means = {key: np.mean(r, 0) for key, r in rows.items()}
            four = np.mean([means[key][0] for key in SUITES[:4]])
            print(f"{checkpoint}: strict % (progress %): four suites {100 * four:.1f}, "
                  + ", ".join(f"{key} {100 * s:.1f} ({100 * p:.1f})" for key, (s, p) in means.items()), flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    main(sys.argv[1:])
