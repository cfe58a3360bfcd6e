"""The result stages: main table, audit and report, from stored episodes to files below data/results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from rsi import paths
from rsi.persist import write_json, write_text
from rsi.report import audit, figures, html, tables


def make_results(runs: Sequence[str], results: Path, *, draws: int, shown: Mapping[str, str] = tables.SUITES) -> None:
    """main.json, differences.json, summary.json (what `dvc metrics show` prints) and the main figures. shown: the suites' labels."""
    everything = tables.load_evaluations([paths.episodes(f"eval/{run}") for run in runs])
    rows = tables.main_rows(everything, draws)
    write_json(results / "main.json", rows)
    write_json(results / "differences.json", tables.differences(everything, draws))
    write_json(results / "summary.json", summary(rows))
    rows = json.loads((results / "main.json").read_text())
    figures.save(figures.main_figure(rows, shown), results / "figures" / "main")
    figures.save(figures.suites_figure(rows, min(r["temperature"] for r in rows), shown), results / "figures" / "suites")


def summary(rows: Sequence[dict]) -> dict:
    """{temperature: {stage: percent}}: the four-suite mean over all seeds (`dvc metrics show` prints one column a value)."""
    out: dict = {}
    for r in rows:
        if r["suite"] == "four" and r["seed"] is None and r["strict"] == r["strict"]:
            out.setdefault(f"T{r['temperature']:g}", {})[r["stage"]] = round(100 * r["strict"], 2)
    return out


def make_audit(runs: Sequence[str], results: Path, *, beta: float) -> None:
    """audit.json and its figure, from the PPO episodes of `runs`."""
    found = audit.audit([paths.episodes(f"ppo/{run}") for run in runs], beta)
    write_json(results / "audit.json", found)
    figures.save(figures.mass_figure(found), results / "figures" / "mass")


def make_report(results: Path, seed: int, shown: Mapping[str, str] = tables.SUITES) -> Path:
    """The curves' figure and report.html. shown: the suites' labels."""
    runs = {tables.SHOWN[s]: paths.live(s, seed) for s in ("rpr1", "rpr2", "direct_ppo")}
    figures.save(figures.curves_figure(runs), results / "figures" / "curves")
    return write_text(results / "report.html", html.build(results, Path("params.yaml"), shown))
