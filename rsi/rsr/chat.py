"""Planner and judge as a chat model behind an OpenAI-compatible endpoint (`rsr.planner: chat` in params.yaml)."""

from __future__ import annotations

import httpx

from rsi.harness.episode import Episode
from rsi.rsr.runbook import Review
from rsi.tasks.task import Task

PLAN = ("You write a runbook for a terminal task from a run that solved it. Say the end state, the milestones with their method, useful checks, "
        "recovery and pitfalls. Never give values, file contents or whole commands of the solution. First line: 'end: ...'. Then one line per "
        "numbered clause of the task: '<number>: <tools and options>'.")
JUDGE = ("You review a runbook for a terminal task. You see only the public task and the runbook. Answer with one line: 'accept', or 'reject: <reason>' "
         "when it gives the answer away, misses a clause, or could not be followed.")


class ChatError(RuntimeError):
    """The endpoint did not answer as an OpenAI-compatible chat server does; names the URL and what came back."""


def complete(url: str, model: str, system: str, user: str, max_tokens: int = 512, timeout_s: float = 120.0) -> str:
    """One greedy chat completion. Raises ChatError on any failure to answer."""
    body = {"model": model, "temperature": 0, "max_tokens": max_tokens, "stream": False,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}]}
    try:
        response = httpx.post(f"{url.rstrip('/')}/chat/completions", json=body, timeout=timeout_s)
        response.raise_for_status()
        return response.json()["choices"][0]["message"]["content"]
    except (httpx.HTTPError, KeyError, IndexError, TypeError, ValueError) as e:
        raise ChatError(f"{url}: no chat completion from model {model!r}: {type(e).__name__}: {e}") from e


def transcript(source: Episode) -> str:
    """Commands and what they printed; harness messages (claims, states) are stripped."""
    return "\n".join(f"$ {t.command}\n{t.observation}" for t in source.turns if t.exit_code is not None)


class ChatPlanner:
    def __init__(self, url: str, model: str):
        self.url, self.model = url, model

    def draft(self, task: Task, source: Episode, variant: int) -> str:
        return complete(self.url, self.model, PLAN, f"task:\n{task.instruction}\nrun:\n{transcript(source)}\nvariant {variant}").strip()

    def rewrite(self, task: Task, source: Episode, runbook: str, review: Review) -> str:
        user = f"task:\n{task.instruction}\nrun:\n{transcript(source)}\nyour runbook:\n{runbook}\nit was rejected: {review.critique}\nwrite it again."
        return complete(self.url, self.model, PLAN, user).strip()


class ChatJudge:
    def __init__(self, url: str, model: str):
        self.url, self.model = url, model

    def judge(self, task: Task, runbook: str) -> Review:
        answer = complete(self.url, self.model, JUDGE, f"task:\n{task.instruction}\nrunbook:\n{runbook}", max_tokens=64).strip()
        if answer.lower().startswith("accept"):
            return Review(True)
        return Review(False, "judgement", answer[:300] or "the judge said nothing")
