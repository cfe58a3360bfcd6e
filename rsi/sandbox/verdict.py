"""From the verifier's files to a verdict. Pure: bytes in, Verdict out. Formats: Harbor's reward files and CTRF."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass

from rsi.sandbox.protocol import Verdict
from rsi.tasks.task import CheckSpec

_LONE = re.compile("[\ud800-\udfff]")  # half a character: no file can hold it
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
QUOTE = 120  # characters of a malformed file that a cause repeats


@dataclass(frozen=True)
class ErrorKind:
    """One way in which an episode yields no verdict. retry: whether the same episode may be tried again unchanged."""

    cause: str
    retry: bool
    grade: str


ERRORS = {
    "sandbox": ErrorKind("infrastructure", True, "invalid"),  # could not start, died
    "setup": ErrorKind("the task cannot be set up", False, "invalid"),
    "verifier_timeout": ErrorKind("the verifier ran into its time limit", False, "invalid"),
    "no_reward": ErrorKind("the verifier wrote no reward file", False, "invalid"),
    "bad_reward": ErrorKind("the reward is not a number", False, "invalid"),
    "bad_ctrf": ErrorKind("the CTRF report is malformed", False, "invalid"),
    "missing_check": ErrorKind("a declared check is not in the report", False, "invalid"),
    "contradiction": ErrorKind("reward and CTRF report contradict each other", False, "invalid"),
}


class Unreadable(ValueError):
    """A report that gives no verdict: the kind of error and what was read."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(detail)
        self.kind, self.detail = kind, detail


def invalid(kind: str, detail: str = "") -> Verdict:
    """The verdict for an error of ERRORS. Raises KeyError for a kind that is not there."""
    error = ERRORS[kind]
    return Verdict(valid=error.grade != "invalid", cause=f"{error.cause}: {detail}" if detail else error.cause)


def retryable(verdict: Verdict) -> bool:
    """Whether an episode without a verdict may be run again unchanged: what failed was neither its task nor its verifier."""
    return not verdict.valid and any(e.retry and verdict.cause.split(":")[0] == e.cause for e in ERRORS.values())


def quote(data: bytes) -> str:
    text = data.decode(errors="replace")
    return repr(text if len(text) <= QUOTE else text[:QUOTE] + "…")


def _number(value: object, source: bytes) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Unreadable("bad_reward", quote(source))
    try:
        number = float(value)
    except OverflowError:
        raise Unreadable("bad_reward", quote(source)) from None
    if not math.isfinite(number):
        raise Unreadable("bad_reward", quote(source))
    return number


def _load(data: bytes, kind: str) -> object:
    try:
        return json.loads(data.decode())
    except (ValueError, RecursionError):
        raise Unreadable(kind, quote(data)) from None


def parse_reward(reward_json: bytes | None, reward_txt: bytes | None) -> float:
    """The scalar reward. reward.json (a number, or an object of numbers with `reward` in it) goes before reward.txt.

    Raises Unreadable for everything that is not one finite number; `true` is not a number.
    """
    if reward_json is None and reward_txt is None:
        raise Unreadable("no_reward")
    if reward_json is None:
        text = reward_txt.decode(errors="replace").strip()
        if not _DECIMAL.fullmatch(text):
            raise Unreadable("bad_reward", quote(reward_txt))
        return _number(float(text), reward_txt)
    value = _load(reward_json, "bad_reward")
    if not isinstance(value, dict):
        return _number(value, reward_json)
    numbers = {name: _number(number, reward_json) for name, number in value.items()}
    if "reward" not in numbers:
        raise Unreadable("bad_reward", quote(reward_json))
    return numbers["reward"]


def parse_ctrf(ctrf: bytes) -> dict[str, bool]:
    """{name: passed} in the report's order. Raises Unreadable when it is not CTRF or names a test twice."""
    report = _load(ctrf, "bad_ctrf")
    checks: dict[str, bool] = {}
    try:
        for test in report["results"]["tests"]:
            name, status = test["name"], test["status"]
            if not isinstance(name, str) or not isinstance(status, str) or name in checks or _LONE.search(name):
                raise Unreadable("bad_ctrf", quote(json.dumps(test).encode()))
            checks[name] = status == "passed"
    except (KeyError, TypeError):
        raise Unreadable("bad_ctrf", quote(ctrf)) from None
    return checks


def parse_verdict(
    reward_json: bytes | None, reward_txt: bytes | None, ctrf: bytes | None, specs: tuple[CheckSpec, ...] = ()
) -> Verdict:
    """The verdict of a verifier's files (None: not written). Never raises; what cannot be read is invalid, not 0.

    With a CTRF report strict means that every final check passed, names without a spec counting as final, and the
    reward has to agree (1 or more exactly when strict). Without one, strict is reward >= 1.
    """
    try:
        reward = parse_reward(reward_json, reward_txt)
        if ctrf is None:
            if specs:
                raise Unreadable("missing_check", "no CTRF report")
            return Verdict({}, reward >= 1, reward=reward)
        checks = parse_ctrf(ctrf)
    except Unreadable as error:
        return invalid(error.kind, error.detail)
    absent = [spec.name for spec in specs if spec.name not in checks]
    if absent:
        return invalid("missing_check", ", ".join(absent))
    steps = {spec.name for spec in specs if spec.kind == "intermediate"}
    final = [passed for name, passed in checks.items() if name not in steps]
    if not final:
        strict = reward >= 1
    elif all(final) != (reward >= 1):
        return invalid("contradiction", f"reward {reward:g}, {sum(final)} of {len(final)} final checks passed")
    else:
        strict = all(final)
    return Verdict(checks, strict, reward=reward)
