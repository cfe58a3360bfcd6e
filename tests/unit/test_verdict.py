"""Capped output and verdicts from reports, by properties: any bytes give a verdict, and noise is never a zero."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from rsi.sandbox.output import LIMIT, MARKER, Capped
from rsi.sandbox.protocol import Verdict
from rsi.sandbox.verdict import invalid, parse_verdict
from rsi.tasks.task import CheckSpec


@given(st.lists(st.binary(max_size=6000), max_size=12))
def test_capped_output(chunks):
    capped, whole = Capped(), b"".join(chunks)
    for chunk in chunks:
        capped.add(chunk)
    text = capped.text()
    assert capped.truncated == (len(whole) > LIMIT) == (MARKER in text)
    if not capped.truncated:
        assert text == whole.decode(errors="replace")
    assert len(text) <= LIMIT + len(MARKER)


@given(st.one_of(st.none(), st.binary()), st.one_of(st.none(), st.binary()), st.one_of(st.none(), st.binary()))
def test_any_bytes_give_a_verdict_and_noise_is_never_zero(reward_json, reward_txt, ctrf):
    verdict = parse_verdict(reward_json, reward_txt, ctrf, (CheckSpec("a"),))
    assert isinstance(verdict, Verdict)
    assert verdict.valid == (verdict.cause == "") and not (verdict.strict and not verdict.valid)
    assert (verdict.reward is None) == (not verdict.valid)


@given(
    st.dictionaries(st.text(), st.tuples(st.booleans(), st.sampled_from(["intermediate", "final"])), min_size=1),
    st.booleans(),
)
def test_strict_is_all_final_checks(checks, honest):
    specs = tuple(CheckSpec(name, kind) for name, (_, kind) in checks.items())
    tests = [{"name": name, "status": "passed" if passed else "failed"} for name, (passed, _) in checks.items()]
    final = [passed for passed, kind in checks.values() if kind == "final"]
    reward = float(all(final)) if honest else float(not all(final))
    verdict = parse_verdict(
        json.dumps({"reward": reward}).encode(), None, json.dumps({"results": {"tests": tests}}).encode(), specs
    )
    if final and not honest:
        assert not verdict.valid and "contradict" in verdict.cause
    else:
        assert verdict.valid and verdict.checks == {name: passed for name, (passed, _) in checks.items()}
        assert list(verdict.checks) == list(checks) and verdict.strict == (reward >= 1)


@given(st.floats())
def test_reward_txt_is_a_finite_number_or_invalid(value):
    verdict = parse_verdict(None, repr(value).encode(), None)
    assert verdict.valid == (value - value == 0)
    assert not verdict.valid or (verdict.reward == value and verdict.strict == (value >= 1))


def test_verdict_corner_cases():
    ctrf = b'{"results":{"tests":[{"name":"a","status":"passed"}]}}'
    assert parse_verdict(b'{"reward": 1, "passed": 3}', b"0", None) == Verdict({}, True, reward=1.0)
    assert (
        parse_verdict(b"1", None, ctrf, (CheckSpec("a"), CheckSpec("b"))).cause
        == "a declared check is not in the report: b"
    )
    assert "contradict" in parse_verdict(b"0", None, ctrf, (CheckSpec("a"),)).cause
    assert parse_verdict(b"1", None, b"{}", ()).cause == "the CTRF report is malformed: '{}'"
    assert parse_verdict(b'{"passed": 3}', None, None).cause == """the reward is not a number: '{"passed": 3}'"""
    assert not parse_verdict(None, b"True", None).valid
    assert invalid("sandbox", "x") == Verdict(valid=False, cause="infrastructure: x")
