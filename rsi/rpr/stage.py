"""RPR, Recursive Policy-Refine: calibrate the critic on the new actor, then PPO with TB-GAE (paper, "RPR").

RPR-1 warms a new critic up; RPR-2 inherits RPR-1's (weights only) and recalibrates it. Critic first: its values from before
the update give the advantages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from tqdm import tqdm

from rsi.harness.engine import RolloutConfig
from rsi.harness.episode import Episode, counted
from rsi.harness.jobs import choose, jobs_for
from rsi.harness.pool import PolicyRef, RolloutPool
from rsi.params import Rpr
from rsi.persist import WorkDir, whole
from rsi.policy.forward import Replicas
from rsi.policy.model import Policy
from rsi.policy.sampling import Sampling
from rsi.rewards.rewards import Graded
from rsi.rpr.critic import Critic, explained_variance
from rsi.rpr.ppo import PPOConfig, Rollout, evaluate, make_optimizer, make_rollout, ppo_step, update_critic
from rsi.tasks.task import Task


def ppo_config(params: Rpr, actor_lr: float) -> PPOConfig:
    return PPOConfig(gamma=params.gamma_turn, lam=params.lambda_turn, estimator=params.estimator, clip=params.clip, value_clip=params.value_clip,
                     actor_lr=actor_lr, critic_lr=params.critic_lr, epochs=params.epochs, minibatches=params.minibatches,
                     lr_warmup_steps=params.lr_warmup_steps)


def graded(episode: Episode) -> Graded:
    """What a reward may look at, from a verified episode: checks that held before any work do not count."""
    checks = counted(episode.verdict, episode.specs)
    return Graded(episode.verdict.strict, sum(checks.values()), len(checks), episode.family)


@dataclass
class Trainer:
    """Everything one RPR stage holds in memory; `state`/`restore` are what a killed stage resumes from."""

    policy: Policy
    critic: Critic
    config: PPOConfig
    reward: Callable[[Graded], float]

    def __post_init__(self) -> None:
        self.actor_optimizer = make_optimizer(self.policy.model, self.config.actor_lr, self.config)
        self.critic_optimizer = make_optimizer(self.critic, self.config.critic_lr, self.config)
        self.log: list[dict] = []

    def state(self) -> dict:
        return {"actor": self.policy.model.state_dict(), "critic": self.critic.state_dict(), "log": self.log,
                "actor_optimizer": self.actor_optimizer.state_dict(), "critic_optimizer": self.critic_optimizer.state_dict()}

    def restore(self, state: dict) -> None:
        self.policy.model.load_state_dict(state["actor"])
        self.critic.load_state_dict(state["critic"])
        self.actor_optimizer.load_state_dict(state["actor_optimizer"])
        self.critic_optimizer.load_state_dict(state["critic_optimizer"])
        self.log = state["log"]

    def rollout(self, episodes: Sequence[Episode]) -> Rollout:
        rewards = [self.reward(graded(e)) for e in episodes]
        return make_rollout(episodes, rewards, self.config.temperature)


def calibrate(trainer: Trainer, episodes: Sequence[Episode], *, epochs: float, key: tuple) -> dict:
    """Fit the critic to Monte Carlo returns of a frozen actor (lambda = 1: no bootstrapping from an untrained critic).

    A cut-off episode counts with the reward it got, for the same reason. A fifth of the episodes is held out; the rate decays
    to a tenth. Returns EV before and after on the held-out part. Raises RuntimeError with fewer than two valid episodes.
    """
    if len(episodes) < 2:
        raise RuntimeError(f"{key[1]}: {len(episodes)} valid episodes for the critic, at least 2 are needed; see the causes in {key[1]}'s episodes, "
                           "or raise rpr.warmup_episodes / rpr.recalibration_episodes in params.yaml")
    held = max(1, len(episodes) // 5)
    config = replace(trainer.config, lam=1.0, epochs=1, minibatches=max(1, len(episodes) // 32), value_clip=1e9, micro_tokens=4096)
    train, test = (replace(r, truncated=[False] * len(r.truncated)) for r in (trainer.rollout(episodes[held:]), trainer.rollout(episodes[:held])))
    evaluate(test, trainer.critic, config)
    evaluate(train, trainer.critic, config)
    before = explained_variance(test.returns, test.values)
    optimizer = make_optimizer(trainer.critic, config.critic_lr, config)
    rounds, replicas = max(1, round(epochs)), Replicas(trainer.critic, 2)
    for r in range(rounds):
        for group in optimizer.param_groups:
            group["lr"] = config.critic_lr * (1 - 0.9 * r / rounds)
        update_critic(replicas, optimizer, train, config, (*key, r))
    replicas.close()
    evaluate(test, trainer.critic, config)
    return {"episodes": len(episodes), "ev_before": before, "ev_after": explained_variance(test.returns, test.values)}


def run_rpr(tasks: Sequence[Task], actor: Path, trainer: Trainer, pool: RolloutPool, config: RolloutConfig, params: Rpr, *, calibration: tuple[int, float],
            stage: str, seed: int, work: WorkDir, on_step: Callable[[dict], None] = lambda row: None) -> tuple[list[Episode], dict]:
    """Calibrate the critic, then `params.steps` PPO steps. Trains in place; returns (all episodes, {"calibration", "steps"}).

    calibration: (episodes, epochs) of the critic-only phase. Kept in `work` after every step and resumed to the same bytes.
    """
    config = replace(config, sampling=Sampling(trainer.config.temperature))
    count, epochs = calibration
    done = work.load("calibrated.pt")
    episodes: list[Episode] = []
    if count:
        frozen = pool.run(jobs_for(choose(tasks, count, (seed, stage, "calibrate"))), PolicyRef(actor), config, stage=f"{stage}-calibrate", seed=seed,
                          work=work.sub("calibrate"), label=f"{stage} critic")
        valid = [e for e in frozen if e.verdict.valid]
        episodes += frozen
        if done is None:
            report = calibrate(trainer, valid, epochs=epochs, key=(seed, stage, "calibrate"))
            done = {"critic": trainer.critic.state_dict(), "report": report}
            work.save("calibrated.pt", done)
        trainer.critic.load_state_dict(done["critic"])
    if (state := work.load("ppo.pt")) is not None:
        trainer.restore(state)
    first = len(trainer.log)
    with ThreadPoolExecutor(2, initializer=torch.set_num_threads, initargs=(1,)) as pair:
        for step in tqdm(range(params.steps), desc=f"{stage} ppo", leave=False, disable=None):
            folder = work.sub(f"step-{step:03d}")
            weights = folder / "actor.safetensors"
            if step >= first:
                with whole(weights) as part:
                    save_file({k: p.detach().contiguous() for k, p in trainer.policy.model.named_parameters() if p.requires_grad}, part)
            batch = pool.run(jobs_for(choose(tasks, params.episodes, (seed, stage, step))), PolicyRef(actor, weights), config, stage=f"{stage}-{step:03d}",
                             seed=seed, work=folder, label=f"{stage} step {step}")
            episodes += batch
            if step < first:
                continue
            row = train_step(trainer, batch, step, key=(seed, stage, step), pair=pair)
            on_step(row)
            work.save("ppo.pt", trainer.state())
    return episodes, {"calibration": done["report"] if done else None, "steps": trainer.log}


def train_step(trainer: Trainer, batch: Sequence[Episode], step: int, *, key: tuple, pair: ThreadPoolExecutor) -> dict:
    """One PPO step on a batch; invalid episodes are counted and left out. Raises RuntimeError when none is valid."""
    valid = [e for e in batch if e.verdict.valid]
    if not valid:
        raise RuntimeError(f"step {step}: all {len(batch)} episodes are invalid ({batch[0].verdict.cause}); nothing to train on")
    warm = min(1.0, (step + 1) / max(1, trainer.config.lr_warmup_steps))
    for group in trainer.actor_optimizer.param_groups:
        group["lr"] = trainer.config.actor_lr * warm
    rollout = trainer.rollout(valid)
    stats = ppo_step(trainer.policy.model, trainer.actor_optimizer, trainer.critic, trainer.critic_optimizer, rollout, trainer.config, key=key, pair=pair)
    failed = [r for e, r in zip(valid, rollout.rewards, strict=True) if not e.verdict.strict]
    row = {"step": step, "reward": float(rollout.rewards.mean()), "strict": float(np.mean([e.verdict.strict for e in valid])),
           "progress": float(np.mean([e.progress for e in valid])),
           "failed_share": float(sum(failed) / rollout.rewards.sum()) if rollout.rewards.sum() else float("nan"), **stats,
           "turns": float(np.mean([len(e.turns) for e in valid])), "action_tokens": float(np.mean([e.action_tokens for e in valid])),
           "truncated": sum(e.truncated for e in valid), "invalid": len(batch) - len(valid)}
    trainer.log.append(row)
    return row
