"""Episode collections on disk: one Parquet file a collection, written atomically, byte-identical for equal episodes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rsi.harness.episode import Episode, Turn
from rsi.persist import whole
from rsi.sandbox.protocol import Verdict
from rsi.tasks.task import CheckSpec

_TURN = pa.struct([("start", pa.int32()), ("end", pa.int32()), ("text", pa.string()), ("command", pa.string()),
                   ("observation", pa.string()), ("exit_code", pa.int32()), ("timed_out", pa.bool_())])
_CHECK = pa.struct([("name", pa.string()), ("passed", pa.bool_())])
_SPEC = pa.struct([("name", pa.string()), ("kind", pa.string()), ("holds_before", pa.bool_())])
SCHEMA = pa.schema([
    ("task", pa.string()), ("family", pa.string()), ("suite", pa.string()), ("harness", pa.string()), ("stage", pa.string()),
    ("seed", pa.int32()), ("attempt", pa.int32()), ("instruction", pa.string()), ("runbook", pa.string()),
    ("truncated", pa.bool_()), ("train_temperature", pa.float64()), ("prompt_length", pa.int32()),
    ("valid", pa.bool_()), ("strict", pa.bool_()), ("cause", pa.string()), ("reward_file", pa.float64()), ("progress", pa.float64()),
    ("checks", pa.list_(_CHECK)), ("specs", pa.list_(_SPEC)), ("turns", pa.list_(_TURN)),
    ("tokens", pa.list_(pa.int32())), ("mask", pa.list_(pa.bool_())), ("logprobs", pa.list_(pa.float32())), ("extra", pa.string()),
])


def _row(e: Episode) -> dict:
    return {
        "task": e.task, "family": e.family, "suite": e.suite, "harness": e.harness, "stage": e.stage, "seed": e.seed,
        "attempt": e.attempt, "instruction": e.instruction, "runbook": e.runbook, "truncated": e.truncated,
        "train_temperature": e.train_temperature, "prompt_length": e.prompt_length,
        "valid": e.verdict.valid, "strict": e.verdict.strict, "cause": e.verdict.cause, "reward_file": e.verdict.reward,
        "progress": e.progress, "checks": [{"name": k, "passed": v} for k, v in e.verdict.checks.items()],
        "specs": [{"name": s.name, "kind": s.kind, "holds_before": s.holds_before} for s in e.specs],
        "turns": [vars(t) for t in e.turns], "tokens": e.tokens.tolist(), "mask": e.mask.tolist(),
        "logprobs": e.logprobs.tolist(), "extra": json.dumps(e.extra, sort_keys=True),
    }


def _episode(r: dict) -> Episode:
    return Episode(
        task=r["task"], family=r["family"], suite=r["suite"], harness=r["harness"], stage=r["stage"], seed=r["seed"],
        attempt=r["attempt"], tokens=np.asarray(r["tokens"], np.int32), mask=np.asarray(r["mask"], bool),
        logprobs=np.asarray(r["logprobs"], np.float32), turns=tuple(Turn(**t) for t in r["turns"]),
        prompt_length=r["prompt_length"], truncated=r["truncated"], instruction=r["instruction"], runbook=r["runbook"],
        verdict=_verdict(r), specs=_specs(r), train_temperature=r["train_temperature"],
        extra=json.loads(r["extra"]))


def _verdict(r: dict) -> Verdict:
    return Verdict({c["name"]: c["passed"] for c in r["checks"]}, r["strict"], r["valid"], r["cause"], r["reward_file"])


def _specs(r: dict) -> tuple[CheckSpec, ...]:
    return tuple(CheckSpec(**s) for s in r["specs"])


def write_episodes(path: Path, episodes: Iterable[Episode]) -> Path:
    """Write one collection. The file appears whole or not at all: a reader never meets half of it."""
    table = pa.Table.from_pylist([_row(e) for e in episodes], schema=SCHEMA)
    with whole(path) as part:
        pq.write_table(table, part, compression="zstd")
    return Path(path)


def read_episodes(path: Path) -> list[Episode]:
    """Read one collection. Raises EpisodeError for a stream whose parts disagree, FileNotFoundError naming the file."""
    return [_episode(row) for row in pq.read_table(path).to_pylist()]


def read_verdicts(path: Path) -> list[tuple[str, Verdict, tuple[CheckSpec, ...]]]:
    """(family, verdict, check specs) of each episode: what an audit needs, without the tokens."""
    columns = ["family", "valid", "strict", "cause", "reward_file", "checks", "specs"]
    return [(r["family"], _verdict(r), _specs(r)) for r in pq.read_table(path, columns=columns).to_pylist()]


def read_table(path: Path, columns: list[str]):
    """Read some columns as a pandas frame (for tables, which need no tokens)."""
    return pq.read_table(path, columns=columns).to_pandas()
