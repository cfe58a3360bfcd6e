"""Per-step training metrics through DVCLive, in place when the stage ends, and the same files after a resumed one."""

from __future__ import annotations

import shutil
from pathlib import Path

from dvclive import Live

from rsi.persist import WorkDir, replace_dir

SHOWN = (
    "reward",
    "strict",
    "progress",
    "failed_share",
    "explained_variance",
    "value_loss",
    "kl",
    "clip_fraction",
    "entropy",
    "logprob_gap",
    "turns",
    "action_tokens",
    "truncated",
    "invalid",
)


class LiveLog:
    """Rows of one stage, written below `work` (to watch: its `live/metrics.json`) and moved to `path` when the stage ends well.

    After a kill the rows kept in `work` are logged again, then logging goes on.
    """

    def __init__(self, path: Path, work: WorkDir):
        self.path, self.work, self.part = path, work, work.path / "live"

    def __enter__(self) -> LiveLog:
        shutil.rmtree(self.part, ignore_errors=True)
        self.live = Live(str(self.part), save_dvc_exp=False, dvcyaml=None, report=None, monitor_system=False)
        state = self.work.load("ppo.pt")
        for row in state["log"] if state else []:
            self.row(row)
        return self

    def row(self, row: dict) -> None:
        for name in SHOWN:
            if row[name] == row[name]:
                self.live.log_metric(name, round(float(row[name]), 8))
        self.live.next_step()

    def __exit__(self, error, *_) -> None:
        self.live.end()
        if error is None:
            replace_dir(self.part, self.path)
