"""TB-GAE and token GAE against a slow reference written from the equations (PAPER.md, "TB-GAE")."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rsi.rpr.gae import tb_gae, token_gae


def slow(rewards, values, turns, bootstrap, g_of, l_of):
    """One episode at a time over its list of action tokens."""
    advantages, returns = torch.zeros_like(values), torch.zeros_like(values)
    for b in range(len(values)):
        at = [t for t in range(values.shape[1]) if turns[b, t] >= 0]
        reward = [0.0] * len(at)
        for t in range(values.shape[1]):
            before = [j for j, s in enumerate(at) if s <= t]
            if before:
                reward[before[-1]] += float(rewards[b, t])
        carry = 0.0
        for j in reversed(range(len(at))):
            end = j + 1 == len(at) or turns[b, at[j]] != turns[b, at[j + 1]]
            following = float(bootstrap[b]) if j + 1 == len(at) else float(values[b, at[j + 1]])
            g, l = g_of(end), l_of(end)
            carry = reward[j] + g * following - float(values[b, at[j]]) + g * l * carry
            advantages[b, at[j]], returns[b, at[j]] = carry, carry + float(values[b, at[j]])
    return advantages, returns


@st.composite
def batches(draw):
    """Ragged episodes: turns of one token and more, observations of any length (0 too), truncation, padding."""
    rows = draw(st.integers(1, 4))
    streams, bootstrap = [], []
    for _ in range(rows):
        turns = [-1] * draw(st.integers(1, 3))
        for k in range(draw(st.integers(1, 4))):
            turns += [k] * draw(st.integers(1, 4)) + [-1] * draw(st.integers(0, 3))
        streams.append(turns)
        bootstrap.append(draw(st.sampled_from([0.0, 0.7, -1.3])))
    width = max(map(len, streams)) + draw(st.integers(0, 2))
    turns = torch.tensor([s + [-1] * (width - len(s)) for s in streams])
    seed = draw(st.integers(0, 2**31))
    generator = torch.Generator().manual_seed(seed)
    rewards = torch.randn(rows, width, generator=generator, dtype=torch.float64)
    rewards[:, 0] = 0  # nothing precedes the first prompt token
    first = (turns >= 0).int().argmax(1)
    for b in range(rows):
        rewards[b, : first[b]] = 0
    values = torch.randn(rows, width, generator=generator, dtype=torch.float64)
    return rewards, values, turns, torch.tensor(bootstrap, dtype=torch.float64)


@given(batches(), st.sampled_from([(0.97, 0.9), (1.0, 1.0), (0.5, 0.0), (0.0, 0.5)]))
@settings(max_examples=120, deadline=None)
def test_tb_gae_equals_the_equations(batch, rates):
    gamma, lam = rates
    expected = slow(*batch, lambda end: gamma if end else 1.0, lambda end: lam if end else 1.0)
    for got, want in zip(tb_gae(*batch, gamma, lam), expected, strict=True):
        torch.testing.assert_close(got, want)


@given(batches(), st.sampled_from([(1.0, 0.95), (0.97, 0.9)]))
@settings(max_examples=80, deadline=None)
def test_token_gae_equals_the_equations(batch, rates):
    gamma, lam = rates
    expected = slow(*batch, lambda end: gamma, lambda end: lam)
    for got, want in zip(token_gae(*batch, gamma, lam), expected, strict=True):
        torch.testing.assert_close(got, want)


@given(batches())
@settings(max_examples=60, deadline=None)
def test_with_gamma_and_lambda_one_both_are_the_same(batch):
    for a, b in zip(tb_gae(*batch, 1.0, 1.0), token_gae(*batch, 1.0, 1.0), strict=True):
        torch.testing.assert_close(a, b)


def test_a_two_turn_episode_by_hand():
    """Turn 0 has tokens 1, 2; turn 1 has token 4; reward 1 on the last. gamma 0.5, lambda 0.5."""
    turns = torch.tensor([[-1, 0, 0, -1, 1]])
    values = torch.tensor([[9.0, 0.2, 0.4, 9.0, 0.6]])
    rewards = torch.tensor([[0.0, 0.0, 0.0, 0.0, 1.0]])
    advantages, returns = tb_gae(rewards, values, turns, torch.zeros(1), 0.5, 0.5)
    last = 1 - 0.6
    second = 0.5 * 0.6 - 0.4 + 0.25 * last
    first = 0.4 - 0.2 + second
    assert advantages[0].tolist() == pytest.approx([0, first, second, 0, last])
    assert returns[0].tolist() == pytest.approx([0, first + 0.2, second + 0.4, 0, 1.0])


def test_case_17_a_reward_on_the_masked_tail_is_not_lost():
    """mask [1,1,0,1,1,0], reward on the tail: it sits on the last action token."""
    turns = torch.tensor([[0, 0, -1, 1, 1, -1]])
    rewards = torch.tensor([[0.0, 0, 0, 0, 0, 1.0]])
    advantages, returns = tb_gae(rewards, torch.zeros(1, 6), turns, torch.zeros(1), 1.0, 1.0)
    assert advantages[0].tolist() == [1, 1, 0, 1, 1, 0]
    assert returns[0, 4] == 1.0


def test_case_18_truncation_bootstraps_and_termination_does_not():
    turns, zeros = torch.tensor([[0, 0, -1, 1]]), torch.zeros(1, 4)
    cut, _ = tb_gae(zeros, zeros, turns, torch.tensor([0.8]), 0.5, 1.0)
    done, _ = tb_gae(zeros, zeros, turns, torch.zeros(1), 0.5, 1.0)
    assert cut[0, 3] == pytest.approx(0.4)
    assert cut[0, 0] == pytest.approx(0.2)
    assert done.abs().max() == 0
