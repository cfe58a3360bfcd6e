"""What the committed laptop run shows of Base: weak in its mode, capable in its support. The gates are fixed; the figures are the run's."""

import json
import subprocess
from pathlib import Path

import pytest

from rsi.report import tables

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "data" / "results"
COMMITTED = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "data/results/main.json", "params.yaml"], cwd=ROOT, check=False).returncode == 0
pytestmark = pytest.mark.skipif(not COMMITTED, reason="data/results or params.yaml are of a run of your own; these tests hold the committed one")


@pytest.fixture(scope="module")
def base():
    """{(suite, temperature): row} of Base over all seeds."""
    rows = json.loads((RESULTS / "main.json").read_text())
    return {(r["suite"], r["temperature"]): r for r in rows if r["stage"] == "base" and r["seed"] is None}


def test_base_is_weak_in_its_mode(base):
    assert 0.10 <= base["four", 0.1]["strict"] <= 0.35
    assert base["four", 0.1]["strict"] - base["four", 1.0]["strict"] <= 0.10
    assert base["lhtb", 0.1]["strict"] <= 0.03


def test_the_right_behaviour_is_in_bases_support():
    gates = json.loads((RESULTS / "base_gates.json").read_text())
    singles = {f: g["passed"] / g["tasks"] for f, g in gates.items() if f not in ("joined", "chain", "reconstruct")}
    assert sum(share >= 0.75 for share in singles.values()) >= 0.8 * len(singles), singles
    assert gates["joined"]["passed"] / gates["joined"]["tasks"] >= 0.5, gates["joined"]


def test_every_row_says_its_size_and_source():
    for row in json.loads((RESULTS / "main.json").read_text()):
        assert row["n"] > 0 and row["attempts"] > 0 and row["source"]
        assert row["low"] <= row["strict"] <= row["high"]
        assert row["stage"] in {"base", "rsr1", "rpr1", "rsr2", "rpr2", "direct_ppo"}


def markdown(frame):
    """A table as the README shows it; the index, where it is named, is the first column."""
    body = [[str(k), *map(str, v)] for k, v in zip(frame.index, frame.to_numpy(), strict=True)]
    rows = [[frame.index.name, *frame.columns], ["---"] * (1 + len(frame.columns)), *body]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def readme_tables():
    """Strict success by suite and stage, and the differences, at temperature 0.1 over all seeds."""
    rows, found = (json.loads((RESULTS / name).read_text()) for name in ("main.json", "differences.json"))
    main = tables.main_table(rows, 0.1)
    main = main[[c for c in main.columns if "paper" not in c and c not in ("tasks", "attempts", "invalid")]]
    compared = tables.difference_table([d for d in found if d["temperature"] == 0.1]).set_index("difference")[["points", "95 % interval", "by seed"]]
    return markdown(main.rename_axis("strict %")), markdown(compared.rename_axis("four-suite mean"))


def test_the_readme_shows_the_committed_numbers():
    text = (ROOT / "README.md").read_text()
    for table in readme_tables():
        assert table in text, f"README.md: its table is not this one:\n{table}"
