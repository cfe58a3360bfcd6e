"""Where the artifacts of each stage live, below data/. dvc.yaml names the same paths."""

from __future__ import annotations

from pathlib import Path

DATA = Path("data")
STAGES = ("base", "rsr1", "rpr1", "rsr2", "rpr2", "direct_ppo")
PARENT = {"rsr1": "base", "rpr1": "rsr1", "rsr2": "rpr1", "rpr2": "rsr2", "direct_ppo": "base"}


def run_name(stage: str, seed: int | None) -> str:
    """`rpr1-s0`; Base is shared by all seeds."""
    return stage if stage == "base" else f"{stage}-s{seed}"


def actor(stage: str, seed: int | None = None) -> Path:
    return DATA / "checkpoints" / run_name(stage, seed) / "actor"


def critic(stage: str, seed: int) -> Path:
    return DATA / "checkpoints" / run_name(stage, seed) / "critic"


def episodes(name: str) -> Path:
    """`corpus`, `rsr/rsr1-s0`, `rsr/rsr1-s0-kept`, `ppo/rpr1-s0`, `eval/rpr1-s0`: one file a collection."""
    return DATA / "episodes" / f"{name}.parquet"


def tasks(suite: str) -> Path:
    return DATA / "tasks" / suite


def result(name: str) -> Path:
    return DATA / "results" / name


def live(stage: str, seed: int) -> Path:
    return DATA / "results" / "live" / run_name(stage, seed)
