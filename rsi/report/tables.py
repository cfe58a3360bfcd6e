"""Tables from stored evaluation episodes: the main rows, the differences between stages, and how they are shown."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from rsi.harness.store import read_table
from rsi.paths import STAGES
from rsi.report import paper
from rsi.report.stats import Estimate, Sample, estimate, sample

FOUR = ("tb21", "hard", "tb3", "tb4")
SHOWN = {"base": "Base", "rsr1": "RSR-1", "rpr1": "RPR-1", "rsr2": "RSR-2", "rpr2": "RPR-2", "direct_ppo": "direct PPO"}
STANDIN = "standin-"
SUITES = {
    "tb21": "standin-tb21",
    "hard": "standin-hard",
    "tb3": "standin-tb3",
    "tb4": "standin-tb4",
    "four": "mean of these four",
    "lhtb": "standin-lhtb",
    "swr100": "standin-swr100",
}
COMPARISONS = (("rsr1", "base"), ("rpr1", "rsr1"), ("rsr2", "rpr1"), ("rpr2", "rsr2"), ("rpr2", "rsr1"), ("rpr2", "base"), ("rpr1", "direct_ppo"))


def labels(suites: Mapping) -> dict[str, str]:
    """Key -> label of every row of a table, for the suites of params.yaml (`tasks.suites`): a stand-in's own, and where `path` puts
    real tasks in its place the `name` given with it or else the directory's, so that nothing real is called a stand-in."""
    real = {k: s.name if s.name and not s.name.startswith(STANDIN) else s.path.resolve().name for k, s in suites.items() if s.path is not None}
    named, count = SUITES | real, Counter((SUITES | real).values())
    return {k: v if count[v] == 1 else f"{v} ({k})" for k, v in named.items()}  # two directories may have one name, two rows may not


def standins(shown: Mapping[str, str]) -> set[str]:
    """The suites that keep a stand-in's label."""
    return {k for k, v in shown.items() if v.startswith(STANDIN)}


class EqualTemperatures(ValueError):
    """Two samplings of the evaluation share a temperature, by which tables and figures tell them apart; says what to change."""


def load_evaluations(files: Sequence[Path]) -> pd.DataFrame:
    """One row an evaluation episode: suite, task, family, stage, seed (-1 for Base), temperature, sampling, attempt, valid, strict, progress,
    source. Raises EqualTemperatures, as episodes of two samplings must not be pooled."""
    frames = []
    for file in files:
        frame = read_table(file, ["suite", "task", "family", "stage", "attempt", "valid", "strict", "progress", "cause", "extra"])
        frame["sampling"] = frame.pop("stage").str.extract("-([a-z]+)$", expand=False)  # base-cold, base-warm
        stage, _, seed = Path(file).stem.rpartition("-s")
        frame["stage"], frame["seed"] = (stage, int(seed)) if stage else (seed, -1)
        frame["temperature"] = [json.loads(x)["temperature"] for x in frame.pop("extra")]
        frame["source"] = str(file)
        frames.append(frame)
    everything = pd.concat(frames, ignore_index=True)
    for temperature, names in everything.dropna(subset="sampling").groupby("temperature").sampling.unique().items():
        if len(names) > 1:
            raise EqualTemperatures(
                f"the samplings {' and '.join(sorted(names))} of the evaluation share the temperature {temperature:g}; give eval.temperature and "
                "eval.warm_temperature of params.yaml different values"
            )
    return everything


def _samples(part: pd.DataFrame, everything: pd.DataFrame, suites: Sequence[str], value: str) -> list[Sample]:
    out, universes = [], everything.groupby("suite").task.unique()
    for suite in suites:
        mine, universe = part[part.suite == suite], universes[suite]
        out.append(sample(suite, mine.task.tolist(), mine[value].fillna(0).astype(float).tolist(), mine.valid.tolist(), universe))
    return out


