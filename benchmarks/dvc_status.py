"""Case 25: how long `dvc status` takes over 10,000 episodes in one collection, and over this project's own pipeline."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from rsi.harness.episode import Episode, Turn
from rsi.harness.store import write_episodes
from rsi.sandbox.protocol import Verdict

DVC = Path(sys.executable).with_name("dvc")


def episode(k: int) -> Episode:
    """300 tokens, four turns of 40."""
    rng = np.random.default_rng(k)
    mask = np.zeros(300, bool)
    for start in (60, 120, 180, 240):
        mask[start : start + 40] = True
    turns = tuple(Turn(s, s + 40, "a line of thought", "ls -l", "total 0", 0) for s in (60, 120, 180, 240))
    return Episode(
        task=f"task-{k}",
        family="files",
        suite="pool",
        harness="terminus",
        stage="rpr1",
        seed=0,
        attempt=0,
        tokens=rng.integers(0, 1300, 300).astype(np.int32),
        mask=mask,
        logprobs=np.where(mask, -rng.random(300), 0).astype(np.float32),
        turns=turns,
        prompt_length=60,
        truncated=False,
        verdict=Verdict({"end": True}, True, True, "", 1.0),
    )


def seconds(*command: str, cwd: Path) -> float:
    """The faster of two runs."""
    times = []
    for _ in range(2):
        started = time.perf_counter()
        subprocess.run(command, cwd=cwd, check=True, capture_output=True)
        times.append(time.perf_counter() - started)
    return min(times)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        file = write_episodes(root / "episodes.parquet", (episode(k) for k in range(10_000)))
        (root / "dvc.yaml").write_text("stages:\n  rollouts:\n    cmd: 'true'\n    outs: [episodes.parquet]\n")
        subprocess.run([DVC, "init", "--no-scm", "--quiet"], cwd=root, check=True)
        subprocess.run([DVC, "commit", "--force", "--quiet"], cwd=root, check=True)
        print(f"10,000 episodes, {file.stat().st_size / 1e6:.0f} MB in one file: dvc status {seconds(str(DVC), 'status', cwd=root):.1f} s (bound: 5 s)")
    project = Path(__file__).parents[1]
    if (project / "dvc.lock").is_file():
        print(f"this project: dvc status {seconds(str(DVC), 'status', cwd=project):.1f} s")


if __name__ == "__main__":
    main()
