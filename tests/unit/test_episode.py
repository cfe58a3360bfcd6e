"""Episodes refuse to be built from parts that disagree; collections come back equal and byte-identical."""

import numpy as np
import pytest

from rsi.harness.episode import Episode, EpisodeError, Turn, progress
from rsi.harness.store import read_episodes, write_episodes
from rsi.rewards.audit import failed_share
from rsi.rewards.rewards import raw_ratio
from rsi.rpr.ppo import make_rollout
from rsi.rpr.stage import graded
from rsi.sandbox.protocol import Verdict
from rsi.tasks.task import CheckSpec


def episode(**changes):
    parts = dict(task="t-0", family="copy", suite="pool", harness="terminus", stage="rpr1", seed=0, attempt=0,
                 tokens=np.arange(8, dtype=np.int32), mask=np.array([0, 0, 0, 1, 1, 0, 1, 1], bool),
                 logprobs=np.array([0, 0, 0, -1, -2, 0, -0.5, -0.25], np.float32),
                 turns=(Turn(3, 5, "a", "ls", "exit 0", 0), Turn(6, 8, "b", "submit", "")), prompt_length=3, truncated=False,
                 verdict=Verdict({"one": True, "two": False}, False, True, "", 0.0), specs=(CheckSpec("one"), CheckSpec("two")))
    return Episode(**{**parts, **changes})


@pytest.mark.parametrize("changes, message", [
    (dict(mask=np.array([0, 0, 0, 1, 1, 0, 1, 0], bool)), "not the union"),
    (dict(logprobs=np.zeros(7, np.float32)), "7 log-probabilities"),
    (dict(logprobs=np.array([0, 0, 0, -1, np.nan, 0, -1, -1], np.float32)), "finite"),
    (dict(logprobs=np.array([-1, 0, 0, -1, -1, 0, -1, -1], np.float32)), "0 outside the mask"),
    (dict(turns=(Turn(2, 5, "a", "ls", ""), Turn(6, 8, "b", "", ""))), "turn span 2..5"),
])
def test_parts_that_disagree_are_refused(changes, message):
    with pytest.raises(EpisodeError, match=message):
        episode(**changes)


def test_case_14_an_all_zero_mask_is_refused():
    with pytest.raises(EpisodeError, match="all-zero loss mask"):
        episode(mask=np.zeros(8, bool), logprobs=np.zeros(8, np.float32), turns=())


def test_case_01_an_invalid_episode_never_reaches_training_and_has_no_progress():
    broken = episode(verdict=Verdict(valid=False, cause="no reward file"))
    assert np.isnan(broken.progress)
    with pytest.raises(ValueError, match="invalid episode has no reward"):
        make_rollout([broken], [0.0], 1.0)


def test_case_16_a_cut_sampling_distribution_is_refused_for_training():
    with pytest.raises(ValueError, match="top_p, top_k"):
        make_rollout([episode(train_temperature=None)], [1.0], 1.0)


def test_a_scalar_without_checks_is_the_progress():
    """A real LHTB verifier may report a process reward and no checks."""
    assert progress(Verdict({}, False, reward=0.6), ()) == 0.6
    assert progress(Verdict({}, False, reward=1.7), ()) == 1.0 and progress(Verdict({}, False, reward=-1.0), ()) == 0.0
    assert progress(Verdict({"one": False}, False, reward=0.6), ()) == 0.0  # checks say more than their sum


def test_progress_counts_above_the_noop_baseline():
    specs = (CheckSpec("held", holds_before=True), CheckSpec("one"), CheckSpec("two"))
    verdict = Verdict({"held": True, "one": True, "two": False}, False)
    assert progress(verdict, specs) == 0.5
    assert graded(episode(verdict=verdict, specs=specs)).passed == 1
    # losing what held before is not progress either
    assert progress(Verdict({"held": False, "one": False, "two": False}, False), specs) == 0.0


def test_a_collection_comes_back_equal_and_twice_the_same_bytes(tmp_path):
    made = [episode(), episode(attempt=1, verdict=Verdict(valid=False, cause="timeout")), episode(attempt=2, truncated=True, train_temperature=None)]
    first, second = write_episodes(tmp_path / "a.parquet", made), write_episodes(tmp_path / "b.parquet", made)
    assert first.read_bytes() == second.read_bytes()
    for mine, theirs in zip(made, read_episodes(first), strict=True):
        assert mine.id == theirs.id and mine.turns == theirs.turns and mine.verdict == theirs.verdict and mine.specs == theirs.specs
        assert np.array_equal(mine.tokens, theirs.tokens) and np.array_equal(mine.logprobs, theirs.logprobs)
        assert mine.truncated == theirs.truncated and mine.train_temperature == theirs.train_temperature
    assert [p.name for p in tmp_path.iterdir() if ".part" in p.name] == []


def test_the_audit_reads_episodes():
    near = episode(verdict=Verdict({"one": True, "two": False}, False))
    won = episode(verdict=Verdict({"one": True, "two": True}, True))
    assert failed_share([graded(near), graded(won)], raw_ratio) == pytest.approx(1 / 3)