def _row(part: pd.DataFrame, everything: pd.DataFrame, suites: Sequence[str], draws: int, **names) -> dict:
    strict = estimate(_samples(part, everything, suites, "strict"), draws)
    progress = estimate(_samples(part, everything, suites, "progress"), draws)
    tasks = part.groupby(["suite", "task"]).size()
    return {
        **names,
        "n": len(tasks),
        "attempts": int(tasks.max()),
        "strict": strict.mean,
        "low": strict.low,
        "high": strict.high,
        "progress": progress.mean,
        "progress_low": progress.low,
        "progress_high": progress.high,
        "invalid": int((~part.valid).sum()),
        "source": ", ".join(sorted(part.source.unique())),
    }


def main_rows(everything: pd.DataFrame, draws: int) -> list[dict]:
    """Rows {suite, stage, seed, temperature, n, attempts, strict, low, high, progress, invalid, source}, shares in [0, 1].

    seed: a number, or null over all seeds (Base has no seed). suite "four": the mean of tb21, hard, tb3 and tb4.
    n: tasks; attempts: episodes a task. Invalid episodes are counted and kept out of every mean.
    """
    rows = []
    for temperature in sorted(everything.temperature.unique()):
        at = everything[everything.temperature == temperature]
        for stage in [s for s in STAGES if (at.stage == s).any()]:
            mine = at[at.stage == stage]
            present = [s for s in SUITES if (mine.suite == s).any()]
            sets = [(s, [s]) for s in present] + ([("four", list(FOUR))] if set(FOUR) <= set(present) else [])
            for seed in [None, *sorted(x for x in mine.seed.unique() if x >= 0)]:
                of_seed = mine if seed is None else mine[mine.seed == seed]
                rows += [
                    _row(
                        of_seed[of_seed.suite.isin(suites)],
                        everything,
                        suites,
                        draws,
                        suite=key,
                        stage=stage,
                        seed=None if seed is None else int(seed),
                        temperature=float(temperature),
                    )
                    for key, suites in sets
                ]
    return rows


def differences(everything: pd.DataFrame, draws: int) -> list[dict]:
    """Stage against stage on the four-suite mean: paired over tasks, all seeds of a task together; and seed by seed."""
    out = []
    for temperature in sorted(everything.temperature.unique()):
        at = everything[(everything.temperature == temperature) & everything.suite.isin(FOUR)]
        for a, b in COMPARISONS:
            x, y = at[at.stage == a], at[at.stage == b]
            if not (set(FOUR) <= set(x.suite) and set(FOUR) <= set(y.suite)):
                continue
            d = _four(x, everything, draws) - _four(y, everything, draws)
            seeds = {}
            for s in sorted(set(x.seed)):
                other = y[y.seed == s] if (y.seed == s).any() else y
                seeds[str(s)] = _four(x[x.seed == s], everything, 1).mean - _four(other, everything, 1).mean
            out.append({"stage": a, "against": b, "temperature": float(temperature), "difference": d.mean, "low": d.low, "high": d.high, "by_seed": seeds})
    return out


def _four(part: pd.DataFrame, everything: pd.DataFrame, draws: int) -> Estimate:
    return estimate(_samples(part, everything, FOUR, "strict"), draws)


def measured(value: float | None) -> bool:
    """Whether there was anything valid to measure: without it a mean is NaN, and null once it was written as JSON."""
    return value is not None and value == value


def percent(row: dict) -> str:
    """`43.2 [38.1, 48.0]`: percent with its interval; `–` where nothing valid was measured."""
    return f"{100 * row['strict']:.1f} [{100 * row['low']:.1f}, {100 * row['high']:.1f}]" if measured(row["strict"]) else "–"


def _shown(value: float | None, form: str, scale: float = 1) -> str:
    return format(scale * value, form) if measured(value) else "–"


