"""pass@16 of Base at temperature 1 on every training family: is the right behaviour in its support?

Writes data/results/base_gates.json ({family: {tasks, passed}}); tests/unit/test_results.py holds the gates on it.
Tasks are of the training pool: one step a family, beside them joined ones and chains; no evaluation task is touched.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace

from rsi import paths
from rsi.harness.engine import Job
from rsi.harness.pool import PolicyRef
from rsi.params import load_params
from rsi.persist import write_json
from rsi.policy.sampling import Sampling
from rsi.stages import pool_tasks, rollout_config, rollout_pool, work_dir

SAMPLES, TASKS = 16, 4


def main() -> None:
    params = load_params()
    by_family = defaultdict(list)
    for task in pool_tasks(params):
        kind = "joined" if "+" in task.family else task.family
        if len(by_family[kind]) < (5 * TASKS if kind in ("joined", "chain") else TASKS):
            by_family[kind].append(task)
    jobs = [Job(t, "terminus", k) for tasks in by_family.values() for t in tasks for k in range(SAMPLES)]
    work = work_dir(params, "base-gates", SAMPLES, TASKS, paths.actor("base"), suites=["pool"])
    with rollout_pool(params) as pool:
        config = replace(rollout_config(params), sampling=Sampling(1.0))
        episodes = pool.run(jobs, PolicyRef(paths.actor("base")), config, stage="gates", seed=0, work=work.path)
    passed = {e.task for e in episodes if e.verdict.strict}
    result = {family: {"tasks": len(tasks), "passed": sum(t.id in passed for t in tasks)} for family, tasks in sorted(by_family.items())}
    write_json(paths.result("base_gates.json"), result)
    work.discard()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
