"""Forward passes for training: log-probabilities of chosen tokens, and the two-thread data parallelism of small CPU models."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from rsi.policy.batch import Batch


def _unwrap(model):
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def hidden_states(model, batch: Batch) -> Tensor:
    """Last hidden states of the backbone [B, T, H] (adapters, where there are any, are injected into it)."""
    # no mask: padding is on the right, where causal attention never looks from a real token, and a dense mask costs half as much again
    return _unwrap(model).base_model(input_ids=batch.tokens, use_cache=False).last_hidden_state


def target_logits(model, batch: Batch) -> Tensor:
    """Logits [N, V] that predict the batch's N target tokens; the head runs on those positions only."""
    at = hidden_states(model, batch)[batch.rows, batch.cols - 1]
    return _unwrap(model).get_output_embeddings()(at)


def target_logprobs(model, batch: Batch, temperature: float = 1.0, entropy: bool = False) -> tuple[Tensor, Tensor | None]:
    """Log-probabilities [N] of the targets under softmax(logits / temperature), and each position's entropy [N] if asked."""
    logprobs = torch.log_softmax(target_logits(model, batch).float() / temperature, -1)
    chosen = logprobs.gather(1, batch.targets[:, None])[:, 0]
    return chosen, -(logprobs.detach().exp() * logprobs.detach()).sum(-1) if entropy else None


class Replicas:
    """Replicas of one model that share its parameters and keep gradients of their own, one thread each (none for one alone).

    Two threads of one-thread torch are faster than one thread of two-thread torch at these sizes. The split is by position
    and the gradients are added in replica order, so the result is the same on every run.
    """

    def __init__(self, model, count: int = 2):
        self.models = [model]
        for _ in range(count - 1):
            twin = copy.deepcopy(model)
            for mine, theirs in zip(twin.parameters(), model.parameters(), strict=True):
                mine.data = theirs.data
            self.models.append(twin)
        self.threads = ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1,)) if count > 1 else None

    def map(self, fn: Callable, parts: Sequence) -> list:
        """fn(replica, part) for each part, `count` at a time, results in order."""
        groups = [list(range(k, len(parts), len(self.models))) for k in range(len(self.models))]

        def run(model, indices):
            return [fn(model, parts[i]) for i in indices]

        out = [None] * len(parts)
        mapped = self.threads.map(run, self.models, groups) if self.threads else map(run, self.models, groups)
        for indices, results in zip(groups, mapped, strict=True):
            for i, r in zip(indices, results, strict=True):
                out[i] = r
        return out

    def collect_gradients(self) -> None:
        """Add the twins' gradients into the first model's and clear theirs."""
        for twin in self.models[1:]:
            for mine, theirs in zip(self.models[0].parameters(), twin.parameters(), strict=True):
                if theirs.grad is not None:
                    mine.grad = theirs.grad if mine.grad is None else mine.grad.add_(theirs.grad)
                    theirs.grad = None

    def close(self) -> None:
        if self.threads:
            self.threads.shutdown()
