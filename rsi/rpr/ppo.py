"""PPO with a separate critic, on one screen: advantages from pre-update values, then critic and actor (PAPER.md, "RPR").

The critic's and the actor's losses read the same frozen advantages and returns, so the two updates are independent; they
run side by side in two threads. No KL penalty, no entropy bonus, no advantage normalisation (T1).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from rsi.harness.episode import Episode
from rsi.policy.batch import Example, collate, microbatches
from rsi.policy.forward import Replicas, target_logprobs
from rsi.policy.streams import stream
from rsi.rpr.critic import Critic, explained_variance
from rsi.rpr.gae import tb_gae, token_gae


@dataclass(frozen=True)
class PPOConfig:
    gamma: float = 0.97
    lam: float = 0.9
    estimator: str = "tb"
    clip: float = 0.2
    value_clip: float = 0.2
    actor_lr: float = 5e-4
    critic_lr: float = 1e-3
    epochs: int = 2
    minibatches: int = 2
    lr_warmup_steps: int = 4
    weight_decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.98)
    max_grad_norm: float = 1.0
    micro_tokens: int = 8192
    temperature: float = 1.0


@dataclass
class Rollout:
    """Episodes as PPO sees them. Flat over action tokens in episode order; `where[i]` is episode i's slice.

    old, values, advantages, returns: float32 [N]. rewards: one number an episode, on its last action token. For the advantages an
    unsolved episode that was cut off gets the critic's value there instead: paying partial credit and the value that already
    expects it would make running into the limit worth more than submitting. A solved one keeps its reward. The critic itself
    learns from what was paid in both cases: fitted to its own value at the cut, it would never hear that loops end in nothing.
    """

    examples: list[Example]
    turns: list[np.ndarray]
    truncated: list[bool]
    strict: list[bool]
    rewards: np.ndarray
    old: Tensor
    where: list[slice]
    values: Tensor = field(default_factory=lambda: torch.zeros(0))
    advantages: Tensor = field(default_factory=lambda: torch.zeros(0))
    returns: Tensor = field(default_factory=lambda: torch.zeros(0))


def make_rollout(episodes: Sequence[Episode], rewards: Sequence[float], temperature: float) -> Rollout:
    """Records for PPO from on-policy episodes. Raises ValueError for an invalid episode, or one sampled from a cut
    distribution (top-p, top-k) or at another temperature: its log-probabilities are not the training distribution's."""
    examples, turns, old, where, at = [], [], [], [], 0
    for e in episodes:
        if not e.verdict.valid:
            raise ValueError(f"episode {e.id}: an invalid episode has no reward and must not be trained on")
        if e.train_temperature != temperature:
            raise ValueError(f"episode {e.id}: sampled at {e.train_temperature or 'a cut distribution (top_p, top_k)'}, trained at temperature {temperature}")
        number = np.full(len(e.tokens), -1, np.int64)
        for k, turn in enumerate(e.turns):
            number[turn.start : turn.end] = k
        examples.append(Example(e.tokens, e.mask))
        turns.append(number)
        old.append(e.logprobs[e.mask])
        where.append(slice(at, at + e.action_tokens))
        at += e.action_tokens
    return Rollout(examples, turns, [e.truncated for e in episodes], [e.verdict.strict for e in episodes], np.asarray(rewards, np.float32),
                   torch.from_numpy(np.concatenate(old)), where)


@torch.no_grad()
def evaluate(rollout: Rollout, critic: Critic, config: PPOConfig) -> None:
    """Fill values, advantages and returns with the critic as it is now (before its update)."""
    n = rollout.where[-1].stop
    rollout.values, rollout.advantages, rollout.returns = torch.zeros(n), torch.zeros(n), torch.zeros(n)
    estimator = {"tb": tb_gae, "token": token_gae}[config.estimator]
    for part in microbatches([len(e.tokens) for e in rollout.examples], config.micro_tokens):
        batch = collate([rollout.examples[i] for i in part])
        after = critic.all_values(batch)
        values = torch.zeros_like(after)
        values[:, 1:] = after[:, :-1]
        turns = torch.full(after.shape, -1)
        rewards, paid, bootstrap = torch.zeros_like(after), torch.zeros_like(after), torch.zeros(len(part))
        for row, i in enumerate(part):
            length = len(rollout.examples[i].tokens)
            turns[row, :length] = torch.from_numpy(rollout.turns[i])
            last = int((turns[row] >= 0).nonzero()[-1])
            paid[row, last] = float(rollout.rewards[i])
            if rollout.truncated[i] and not rollout.strict[i]:
                bootstrap[row] = after[row, length - 1]  # stands for what would have come, the end state's partial reward included
            else:
                rewards[row, last] = paid[row, last]
        advantages, _ = estimator(rewards, values, turns, bootstrap, config.gamma, config.lam)
        _, returns = estimator(paid, values, turns, torch.zeros(len(part)), config.gamma, config.lam)
        for row, i in enumerate(part):
            act = turns[row] >= 0
            rollout.values[rollout.where[i]] = values[row, act]
            rollout.advantages[rollout.where[i]] = advantages[row, act]
            rollout.returns[rollout.where[i]] = returns[row, act]


