"""RSR, Recursive Self-Rewrite: discover, plan, review, execute, filter, fine-tune (paper, "RSR"; sizes ours).

Actor-only supervision on public text. Whatever is rewritten or renamed is executed in a fresh sandbox and verified before
it is trained on.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from tqdm import tqdm

from rsi.harness.engine import Job, RolloutConfig
from rsi.harness.episode import Episode, Turn
from rsi.harness.pool import PolicyRef, RolloutPool
from rsi.harness.protocol import SUBMIT, Terminus
from rsi.params import Rsr
from rsi.persist import WorkDir
from rsi.policy.batch import Example
from rsi.policy.chat import ChatFormat
from rsi.policy.model import Policy
from rsi.policy.sampling import Sampling
from rsi.policy.streams import stream
from rsi.policy.train import TrainConfig, train_lm
from rsi.rsr.leaks import leaked_values, private_values
from rsi.rsr.runbook import Judge, Planner, write_runbook
from rsi.tasks.task import Task


@dataclass
class Yield:
    """What each step of RSR let through; the notebook shows it as a table."""

    counts: Counter = field(default_factory=Counter)
    rejections: Counter = field(default_factory=Counter)
    solved_by: dict[str, list[str]] = field(default_factory=dict)

    def as_dict(self) -> dict:
        return {"counts": dict(self.counts), "rejections": dict(sorted(self.rejections.items())),
                "solved_by": {k: sorted(v) for k, v in self.solved_by.items()}}


def discover(tasks: Sequence[Task], policy: PolicyRef, pool: RolloutPool, config: RolloutConfig, params: Rsr, *, stage: str, seed: int,
             work: WorkDir, found: Yield) -> list[Episode]:
    """All harnesses on all tasks. The generic harness' passes are kept as they are; the others' are sources."""
    jobs = [Job(t, harness, k) for harness, n in params.samples.items() for t in tasks for k in range(n)]
    episodes = pool.run(jobs, policy, config, stage=f"{stage}-discover", seed=seed, work=work.sub("discover"), label=f"{stage} discover")
    for harness in params.samples:
        mine = [e for e in episodes if e.harness == harness]
        found.counts[f"rollouts_{harness}"] = len(mine)
        found.counts[f"passes_{harness}"] = sum(e.verdict.strict for e in mine)
        found.solved_by[harness] = sorted({e.task for e in mine if e.verdict.strict})
    found.counts["invalid"] += sum(not e.verdict.valid for e in episodes)
    return episodes


def choose_sources(episodes: Sequence[Episode], limit: int) -> list[Episode]:
    """One verified success of a non-generic harness a task, the shortest first seen; longer tasks first when over `limit`."""
    best: dict[str, Episode] = {}
    for e in episodes:
        if e.harness != "terminus" and e.verdict.strict and not e.truncated and (e.task not in best or len(e.turns) < len(best[e.task].turns)):
            best[e.task] = e
    return sorted(best.values(), key=lambda e: (-len(e.turns), e.task))[:limit]


def plan(sources: Sequence[Episode], tasks: dict[str, Task], planner: Planner, judge: Judge, params: Rsr) -> dict:
    """K reviewed runbooks a source, M executions a runbook: {"jobs": [(task id, attempt, runbook)], "counts", "rejections"}."""
    jobs, counts, rejections = [], Counter(sources=len(sources)), Counter()
    for source in tqdm(sources, desc="runbooks", leave=False, disable=None):
        seen: set[str] = set()
        for k in range(params.runbooks):
            runbook, reasons = write_runbook(tasks[source.task], source, k, planner, judge, params.rounds)
            counts["drafts"] += 1
            rejections.update(reasons)
            if runbook is None:
                counts["given_up"] += 1
                continue
            counts["runbooks"] += 1
            if runbook in seen:
                counts["runbooks_repeated"] += 1
                continue
            seen.add(runbook)
            jobs += [(source.task, k * params.executions + m, runbook) for m in range(params.executions)]
    return {"jobs": jobs, "counts": dict(counts), "rejections": dict(rejections)}


def public(episode: Episode, task: Task, fmt: ChatFormat) -> Episode:
    """The episode without its private runbook: the plain prompt, then the very tokens that followed the guided one."""
    prompt = fmt.prompt(Terminus(task).messages())
    shift = len(prompt) - episode.prompt_length
    rest = slice(episode.prompt_length, None)
    tokens = np.concatenate([np.asarray(prompt, np.int32), episode.tokens[rest]])
    mask = np.concatenate([np.zeros(len(prompt), bool), episode.mask[rest]])
    turns = tuple(Turn(t.start + shift, t.end + shift, t.text, t.command, t.observation, t.exit_code, t.timed_out) for t in episode.turns)
    return episode.with_(tokens=tokens, mask=mask, logprobs=np.zeros(len(tokens), np.float32), turns=turns, prompt_length=len(prompt),
                         runbook="", train_temperature=None)


def commands(episode: Episode) -> tuple[str, ...]:
    return tuple(t.command for t in episode.turns)


def keep(direct: Sequence[Episode], executed: Sequence[Episode], tasks: dict[str, Task], fmt: ChatFormat, params: Rsr, found: Yield,
         vocabulary: set[str]) -> list[Episode]:
    """Verified, finished, leak-free and distinct; at most `per_task` a task and `per_family` a family."""
    private: dict[str, set[str]] = {}
    kept, seen = [], set()
    per_task, per_family = Counter(), Counter()
    for kind, episodes in (("executed", executed), ("direct", direct)):
        for e in episodes:
            if not e.verdict.strict or e.truncated or e.turns[-1].command != SUBMIT:
                continue
            found.counts[f"passes_{kind}"] += 1
            if e.task not in private:
                private[e.task] = private_values(tasks[e.task], vocabulary)
            if leaked_values(e, private[e.task]):
                found.counts["dropped_value_leak"] += 1
            elif (e.task, commands(e)) in seen:
                found.counts["dropped_duplicate"] += 1
            elif per_task[e.task] >= params.per_task or per_family[e.family] >= params.per_family:
                found.counts["dropped_over_cap"] += 1
            else:
                seen.add((e.task, commands(e)))
                per_task[e.task] += 1
                per_family[e.family] += 1
                found.counts[f"kept_{kind}"] += 1
                kept.append(public(e, tasks[e.task], fmt))
    return kept


def renamed_jobs(kept: Sequence[Episode], tasks: dict[str, Task], copies: int, *, key: tuple, folder: Path,
                 words: Sequence[str]) -> tuple[list[Job], list[list[str]]]:
    """The kept episodes under other names: new tasks with the same commands renamed, to be executed and verified again."""
    from rsi.tasks.load import TaskError, load_task
    from rsi.tasks.suites import rename

    jobs, scripts = [], []
    for i, e in enumerate(kept):
        for copy in range(copies):
            rng = stream(*key, e.task, i, copy)
            mapping = dict(zip(words, [words[j] for j in rng.permutation(len(words))], strict=True))
            try:
                files = rename(tasks[e.task].path, mapping)
            except TaskError:
                continue
            task = load_task(files.write(folder / f"{i:05d}-{copy}"))
            jobs.append(Job(task, "terminus", copy))
            scripts.append([renamed(t.text, mapping) for t in e.turns])
    return jobs, scripts


def renamed(text: str, mapping: dict[str, str]) -> str:
    return re.sub(r"[A-Za-z]+", lambda m: mapping.get(m[0], m[0]), text)


def run_rsr(tasks: Sequence[Task], actor: Path, policy: Policy, pool: RolloutPool, config: RolloutConfig, params: Rsr, planner: Planner, judge: Judge, *,
            stage: str, seed: int, work: WorkDir, words: Sequence[str]) -> tuple[list[Episode], list[Episode], Yield, list[dict]]:
    """One RSR stage. Trains `policy.model` in place; returns (kept, all discovery and execution episodes, yields, loss curve)."""
    found, by_id, ref = Yield(), {t.id: t for t in tasks}, PolicyRef(actor)
    hot = replace(config, sampling=Sampling(params.discovery_temperature))
    cool = replace(config, sampling=Sampling(params.execution_temperature))
    episodes = discover(tasks, ref, pool, hot, params, stage=stage, seed=seed, work=work, found=found)
    sources = choose_sources(episodes, params.max_sources)
    # a chat model may answer otherwise when asked again: a resumed stage takes the plan that its executions came from
    planned = work.once("plan.pt", lambda: plan(sources, by_id, planner, judge, params))
    jobs = [Job(by_id[task], "terminus", attempt, runbook) for task, attempt, runbook in planned["jobs"]]
    found.counts.update(planned["counts"])
    found.rejections.update(planned["rejections"])
    executed = pool.run(jobs, ref, cool, stage=f"{stage}-execute", seed=seed, work=work.sub("execute"), label=f"{stage} execute")
    found.counts["executions"] = len(executed)
    found.counts["executions_invalid"] = sum(not e.verdict.valid for e in executed)
    direct = [e for e in episodes if e.harness == "terminus"]
    kept = keep(direct, executed, by_id, policy.format, params, found, set(words))
    jobs, scripts = renamed_jobs(kept, by_id, params.renamed, key=(seed, stage, "rename"), folder=work.sub("renamed-tasks"), words=words)
    replayed = pool.run(jobs, ref, config, stage=f"{stage}-renamed", seed=seed, work=work.sub("renamed"), scripts=scripts, label=f"{stage} renamed")
    found.counts["renamed_refused"] = len(kept) * params.renamed - len(jobs)  # would be an evaluation task under these names
    found.counts["renamed"] = len(replayed)
    verified = [e.with_(train_temperature=None) for e in replayed if e.verdict.strict and not e.truncated]
    found.counts["renamed_verified"] = len(verified)
    curve = fine_tune(policy, [*kept, *verified], params, key=(seed, stage), work=work)
    return [*kept, *verified], [*episodes, *executed], found, curve


def fine_tune(policy: Policy, kept: Sequence[Episode], params: Rsr, *, key: tuple, work: WorkDir) -> list[dict]:
    """Actor-only SFT on the sampled tokens (stop tokens included) of public episodes. Nothing kept: the actor stays as it is,
    and the yield says so."""
    if not kept:
        return []
    examples = [Example(e.tokens, e.mask) for e in kept]
    config = TrainConfig(lr=params.lr, epochs=params.epochs, batch_tokens=params.batch_tokens)
    return train_lm(policy.model, examples, config, key=(*key, "sft"), work=work, label="sft")


