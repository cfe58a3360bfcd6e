"""Statistics and tables of the report, against slow references and hand-made numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rsi.harness.store import write_episodes
from rsi.params import Suite
from rsi.persist import WorkDir, write_json
from rsi.report import figures, html, live, paper, tables
from rsi.report.results import summary
from rsi.report.stats import estimate, sample
from rsi.rsr.stage import Yield
from tests.unit.test_cli import episode

ROOT = Path(__file__).parents[2]


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


def written(results: Path, found: pd.DataFrame, shown: dict[str, str] = tables.SUITES) -> list[dict]:
    """What the table stages leave in `results` for a report; returns the rows as a reader of main.json gets them."""
    write_json(results / "main.json", tables.main_rows(found, 50))
    write_json(results / "differences.json", tables.differences(found, 50))
    write_json(results / "audit.json", {"all": {"episodes": 7, "failed_mass": {"raw": 0.4, "fdr": None, "spr": 0.2}}, "invalid": {}})
    for stage in found.stage.unique():
        yields = Yield()
        yields.counts["invalid"] = 13
        write_json(results / "stages" / f"{stage}.json", {"yield": yields.as_dict(), "loss": []} if stage == "rsr1" else {"curve": []})
    rows = json.loads((results / "main.json").read_text())
    figures.save(figures.main_figure(rows, shown), results / "figures/main")
    figures.save(figures.suites_figure(rows, 0.1, shown), results / "figures/suites")
    figures.save(figures.mass_figure(json.loads((results / "audit.json").read_text())), results / "figures/mass")
    return rows


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


def test_invalid_evaluations_are_counted_in_the_tables_and_the_audit_speaks_for_ppo_alone(tmp_path):
    rows = written(tmp_path, frame())
    table = tables.main_table(rows, 0.1)
    assert table.loc["standin-tb21", "invalid"] == "1" and table.loc["mean of these four", "invalid"] == "4"
    page = html.build(tmp_path, ROOT / "params.yaml")
    assert "7 valid PPO episodes were audited; invalid ones: none" in page and "evaluation episodes were audited" not in page
    assert re.search(r"<td>invalid in discovery</td>\s*<td>13</td>", page.split("Yield of rsr1")[1])


def test_a_suite_without_a_valid_attempt_is_a_dash_everywhere(tmp_path, recwarn):
    found = frame()
    found.loc[found.suite.isin(["hard", "lhtb"]), "valid"] = False
    rows = written(tmp_path, found)  # draws every figure
    assert {r["strict"] for r in rows if r["suite"] in ("hard", "four", "lhtb")} == {None}
    table = tables.main_table(rows, 0.1)
    assert table.loc["standin-hard", "RSR-1"] == "–" and table.loc["standin-tb21", "RSR-1"].startswith("50.0")
    assert set(tables.process_table(rows, 0.1)["process reward"]) == set(tables.process_table(rows, 0.1)["strict"]) == {"–"}
    differences = tables.difference_table(json.loads((tmp_path / "differences.json").read_text()))
    assert set(differences["points"]) == set(differences["95 % interval"]) == {"–"} and "nan" not in differences.to_string()
    page = html.build(tmp_path, ROOT / "params.yaml")
    assert ">nan" not in page.lower() and ">none<" not in page.lower()
    assert not [w for w in recwarn if "legend" in str(w.message).lower()]


def test_one_stage_without_a_valid_attempt_leaves_the_others_drawn(tmp_path):
    found = frame()
    found.loc[(found.stage == "base") & (found.suite == "hard"), "valid"] = False
    rows = written(tmp_path, found)
    drawn = figures.main_figure(rows).axes[0]
    assert [t.get_text() for t in drawn.get_xticklabels()] == ["Base", "RSR-1", "RPR-1", "direct PPO"]
    assert sorted(t.get_text() for t in drawn.get_legend().get_texts()) == ["temperature 0.1", "temperature 1"]
    assert {round(c.lines[0].get_xdata()[0]) for c in drawn.containers} == {1, 2, 3}


def test_only_stand_ins_are_called_so(tmp_path):
    (tmp_path / "Tasks").mkdir()
    suites = {
        "tb21": Suite(name="Terminal-Bench 2.1", path=tmp_path),
        "hard": Suite(name="standin-hard", path=tmp_path / "Tasks"),
        "tb3": Suite(path=tmp_path / "Tasks"),
        "tb4": Suite(name="standin-tb4", limit=3),
    }
    shown = tables.labels(suites)
    assert [shown[s] for s in tables.FOUR] == ["Terminal-Bench 2.1", "Tasks (hard)", "Tasks (tb3)", "standin-tb4"] and shown["lhtb"] == "standin-lhtb"
    rows = written(tmp_path / "results", frame(), shown)
    assert list(tables.main_table(rows, 0.1, shown).index) == [*(shown[s] for s in tables.FOUR), "mean of these four", "standin-lhtb"]
    titles = [ax.get_title() for ax in figures.suites_figure(rows, 0.1, shown).axes]
    assert titles[0].startswith("Terminal-Bench 2.1 (n") and "stand-in" not in figures.main_figure(rows, shown).axes[0].get_ylabel()
    page = html.build(tmp_path / "results", ROOT / "params.yaml", shown)
    assert "standin-tb4, standin-lhtb: generated stand-ins" in page and "standin-tb21" not in page.split("<h2>Parameters")[0]
    assert "solving generated stand-ins of the paper's suites in real sandboxes" in html.build(tmp_path / "results", ROOT / "params.yaml")
    everything = html.build(tmp_path / "results", ROOT / "params.yaml", tables.labels({k: Suite(name=f"real {k}", path=tmp_path) for k in tables.SUITES}))
    assert "stand-in" not in everything.split("<h2>Parameters")[0]


def test_two_samplings_of_one_temperature_are_refused_and_not_pooled(tmp_path):
    def file(name: str, warm: float) -> Path:
        drawn = [episode(attempt=0).with_(stage="base-cold", extra={"temperature": 0.1}), episode().with_(stage="base-warm", extra={"temperature": warm})]
        return write_episodes(tmp_path / name, drawn)

    with pytest.raises(tables.EqualTemperatures, match="cold and warm .* share the temperature 0.1; give eval.temperature and eval.warm_temperature"):
        tables.load_evaluations([file("rsr1-s0.parquet", 0.1)])
    kept = tables.load_evaluations([file("base.parquet", 1.0), file("rsr1-s0.parquet", 1.0)])
    assert kept.sampling.tolist() == ["cold", "warm"] * 2 and kept.stage.tolist() == ["base"] * 2 + ["rsr1"] * 2 and set(kept.seed) == {-1, 0}


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
