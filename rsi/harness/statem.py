"""StateM in small: a persistent workflow state with phases and checked transitions (RSR paper; details inferred).

act -> check -> done. A claim in `act` only opens the check phase; a claim in `check` is accepted when something was
looked at since it opened. A command that fails in `check` moves the workflow back to `act`.
"""

from __future__ import annotations

from rsi.harness.protocol import Action, Request, Terminus, format_result
from rsi.sandbox.protocol import CommandResult
from rsi.tasks.task import Task


class StateM(Terminus):
    name = "statem"
    system = "one thought line, then one bash block. follow the state."

    def __init__(self, task: Task, runbook: str = ""):
        super().__init__(task, runbook)
        self.phase, self.commands, self.looked = "act", 0, False

    def messages(self) -> list[dict]:
        system, user = super().messages()
        return [system, {**user, "content": f"{user['content']}\n{self._state()}"}]

    def _state(self) -> str:
        return f"state: {self.phase} {self.commands}"

    def react(self, action: Action) -> Request:
        request = super().react(action)
        if request.kind != "finish":
            return request
        if self.phase == "act":
            self.phase, self.looked = "check", False
            return Request("say", f"check each step, then submit again.\n{self._state()}")
        return request if self.looked else Request("say", f"nothing was checked.\n{self._state()}")

    def observe(self, result: CommandResult) -> str:
        self.commands += 1
        if self.phase == "check":
            self.looked = True
            if result.exit_code != 0:
                self.phase = "act"
        return f"{format_result(result)}\n{self._state()}"

