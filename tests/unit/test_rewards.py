"""FDR and SPR: monotone, bounded, strict success above every failure; the audit's numbers on hand-made episodes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsi.rewards.audit import failed_share
from rsi.rewards.rewards import Graded, binary, family_scales, fdr, make_reward, per_twenty, raw_ratio, spr

SCALES = {"a": 3.0, "b": 8.0}


@st.composite
def runs(draw):
    total = draw(st.integers(0, 30))
    return Graded(draw(st.booleans()), draw(st.integers(0, total)), total, draw(st.sampled_from(["a", "b", "unseen"])))


@given(runs(), st.floats(0, 0.99))
def test_every_reward_is_bounded(g, beta):
    for value in (binary(g), raw_ratio(g), per_twenty(g), fdr(g, SCALES), spr(g, beta)):
        assert 0 <= value <= 1


@given(runs(), runs(), st.floats(0, 0.99))
def test_spr_puts_strict_success_above_every_failure(g, h, beta):
    success, failure = Graded(True, g.passed, g.total, g.family), Graded(False, h.passed, h.total, h.family)
    assert spr(success, beta) == 1.0 > spr(failure, beta)
    assert spr(failure, beta) <= beta


@given(runs(), st.floats(0, 0.99))
def test_rewards_never_fall_when_a_check_more_passes(g, beta):
    if g.passed < g.total:
        more = Graded(g.strict, g.passed + 1, g.total, g.family)
        assert spr(more, beta) >= spr(g, beta)
        assert fdr(more, SCALES) >= fdr(g, SCALES)
        assert raw_ratio(more) >= raw_ratio(g)


def test_fdr_gives_a_solved_task_full_reward_up_to_its_family_scale():
    assert fdr(Graded(True, 3, 3, "a"), SCALES) == 1.0
    assert fdr(Graded(False, 3, 6, "b"), SCALES) == pytest.approx(3 / 8)
    assert fdr(Graded(True, 0, 0, "a"), SCALES) == 1.0  # no per-check report: binary, a solved task never scores 0
    assert fdr(Graded(False, 0, 0, "a"), SCALES) == 0.0


def test_family_scale_is_the_90th_percentile_and_at_least_one():
    assert family_scales({"a": list(range(1, 12)), "b": [0]}) == {"a": 10.0, "b": 1.0}


def test_spr_turns_the_papers_share_of_failed_reward_into_its_second_number():
    """Runs whose failures hold 50.09 % of the dense reward: under SPR at beta = 0.4 they hold 28.64 % (PAPER.md)."""
    runs = [Graded(True, 10, 10)] * 4991 + [Graded(False, 5, 10)] * 10018
    assert failed_share(runs, raw_ratio) == pytest.approx(0.5009, abs=5e-5)
    assert failed_share(runs, lambda g: spr(g, 0.4)) == pytest.approx(0.2864, abs=5e-5)


def test_failed_share_of_known_sets():
    half, solved, nothing = Graded(False, 1, 2), Graded(True, 2, 2), Graded(False, 0, 2)
    assert failed_share([half, solved], raw_ratio) == pytest.approx(1 / 3)
    assert failed_share([half, half], raw_ratio) == 1.0
    assert failed_share([solved, solved], raw_ratio) == 0.0
    assert failed_share([half, solved], spr) == pytest.approx(0.2 / 1.2)
    assert failed_share([nothing, nothing], raw_ratio) is None  # undefined, not 0


def test_an_unknown_reward_and_a_beta_of_one_are_refused():
    with pytest.raises(ValueError, match="reward.rpr1, reward.rpr2 or reward.direct: 'dense' is unknown; use one of binary, raw"):
        make_reward("dense", beta=0.4, scales={})
    with pytest.raises(ValueError, match="reward.beta"):
        spr(Graded(False, 1, 2), 1.0)