def main_table(rows: Sequence[dict], temperature: float, shown: Mapping[str, str] = SUITES) -> pd.DataFrame:
    """Suites × stages, strict success in percent with its 95 % interval over all seeds, invalid episodes of all stages together, then the
    paper's values in columns of their own. shown: the suites' labels (see `labels`)."""
    chosen = [r for r in rows if r["seed"] is None and r["temperature"] == temperature]
    table = {}
    for suite in SUITES:
        mine = {r["stage"]: r for r in chosen if r["suite"] == suite}
        if mine:
            first = next(iter(mine.values()))
            cells = {"tasks": first["n"], "attempts": "/".join(str(a) for a in sorted({r["attempts"] for r in mine.values()}))}
            cells |= {SHOWN[s]: percent(mine[s]) for s in STAGES if s in mine}
            cells |= {"invalid": str(sum(r["invalid"] for r in mine.values()))}
            cells |= {f"paper {SHOWN[s]} [P]": f"{paper.STRICT[suite, s]:.2f}" if (suite, s) in paper.STRICT else "" for s in ("base", "rpr2")}
            table[shown[suite]] = cells
    return pd.DataFrame.from_dict(table, orient="index").fillna("–")


def difference_table(found: Sequence[dict]) -> pd.DataFrame:
    """The differences in points of the four-suite mean."""
    return pd.DataFrame(
        [
            {
                "difference": f"{SHOWN[d['stage']]} − {SHOWN[d['against']]}",
                "temperature": d["temperature"],
                "points": _shown(d["difference"], "+.1f", 100),
                "95 % interval": f"[{_shown(d['low'], '+.1f', 100)}, {_shown(d['high'], '+.1f', 100)}]" if measured(d["difference"]) else "–",
                "by seed": ", ".join(_shown(v, "+.1f", 100) for v in d["by_seed"].values()),
            }
            for d in found
        ]
    )


def process_table(rows: Sequence[dict], temperature: float) -> pd.DataFrame:
    """LHTB's process reward (mean progress) by stage, beside the paper's."""
    chosen = [r for r in rows if r["seed"] is None and r["temperature"] == temperature and r["suite"] == "lhtb"]
    return pd.DataFrame(
        [
            {
                "stage": SHOWN[r["stage"]],
                "process reward": f"{r['progress']:.3f} [{r['progress_low']:.3f}, {r['progress_high']:.3f}]" if measured(r["progress"]) else "–",
                "strict": f"{100 * r['strict']:.1f} %" if measured(r["strict"]) else "–",
                "paper [P]": paper.PROCESS.get(r["stage"], ""),
            }
            for r in chosen
        ]
    )


def yield_table(found: dict) -> pd.DataFrame:
    """The steps of one RSR stage in their order: what came in, what was let through."""
    counts, solved = found["counts"], found["solved_by"]
    rows = [(f"discovery: {h}", counts.get(f"rollouts_{h}", 0), counts.get(f"passes_{h}", 0), f"{len(tasks)} tasks solved") for h, tasks in solved.items()]
    union = len(set().union(*solved.values())) if solved else 0
    rows += [
        ("all harnesses together", sum(r[1] for r in rows), sum(r[2] for r in rows), f"{union} tasks solved"),
        ("invalid in discovery", counts.get("invalid", 0), 0, "no verdict: neither passed nor failed"),
        (
            "runbook drafts",
            counts.get("drafts", 0),
            counts.get("runbooks", 0),
            f"from {counts.get('sources', 0)} sources; {counts.get('given_up', 0)} given up",
        ),
        ("executions", counts.get("executions", 0), counts.get("passes_executed", 0), "runbook-guided, fresh sandbox"),
        ("direct passes", counts.get("passes_direct", 0), counts.get("kept_direct", 0), "generic harness, unrewritten"),
        (
            "kept executions",
            counts.get("passes_executed", 0),
            counts.get("kept_executed", 0),
            f"dropped: {counts.get('dropped_value_leak', 0)} leaks, {counts.get('dropped_duplicate', 0)} repeated, {counts.get('dropped_over_cap', 0)} capped",
        ),
        ("renamed and run again", counts.get("renamed", 0), counts.get("renamed_verified", 0), "verified anew before training"),
    ]
    return pd.DataFrame(rows, columns=["step", "in", "through", "note"])
