"""Statistics and tables of the report, against slow references and hand-made numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rsi.persist import WorkDir
from rsi.report import figures, live, paper, tables
from rsi.report.results import summary
from rsi.report.stats import estimate, sample


def test_the_mean_is_over_valid_attempts_only():
    s = sample("x", ["a", "a", "b"], [1, 0, 1], [True, False, True])
    assert estimate([s], 50).mean == 1.0


def test_attempts_of_one_task_are_drawn_together():
    """100 attempts at 2 tasks, one always solved, one never: the interval must stay as wide as two tasks make it."""
    s = sample("x", ["a"] * 50 + ["b"] * 50, [1] * 50 + [0] * 50, [True] * 100)
    e = estimate([s], 4000)
    assert (e.low, e.high) == (0.0, 1.0)
    assert np.isclose((e.draws == 0.5).mean(), 0.5, atol=0.05)


def test_the_interval_agrees_with_a_plain_bootstrap():
    rng = np.random.default_rng(3)
    tasks = np.repeat(np.arange(60), 3)
    values = (rng.random(180) < np.repeat(rng.random(60), 3)).astype(float)
    e = estimate([sample("x", [str(t) for t in tasks], values, [True] * 180)], 4000)
    slow = []
    for _ in range(4000):
        drawn = rng.integers(0, 60, 60)
        slow.append(np.mean([values[tasks == t].mean() for t in drawn]))
    assert np.allclose([e.low, e.high], np.quantile(slow, [0.025, 0.975]), atol=0.015)


def test_equal_stages_differ_by_exactly_nothing():
    values, valid = [1, 0, 1, 1], [True] * 4
    a, b = (estimate([sample("x", ["a", "b", "c", "d"], values, valid)], 300) for _ in range(2))
    d = a - b
    assert d.mean == d.low == d.high == 0


def test_a_task_without_valid_attempts_keeps_the_draws_aligned():
    s = sample("x", ["a", "b"], [1, 0], [True, False], universe=["a", "b", "c"])
    assert len(s.tasks) == 3 and estimate([s], 200).mean == 1.0


def test_nothing_valid_is_not_a_zero():
    assert np.isnan(estimate([sample("x", ["a"], [0], [False])], 10).mean)


def frame() -> pd.DataFrame:
    rows = []
    for stage, seeds, solved in (("base", [-1], 1), ("rsr1", [0, 1], 2), ("direct_ppo", [0, 1], 1), ("rpr1", [0, 1], 3)):
        for suite in ("tb21", "hard", "tb3", "tb4", "lhtb"):
            for seed in seeds:
                for task in range(4):
                    for temperature in (0.1, 1.0):
                        rows.append(
                            {
                                "suite": suite,
                                "task": f"{suite}-{task}",
                                "family": "f",
                                "attempt": 0,
                                "valid": not (task == 3 and stage == "base"),
                                "strict": task < solved,
                                "progress": 1.0 if task < solved else 0.5,
                                "cause": "",
                                "stage": stage,
                                "seed": seed,
                                "temperature": temperature,
                                "source": f"data/episodes/eval/{stage}.parquet",
                            }
                        )
    return pd.DataFrame(rows)


def test_main_rows_hold_what_the_schema_says():
    rows = tables.main_rows(frame(), 200)
    keys = {"suite", "stage", "seed", "temperature", "n", "attempts", "strict", "low", "high", "progress", "invalid", "source"}
    assert all(keys <= r.keys() for r in rows)
    pick = {(r["suite"], r["stage"], r["seed"], r["temperature"]): r for r in rows}
    assert (
        pick["tb21", "rsr1", None, 0.1]["strict"] == 0.5 and pick["tb21", "rsr1", None, 0.1]["attempts"] == 2 and pick["tb21", "rsr1", 1, 0.1]["attempts"] == 1
    )
    assert pick["four", "base", None, 1.0]["strict"] == pytest.approx(1 / 3) and pick["four", "base", None, 1.0]["invalid"] == 4
    assert pick["four", "base", None, 1.0]["n"] == 16 and ("base", 0) not in {(r["stage"], r["seed"]) for r in rows}
    assert summary(rows)["T0.1"]["rpr1"] == 75.0


def test_differences_are_paired_and_given_by_seed():
    found = {(d["stage"], d["against"], d["temperature"]): d for d in tables.differences(frame(), 500)}
    d = found["rpr1", "direct_ppo", 0.1]
    assert d["difference"] == 0.5 and d["low"] > 0 and d["by_seed"] == {"0": 0.5, "1": 0.5}
    assert set(found["rsr1", "base", 1.0]["by_seed"]) == {"0", "1"}


def test_the_papers_values_stand_in_columns_of_their_own():
    table = tables.main_table(tables.main_rows(frame(), 50), 0.1)
    assert "paper RPR-2 [P]" in table and table.loc["standin-tb21", "paper RPR-2 [P]"] == "86.52"
    assert paper.STRICT["four", "rpr2"] == pytest.approx(np.mean([paper.STRICT[s, "rpr2"] for s in tables.FOUR]), abs=0.005)


def test_figures_are_byte_identical(tmp_path):
    rows = tables.main_rows(frame(), 50)
    first = [p.read_bytes() for p in figures.save(figures.main_figure(rows), tmp_path / "a")]
    second = [p.read_bytes() for p in figures.save(figures.main_figure(rows), tmp_path / "a")]
    assert first == second and b"202" not in first[1][:200]


def test_the_live_log_appears_when_the_stage_ends_well_and_the_same_after_a_resume(tmp_path):
    rows = [dict.fromkeys(live.SHOWN, k + 0.5) | {"step": k, "explained_variance": float("nan")} for k in range(3)]
    work, path = WorkDir("w", root=tmp_path), tmp_path / "live"

    def files():
        return {p.relative_to(path): p.read_bytes() for p in path.rglob("*") if p.is_file()}

    with live.LiveLog(path, work) as log:
        for row in rows:
            log.row(row)
        assert not path.exists()
    first = files()
    assert json.loads(first[Path("metrics.json")])["reward"] == 2.5 and Path("plots/metrics/reward.tsv") in first
    work.save("ppo.pt", {"log": rows[:2]})
    with pytest.raises(RuntimeError), live.LiveLog(path, work):
        raise RuntimeError
    assert files() == first
    with live.LiveLog(path, work) as log:
        log.row(rows[2])
    assert files() == first
