"""Rollouts beside `model.generate`: the same tasks, sandboxes and sampling distribution, in the same run, in turn.

ours: lock-step batch, one cache kept across turns. Two alternatives, both with a re-prefill of the whole stream every turn: one
episode after another (what an agent loop over `generate` does), and all rows of the batch in one padded `generate`.
Prints one JSON row each; goal 5 against the episode-by-episode loop.
"""

from __future__ import annotations

import json
import platform
import statistics
import sys
import time
from dataclasses import replace

import torch

from rsi import paths
from rsi.harness.engine import Job, run_batch
from rsi.params import load_params
from rsi.policy.model import load_policy
from rsi.policy.sampling import Sampled, Sampling
from rsi.sandbox import make_pool
from rsi.stages import rollout_config, suite_tasks

RUNS, EPISODES = 3, 48


class GenerateSampler:
    """transformers' `generate` behind the sampler protocol; `rows` episodes a call."""

    def __init__(self, model, stop_id: int, pad_id: int, rows: int):
        self.model, self.stop_id, self.pad_id, self.rows = model, stop_id, pad_id, rows

    def session(self, keys, capacity, sampling):
        return _GenerateSession(self, len(keys), sampling)


class _GenerateSession:
    def __init__(self, sampler: GenerateSampler, count: int, sampling: Sampling):
        self.s, self.sampling, self.streams = sampler, sampling, [[] for _ in range(count)]

    def drop(self, rows):
        pass

    @torch.inference_mode()
    def turn(self, feeds, limits):
        for row, ids in feeds.items():
            self.streams[row] += list(ids)
        out, order = {}, sorted(feeds)
        for at in range(0, len(order), self.s.rows):
            part = order[at : at + self.s.rows]
            width = max(len(self.streams[r]) for r in part)
            ids = torch.full((len(part), width), self.s.pad_id)
            for k, r in enumerate(part):
                ids[k, width - len(self.streams[r]) :] = torch.tensor(self.streams[r])
            found = self.s.model.generate(input_ids=ids, attention_mask=(ids != self.s.pad_id).long(), do_sample=True, temperature=self.sampling.temperature,
                                          top_k=0, top_p=1.0, max_new_tokens=max(limits[r] for r in part), eos_token_id=self.s.stop_id,
                                          pad_token_id=self.s.pad_id)
            for k, r in enumerate(part):
                new = found[k, width:].tolist()[: limits[r]]
                new = new[: new.index(self.s.stop_id) + 1] if self.s.stop_id in new else new
                out[r] = Sampled(new, [0.0] * len(new))
                self.streams[r] += new
        return out


def measure(sampler, fmt, pool, jobs, config, run: int) -> float:
    """Milliseconds an action token, whole rollout (policy, bash, verification)."""
    started = time.perf_counter()
    episodes = run_batch(jobs, sampler, fmt, pool, config, stage=f"bench-{run}", seed=0)
    return 1000 * (time.perf_counter() - started) / sum(e.action_tokens for e in episodes)


def main() -> None:
    torch.set_num_threads(1)
    params = load_params()
    policy = load_policy(paths.actor("base"))
    config = replace(rollout_config(params), sampling=Sampling(1.0))
    jobs = [Job(t) for t in suite_tasks(params, "tb21")[:EPISODES]]
    pad = policy.tokenizer.pad_token_id
    ways = {"ours": policy.sampler(), "generate, one episode a call": GenerateSampler(policy.model, policy.format.stop_id, pad, 1),
            "generate, the whole batch a call": GenerateSampler(policy.model, policy.format.stop_id, pad, len(jobs))}
    times: dict[str, list[float]] = {name: [] for name in ways}
    with make_pool("bubblewrap") as pool:
        for run in range(RUNS):
            for name, sampler in ways.items():
                times[name].append(measure(sampler, policy.format, pool, jobs, config, run))
    ours = statistics.median(times["ours"])
    for name in list(ways)[1:]:
        other = statistics.median(times[name])
        print(json.dumps({"name": f"rollouts against {name}", "ours": round(ours, 3), "other": round(other, 3), "unit": "ms an action token",
                          "ratio": round(other / ours, 2), "goal": 5 if "one" in name else None, "runs": RUNS,
                          "machine": platform.processor() or platform.machine(),
                          "versions": {"python": sys.version.split()[0], "torch": torch.__version__}}))


if __name__ == "__main__":
    main()
