"""The rollout engine: a batch of episodes in lock-step, sampled tokens in, bash in sandboxes, verdicts out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rsi.harness import HARNESSES
from rsi.harness.episode import Episode, Turn
from rsi.harness.protocol import Harness, Request, parse_action
from rsi.policy.chat import ChatFormat
from rsi.policy.sampling import Sampling
from rsi.sandbox import open_many, run_many, verify_many
from rsi.sandbox.protocol import SandboxError, Verdict
from rsi.sandbox.verdict import invalid
from rsi.tasks.task import Task

_CLAUSE = re.compile(r"^\d+\. ", re.MULTILINE)


@dataclass(frozen=True)
class RolloutConfig:
    """Limits of an episode. A turn or context limit truncates it: marked, verified, and bootstrapped in GAE."""

    context: int = 1536
    max_turns: int = 24
    turn_tokens: int = 96
    observation_chars: int = 400
    command_timeout_s: float = 5.0
    sampling: Sampling = field(default_factory=Sampling)


@dataclass(frozen=True)
class Job:
    task: Task
    harness: str = "terminus"
    attempt: int = 0
    runbook: str = ""


@dataclass
class _Live:
    """One running episode: its harness, its sandbox, and the stream as it grows."""

    job: Job
    harness: Harness
    sandbox: object
    feed: list[int]
    max_turns: int
    tokens: list[int] = field(default_factory=list)
    mask: list[bool] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    truncated: bool = False
    over: bool = False  # there is no shell to go on with
    verdict: Verdict | None = None
    prompt_length: int = 0

    def take_feed(self) -> None:
        self.tokens += self.feed
        self.mask += [False] * len(self.feed)
        self.logprobs += [0.0] * len(self.feed)
        self.feed = []

    def take_sampled(self, ids: list[int], logprobs: list[float]) -> None:
        self.tokens += ids
        self.mask += [True] * len(ids)
        self.logprobs += logprobs


def turn_budget(task: Task, limit: int) -> int:
    """Two turns a numbered clause and four to spare, so that a short task cannot loop for the length of a long one."""
    clauses = len(_CLAUSE.findall(task.instruction))
    return min(limit, 4 + 2 * clauses) if clauses else limit


def run_batch(jobs: Sequence[Job], sampler, fmt: ChatFormat, sandboxes, config: RolloutConfig, *, stage: str, seed: int) -> list[Episode]:
    """Run `jobs` to their verdicts and return their episodes in order.

    sampler: anything with `session(keys, capacity, sampling)`; sandboxes: a SandboxPool. A sandbox that fails makes its
    episode invalid (infrastructure) and nothing else. Raises ValueError for a prompt that leaves no room to act.
    """
    live = _start(jobs, fmt, sandboxes, config)
    keys = [(seed, stage, j.task.suite, j.task.id, j.harness, j.attempt) for j in jobs]
    session = sampler.session(keys, config.context, config.sampling)
    active = [i for i, ep in enumerate(live) if ep.verdict is None]
    while active:
        limits = {i: min(config.turn_tokens, config.context - len(live[i].tokens) - len(live[i].feed)) for i in active}
        sampled = session.turn({i: live[i].feed for i in active}, limits)
        requests = {i: _act(live[i], sampled[i].ids, sampled[i].logprobs, fmt) for i in active}
        _answer(live, requests, fmt, config)
        ended = [i for i in active if live[i].verdict is not None or live[i].truncated or live[i].over or requests[i].kind == "finish"]
        _verify(live, ended)
        session.drop(ended)
        active = [i for i in active if i not in set(ended)]
    return [_finish(ep, config, stage, seed) for ep in live]


def _start(jobs: Sequence[Job], fmt: ChatFormat, sandboxes, config: RolloutConfig) -> list[_Live]:
    live = []
    for job in jobs:
        harness = HARNESSES[job.harness](job.task, job.runbook)
        prompt = fmt.prompt(harness.messages())
        if len(prompt) + config.turn_tokens > config.context:
            raise ValueError(f"task {job.task.id}: a prompt of {len(prompt)} tokens leaves no turn of {config.turn_tokens} "
                             f"in a context of {config.context}; raise rollout.context or drop the task")
        live.append(_Live(job, harness, sandboxes.take(), prompt, turn_budget(job.task, config.max_turns), prompt_length=len(prompt)))
    for ep, error in zip(live, open_many([ep.sandbox for ep in live], [ep.job.task for ep in live]), strict=True):
        if error is not None:
            ep.verdict = _broken(error)
            ep.sandbox.close()
    return live


def _act(ep: _Live, ids: list[int], logprobs: list[float], fmt: ChatFormat) -> Request:
    """Append a sampled turn to the stream and ask the harness what it wants done."""
    ep.take_feed()
    start = len(ep.tokens)
    ep.take_sampled(ids, logprobs)
    text = fmt.decode(ids)
    action = parse_action(text)
    ep.turns.append(Turn(start, len(ep.tokens), text, action.command, ""))
    return ep.harness.react(action)


def _answer(live: list[_Live], requests: dict[int, Request], fmt: ChatFormat, config: RolloutConfig) -> None:
    """Carry the requests out, all commands at once, and feed each observation to its row."""
    for i, request in requests.items():
        if request.kind == "say":
            _observe(live[i], request.text, fmt, config)
    runs = [i for i, r in requests.items() if r.kind == "run"]
    results = run_many([live[i].sandbox for i in runs], [requests[i].text for i in runs], config.command_timeout_s)
    for i, result in zip(runs, results, strict=True):
        if isinstance(result, SandboxError):
            live[i].over = True  # verified all the same: an agent may cut off its shell, and only a sandbox that is gone has no verdict
            continue
        last = live[i].turns[-1]
        live[i].turns[-1] = Turn(last.start, last.end, last.text, last.command, "", result.exit_code, result.timed_out)
        _observe(live[i], live[i].harness.observe(result), fmt, config)
    claims = [i for i, r in requests.items() if r.kind == "verify"]
    for i, verdict in zip(claims, verify_many([live[i].sandbox for i in claims], final=False), strict=True):
        text = live[i].harness.verified(verdict.strict) if verdict.valid else None
        if text is None:
            live[i].verdict = verdict
        else:
            _observe(live[i], text, fmt, config)


def _observe(ep: _Live, text: str, fmt: ChatFormat, config: RolloutConfig) -> None:
    """Queue an observation; where no further turn fits, the episode is truncated and the observation kept for the bootstrap."""
    text = clip(text, config.observation_chars)
    last = ep.turns[-1]
    ep.turns[-1] = Turn(last.start, last.end, last.text, last.command, text, last.exit_code, last.timed_out)
    stop = [] if ep.tokens[-1] == fmt.stop_id else [fmt.stop_id]
    ep.feed = stop + fmt.observation(text)
    room = config.context - len(ep.tokens) - len(ep.feed)
    if len(ep.turns) >= ep.max_turns or room < config.turn_tokens // 2:
        ep.truncated = True
        ep.feed = ep.feed[: config.context - len(ep.tokens)]
        ep.take_feed()


def clip(text: str, limit: int) -> str:
    """Head and tail of a long observation with a marker between."""
    if len(text) <= limit:
        return text
    return f"{text[: limit * 2 // 3]}\n...\n{text[-limit // 3 :]}"


def _verify(live: list[_Live], ended: list[int]) -> None:
    todo = [i for i in ended if live[i].verdict is None]
    for i, verdict in zip(todo, verify_many([live[i].sandbox for i in todo], final=True), strict=True):
        live[i].verdict = verdict
    for i in ended:
        live[i].sandbox.close()


def _broken(error: SandboxError) -> Verdict:
    return invalid(error.kind, str(error))


def _finish(ep: _Live, config: RolloutConfig, stage: str, seed: int) -> Episode:
    task, job = ep.job.task, ep.job
    ep.take_feed()
    return Episode(
        task=task.id, family=task.family, suite=task.suite, harness=job.harness, stage=stage, seed=seed, attempt=job.attempt,
        tokens=np.asarray(ep.tokens, np.int32), mask=np.asarray(ep.mask, bool), logprobs=np.asarray(ep.logprobs, np.float32),
        turns=tuple(ep.turns), prompt_length=ep.prompt_length, truncated=ep.truncated, verdict=ep.verdict, specs=task.checks,
        instruction=task.instruction, runbook=job.runbook, train_temperature=config.sampling.train_temperature)
