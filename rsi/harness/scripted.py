"""A deterministic policy from written turns: replays, reference solutions and the pretraining corpus run through the same engine."""

from __future__ import annotations

from collections.abc import Sequence

from rsi.harness.protocol import SUBMIT, format_action
from rsi.policy.chat import ChatFormat
from rsi.policy.sampling import Sampled, Sampling


class ScriptedSampler:
    """Row i says `scripts[i]` turn by turn, then submits. Log-probabilities are 0: nothing was sampled."""

    def __init__(self, scripts: Sequence[Sequence[str]], fmt: ChatFormat):
        self.scripts, self.format = scripts, fmt

    def session(self, keys: Sequence[tuple], capacity: int, sampling: Sampling) -> _ScriptedSession:
        if len(keys) != len(self.scripts):
            raise ValueError(f"{len(self.scripts)} scripts for {len(keys)} episodes")
        return _ScriptedSession(self)


class _ScriptedSession:
    def __init__(self, sampler: ScriptedSampler):
        self.sampler, self.said = sampler, [0] * len(sampler.scripts)

    def turn(self, feeds: dict[int, Sequence[int]], limits: dict[int, int]) -> dict[int, Sampled]:
        out = {}
        for row in feeds:
            script, k = self.sampler.scripts[row], self.said[row]
            text = script[k] if k < len(script) else format_action("that is all.", SUBMIT)
            self.said[row] = k + 1
            ids = self.sampler.format.action(text)[: limits[row]]
            out[row] = Sampled(ids, [0.0] * len(ids))
        return out

    def drop(self, rows: Sequence[int]) -> None:
        pass
