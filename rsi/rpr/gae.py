"""TB-GAE, Turn-Boundary Skip-Observation GAE, and its token-level relative. Pure functions; the equations are PAPER.md's.

    delta_j = r_j + g_j V_{j+1} - V_j      A_j = delta_j + g_j l_j A_{j+1}      R_j = A_j + V_j

over the action tokens j of an episode, in order; observations are skipped. TB-GAE (paper; symbols inferred): g = l = 1 inside
a turn, g = gamma and l = lambda where j is the last action token of its turn. Token GAE: g = gamma, l = lambda everywhere.
"""

from __future__ import annotations

import torch
from torch import Tensor


def tb_gae(rewards: Tensor, values: Tensor, turns: Tensor, bootstrap: Tensor, gamma: float, lam: float) -> tuple[Tensor, Tensor]:
    """Advantages and returns [B, T], 0 outside action tokens.

    rewards [B, T]: a reward on an observation or padding token counts for the last action token before it.
    values [B, T]: V at each action token (the state it was sampled in). turns int [B, T]: turn number, -1 where no action.
    bootstrap [B]: value after the last action token, 0 where the episode finished. gamma, lam: per turn boundary.
    """
    action = turns >= 0
    ends = action & (_next_turn(turns) != turns)
    one = torch.ones((), dtype=values.dtype)
    return _backward(rewards, values, action, torch.where(ends, gamma * one, one), torch.where(ends, lam * one, one), bootstrap)


def token_gae(rewards: Tensor, values: Tensor, turns: Tensor, bootstrap: Tensor, gamma: float, lam: float) -> tuple[Tensor, Tensor]:
    """Token-level GAE over the action tokens (the fair baseline is (1, 0.95)): discount and decay at every token."""
    action = turns >= 0
    g = torch.full_like(values, gamma)
    return _backward(rewards, values, action, g, torch.full_like(values, lam), bootstrap)


def _next_turn(turns: Tensor) -> Tensor:
    """Turn number of the next action token, -2 after the last one. [B, T]"""
    out, carry = torch.empty_like(turns), torch.full_like(turns[:, 0], -2)
    for t in range(turns.shape[1] - 1, -1, -1):
        out[:, t] = carry
        carry = torch.where(turns[:, t] >= 0, turns[:, t], carry)
    return out


def _backward(rewards: Tensor, values: Tensor, action: Tensor, g: Tensor, l: Tensor, bootstrap: Tensor) -> tuple[Tensor, Tensor]:
    advantages = torch.zeros_like(values)
    next_value, next_advantage = bootstrap.to(values.dtype).clone(), torch.zeros_like(values[:, 0])
    pending = torch.zeros_like(values[:, 0])  # reward met on tokens that are no action
    for t in range(values.shape[1] - 1, -1, -1):
        here, reward = action[:, t], rewards[:, t] + pending
        delta = reward + g[:, t] * next_value - values[:, t]
        advantage = delta + g[:, t] * l[:, t] * next_advantage
        advantages[:, t] = torch.where(here, advantage, 0)
        next_advantage = torch.where(here, advantage, next_advantage)
        next_value = torch.where(here, values[:, t], next_value)
        pending = torch.where(here, 0, reward)
    return advantages, torch.where(action, advantages + values, 0)
