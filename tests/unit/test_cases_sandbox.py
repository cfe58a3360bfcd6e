"""Faults that systems like this one really had, on their inputs, in real sandboxes."""

from __future__ import annotations

import json
import os
import resource
import time

import pytest

from rsi.tasks.task import CheckSpec
from tests.unit.boxes import gone, marked, processes


def test_case_01_no_reward_file_is_invalid(start):
    verdict = start(test="echo checking\nfalse\n").verify()
    assert not verdict.valid and not verdict.strict and verdict.reward is None
    assert verdict.cause == "the verifier wrote no reward file: test.sh exited 1, its last words: checking"


def test_case_02_scalar_reward_json(start):
    verdict = start(test="echo 1.0 > /logs/verifier/reward.json\n").verify()
    assert (verdict.valid, verdict.strict, verdict.reward) == (True, True, 1.0)


@pytest.mark.parametrize("text", ['{"reward":', "NaN", "1e309", "true", '{"reward": true}', "", "null", "-Infinity"])
def test_case_03_malformed_reward_is_quoted(start, text):
    verdict = start(test=f"printf %s '{text}' > /logs/verifier/reward.json\n").verify()
    assert not verdict.valid and not verdict.strict and verdict.reward is None
    assert repr(text) in verdict.cause


def test_case_04_agent_cannot_write_the_reward(start):
    sandbox = start(test="sleep 0.3\necho 0 > /logs/verifier/reward.txt\nsleep 0.3\n")
    once = sandbox.run("""echo '{"reward":1}' > /logs/verifier/reward.json""", 5)
    assert once.exit_code != 0
    sandbox.run("mkdir -p /logs/verifier", 5)
    sandbox.run(
        """while :; do mkdir -p /logs/verifier; echo '{"reward":1}' > /logs/verifier/reward.json; done 2>/dev/null &""",
        5,
    )
    for final in (False, True):
        verdict = sandbox.verify(final=final)
        assert (verdict.valid, verdict.strict, verdict.reward) == (True, False, 0.0)


def test_case_05_verifier_timeout_is_invalid(start):
    sandbox = start(test="sleep 98765.5\necho 1 > /logs/verifier/reward.txt", verifier_timeout_s=0.5)
    began = time.monotonic()
    verdict = sandbox.verify()
    assert not verdict.valid and "time limit: 0.5 s" in verdict.cause
    assert time.monotonic() - began < 3
    assert gone("98765.5")
    assert sandbox.run("echo on", 5).output == "on\n"


def test_case_06_success_before_the_timeout_counts(start):
    sandbox = start()
    result = sandbox.run("touch done; sleep 1e6", 0.5)
    assert result.timed_out
    assert sandbox.verify().strict


def test_case_07_busy_loop(start):
    sandbox = start()
    began = time.monotonic()
    result = sandbox.run("while :; do :; done", 2)
    assert result.timed_out and time.monotonic() - began < 3.5
    assert sandbox.run("echo next", 5).output == "next\n"
    assert processes(sandbox) == ""


def test_case_08_background_job_does_not_hold_the_command(start):
    began = time.monotonic()
    result = start().run("sleep 100 & echo hi", 5)
    assert (result.output, result.exit_code, result.timed_out) == ("hi\n", 0, False)
    assert time.monotonic() - began < 2


def test_case_09_descendants_in_their_own_session(start):
    sandbox = start()
    began = time.monotonic()
    result = sandbox.run("setsid sleep 60.4321 & sleep 60.4321", 2)
    assert result.timed_out and time.monotonic() - began < 3
    assert processes(sandbox) == ""
    sandbox.run("setsid sleep 60.4321 &", 2)
    assert marked("60.4321")
    sandbox.close()
    assert gone("60.4321")


def test_case_10_endless_output(start):
    sandbox = start()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    big = sandbox.run("echo first; yes | head -c 1G; echo last", 30)
    assert big.exit_code == 0 and big.truncated and not big.timed_out
    assert big.output.startswith("first\ny\n") and big.output.endswith("last\n") and len(big.output) < 9000
    endless = sandbox.run("yes", 1)
    assert endless.timed_out and endless.truncated and len(endless.output) < 9000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # KiB


def test_case_11_undecodable_output(start):
    sandbox = start()
    assert sandbox.run(r"printf '\xed\x00\xff'", 5).output == "\ufffd\0\ufffd"
    across = sandbox.run(r"printf a; for ((i = 0; i < 6000; i++)); do printf '\xc3\xa9'; done", 10)
    assert across.truncated and across.output.startswith("a\u00e9") and across.output.endswith("\u00e9")
    assert "\ufffd" in across.output


def test_case_26_proc_sys_is_not_writable(start):
    sandbox = start()
    assert sandbox.run("test -w /proc/sys/kernel/core_pattern", 5).exit_code == 1
    assert sandbox.run("find /proc/sys -type f -writable -print -quit 2>/dev/null", 20).output == ""
    assert sandbox.run("(echo x > /proc/sys/kernel/core_pattern) 2>/dev/null", 5).exit_code == 1
    assert sandbox.run("(echo x > /proc/sys/net/ipv4/ip_forward) 2>/dev/null", 5).exit_code == 1
    assert os.stat("/proc/sys/kernel/core_pattern").st_uid == 0


def test_reward_and_report_must_agree(start):
    report = json.dumps({"results": {"tests": [{"name": "a", "status": "failed"}]}})
    sandbox = start(
        test=f"echo '{report}' > /logs/verifier/ctrf.json\necho 1 > /logs/verifier/reward.txt", checks=(CheckSpec("a"),)
    )
    assert "contradict" in sandbox.verify().cause
