"""RSRT in small: on a claimed completion the verifier runs; a failure tells the model only that it failed (RSR paper)."""

from __future__ import annotations

from rsi.harness.protocol import Action, Request, Terminus


class Reflect(Terminus):
    """Goes on until the claim verifies or the budget ends."""

    name = "reflect"
    system = "one thought line, then one bash block. a claim is verified."
    failed = "the task is not complete. go on."

    def react(self, action: Action) -> Request:
        request = super().react(action)
        return Request("verify") if request.kind == "finish" else request

    def verified(self, strict: bool) -> str | None:
        return None if strict else self.failed