def flat(rollout: Rollout, indices: Sequence[int], values: Tensor) -> Tensor:
    """The entries of `values` that belong to episodes `indices`, in that order."""
    return torch.cat([values[rollout.where[i]] for i in indices])


def actor_loss(logprobs: Tensor, old: Tensor, advantages: Tensor, clip: float) -> tuple[Tensor, Tensor]:
    """Clipped surrogate, summed over tokens, and the clipped-token count. -min(rho A, clip(rho, 1-c, 1+c) A)"""
    ratio = (logprobs - old).exp()
    unclipped, clipped = ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages
    return -torch.minimum(unclipped, clipped).sum(), (clipped < unclipped).sum()


def critic_loss(values: Tensor, old: Tensor, returns: Tensor, clip: float) -> Tensor:
    """Clipped value loss, summed over tokens: 1/2 max((V - R)^2, (clip(V, old +- c) - R)^2)."""
    near = old + (values - old).clamp(-clip, clip)
    return 0.5 * torch.maximum((values - returns) ** 2, (near - returns) ** 2).sum()


def make_optimizer(model, lr: float, config: PPOConfig) -> torch.optim.AdamW:
    return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=lr, betas=config.betas, weight_decay=config.weight_decay)


def splits(rollout: Rollout, config: PPOConfig, key: tuple) -> list[list[int]]:
    """Episode indices of each minibatch, all epochs, determined by `key`; the same for actor and critic."""
    out = []
    for epoch in range(config.epochs):
        order = stream(*key, epoch).permutation(len(rollout.examples))
        out += [sorted(map(int, part)) for part in np.array_split(order, config.minibatches) if len(part)]
    return out


def _descend(replicas: Replicas, optimizer, rollout: Rollout, indices: list[int], config: PPOConfig, loss_of) -> None:
    """One optimizer step on a minibatch: the mean over its action tokens, accumulated over length buckets."""
    count = sum(rollout.where[i].stop - rollout.where[i].start for i in indices)
    model = replicas.models[0]

    def backward(replica, part) -> None:
        chosen = [indices[k] for k in part]
        (loss_of(replica, collate([rollout.examples[i] for i in chosen]), chosen) / count).backward()

    replicas.map(backward, microbatches([len(rollout.examples[i].tokens) for i in indices], config.micro_tokens))
    replicas.collect_gradients()
    torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], config.max_grad_norm)
    optimizer.step()
    optimizer.zero_grad()


def update_critic(replicas: Replicas, optimizer, rollout: Rollout, config: PPOConfig, key: tuple) -> float:
    """Fit the critic (the first of `replicas`) to the rollout's returns; the mean value loss."""
    losses = []

    def loss_of(critic, batch, chosen):
        critic.eval()  # dropout of a given model would move the values between epochs
        loss = critic_loss(critic(batch), flat(rollout, chosen, rollout.values), flat(rollout, chosen, rollout.returns), config.value_clip)
        losses.append(loss.item())
        return loss

    for indices in splits(rollout, config, key):
        _descend(replicas, optimizer, rollout, indices, config, loss_of)
    return sum(losses) / (rollout.where[-1].stop * config.epochs)


def update_actor(replicas: Replicas, optimizer, rollout: Rollout, config: PPOConfig, key: tuple) -> dict[str, float]:
    """PPO's actor epochs. Returns clip fraction, KL (k3 estimate against the sampler), entropy, and the log-probability gap
    between trainer and sampler before the first step (it must be rounding error: same weights, same tokens)."""
    stats = {"clip": 0.0, "kl": 0.0, "entropy": 0.0, "gap": 0.0, "tokens": 0}
    first = True

    def loss_of(model, batch, chosen):
        model.eval()  # with dropout the ratio would not be that of the sampled distribution
        logprobs, entropy = target_logprobs(model, batch, config.temperature, entropy=True)
        old = flat(rollout, chosen, rollout.old)
        loss, clipped = actor_loss(logprobs, old, flat(rollout, chosen, rollout.advantages), config.clip)
        diff = (logprobs - old).detach()
        stats["clip"] += float(clipped)
        stats["kl"] += float((diff.exp() - 1 - diff).sum())
        stats["entropy"] += float(entropy.sum())
        stats["tokens"] += len(old)
        if first:
            stats["gap"] = max(stats["gap"], float(diff.abs().max()))
        return loss

    for indices in splits(rollout, config, key):
        _descend(replicas, optimizer, rollout, indices, config, loss_of)
        first = False
    n = stats.pop("tokens")
    return {"clip_fraction": stats["clip"] / n, "kl": stats["kl"] / n, "entropy": stats["entropy"] / n, "logprob_gap": stats["gap"]}


def ppo_step(model, actor_optimizer, critic: Critic, critic_optimizer, rollout: Rollout, config: PPOConfig, *, key: tuple,
             pair: ThreadPoolExecutor) -> dict[str, float]:
    """Advantages with the critic before its update, then both updates. `pair`: an executor with two threads."""
    evaluate(rollout, critic, config)
    ev = explained_variance(rollout.returns, rollout.values)
    fitted = pair.submit(update_critic, Replicas(critic, 1), critic_optimizer, rollout, config, key)
    acted = pair.submit(update_actor, Replicas(model, 1), actor_optimizer, rollout, config, key)
    return {"explained_variance": ev, "value_loss": fitted.result(), **acted.result()}
