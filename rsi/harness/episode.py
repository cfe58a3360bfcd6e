"""Episodes: one token stream with its loss mask and log-probabilities, aligned and checked (DESIGN, "Episode")."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from rsi.sandbox.protocol import Verdict
from rsi.tasks.task import CheckSpec


class EpisodeError(ValueError):
    """An episode whose parts do not fit together. Raised on construction, so that it can never reach training."""


@dataclass(frozen=True)
class Turn:
    """One model turn and what came back. `start`/`end` bound its sampled tokens (end exclusive, stop token included)."""

    start: int
    end: int
    text: str
    command: str
    observation: str
    exit_code: int | None = None
    timed_out: bool = False


@dataclass(frozen=True)
class Episode:
    """One attempt at one task.

    tokens int32 [T]: everything the model saw and sampled, in order; sampled ids are never re-encoded.
    mask bool [T]: true exactly on sampled tokens (the loss region), i.e. on the union of the turns' spans.
    logprobs float32 [T]: the sampler's log-probability of each sampled token, 0 elsewhere.
    truncated: ended by the turn or context limit, not by the agent (GAE bootstraps there).
    train_temperature: temperature of the sampling distribution the log-probabilities belong to; None when top-p or
    top-k changed it, so that such an episode cannot be used as an on-policy sample.
    Raises EpisodeError when the parts disagree.
    """

    task: str
    family: str
    suite: str
    harness: str
    stage: str
    seed: int
    attempt: int
    tokens: np.ndarray
    mask: np.ndarray
    logprobs: np.ndarray
    turns: tuple[Turn, ...]
    prompt_length: int
    truncated: bool
    verdict: Verdict
    specs: tuple[CheckSpec, ...] = ()
    instruction: str = ""
    runbook: str = ""
    train_temperature: float | None = 1.0
    extra: dict = field(default_factory=dict)

    def __post_init__(self) -> None:
        n = len(self.tokens)
        where = f"episode {self.id}"
        if len(self.mask) != n or len(self.logprobs) != n:
            raise EpisodeError(f"{where}: {n} tokens, {len(self.mask)} mask entries, {len(self.logprobs)} log-probabilities")
        spans = np.zeros(n, dtype=bool)
        last = self.prompt_length
        for turn in self.turns:
            if not last <= turn.start < turn.end <= n:
                raise EpisodeError(f"{where}: turn span {turn.start}..{turn.end} is empty, overlaps or leaves the stream of {n}")
            spans[turn.start : turn.end] = True
            last = turn.end
        if not np.array_equal(spans, self.mask):
            raise EpisodeError(f"{where}: the loss mask is not the union of the sampled turns")
        if not self.mask.any() and self.verdict.valid:
            raise EpisodeError(f"{where}: no sampled token; an all-zero loss mask would train on nothing")
        if not np.isfinite(self.logprobs).all() or (self.logprobs > 1e-6).any() or self.logprobs[~self.mask].any():
            raise EpisodeError(f"{where}: log-probabilities must be finite, at most 0, and 0 outside the mask")

    @property
    def id(self) -> str:
        return f"{self.stage}-s{self.seed}/{self.task}/{self.harness}/{self.attempt}"

    @property
    def progress(self) -> float:
        """Share of the checks that did not hold before any work and hold now; 1 for strict success (PAPER: progress)."""
        return progress(self.verdict, self.specs)

    @property
    def action_tokens(self) -> int:
        return int(self.mask.sum())

    def with_(self, **changes) -> Episode:
        return replace(self, **changes)


def progress(verdict: Verdict, specs: tuple[CheckSpec, ...]) -> float:
    """Progress above the no-op baseline: checks flagged `holds_before` count neither above nor below the line.

    A verifier that reports no checks but a scalar (a real LHTB task's process reward) is taken at its word, within [0, 1].
    """
    if not verdict.valid:
        return float("nan")
    if verdict.strict:
        return 1.0
    checks = counted(verdict, specs)
    if not verdict.checks and verdict.reward is not None:
        return min(1.0, max(0.0, verdict.reward))
    return sum(checks.values()) / len(checks) if checks else 0.0


def counted(verdict: Verdict, specs: tuple[CheckSpec, ...]) -> dict[str, bool]:
    """The checks that progress, rewards and the audit count: all but those that already held before any work."""
    before = {s.name for s in specs if s.holds_before}
    return {name: ok for name, ok in verdict.checks.items() if name not in before}
