"""What the explore notebook asks for: an episode's values and advantages under the critic of its stage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from rsi import paths
from rsi.harness.episode import Episode
from rsi.params import Params
from rsi.policy.batch import Example
from rsi.rewards.rewards import make_reward
from rsi.rpr.critic import load_critic
from rsi.rpr.ppo import Rollout, evaluate
from rsi.rpr.stage import graded, ppo_config
from rsi.stages import fdr_scales, pool_tasks

Attempt = tuple[str, int]  # task id, attempt


def reward_of(params: Params, stage: str):
    """The reward function `stage` was trained with, on episodes (FDR's scales from the training pool)."""
    kind = getattr(params.reward, {"rpr2": "rpr2", "direct_ppo": "direct"}.get(stage, "rpr1"))
    reward = make_reward(kind, beta=params.reward.beta, scales=fdr_scales(pool_tasks(params)) if kind == "fdr" else {})
    return lambda episode: reward(graded(episode))


def strip(episode: Episode, params: Params, stage: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(values, advantages, turn numbers) at each action token, with the critic that `stage` ended with.

    Raises CheckpointError when `stage` has no critic (only RPR stages and direct PPO have one), ValueError for an invalid episode.
    """
    if not episode.verdict.valid:
        raise ValueError(f"episode {episode.id}: invalid ({episode.verdict.cause}); it has no reward and so no advantages")
    number = np.full(len(episode.tokens), -1, np.int64)
    for k, turn in enumerate(episode.turns):
        number[turn.start : turn.end] = k
    rollout = Rollout(
        [Example(episode.tokens, episode.mask)],
        [number],
        [episode.truncated],
        [episode.verdict.strict],
        np.asarray([reward_of(params, stage)(episode)], np.float32),
        torch.zeros(episode.action_tokens),
        [slice(0, episode.action_tokens)],
    )
    evaluate(rollout, load_critic(paths.critic(stage, seed)).eval(), ppo_config(params.rpr, params.rpr.actor_lr))
    return rollout.values.numpy(), rollout.advantages.numpy(), number[episode.mask]


def choose(mine: dict[Attempt, Episode], theirs: dict[Attempt, Episode], task: str = "") -> Attempt:
    """The first attempt, of `task` or of any, that the two stages end differently; where they end all alike, the first both have.

    Raises ValueError when there is none to compare, naming `task` and what there is.
    """
    both = sorted(mine.keys() & theirs.keys())
    if not both:
        raise ValueError(f"no task with a valid attempt of both stages: {len(mine)} attempts of the one, {len(theirs)} of the other; is `suite` one they ran?")
    of_task = [k for k in both if task in ("", k[0])]
    if not of_task:
        raise ValueError(f"task {task!r}: no valid attempt of both stages; they have {', '.join(dict.fromkeys(k[0] for k in both))}")
    return next((k for k in of_task if mine[k].verdict.strict != theirs[k].verdict.strict), of_task[0])


def by_turn(values: np.ndarray, advantages: np.ndarray, turns: np.ndarray) -> list[tuple[float, float]]:
    """Mean value and advantage of each turn, for the viewer's head lines."""
    return [(float(values[turns == k].mean()), float(advantages[turns == k].mean())) for k in range(int(turns.max()) + 1)]


def episode_files() -> list[Path]:
    """The evaluation collections of the last run."""
    return sorted((paths.DATA / "episodes/eval").glob("*.parquet"))
