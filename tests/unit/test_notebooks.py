"""Notebooks on results that hold little: they show it instead of failing the stage."""

import json
import shutil
from pathlib import Path

import pytest

from rsi import paths
from rsi.harness.store import write_episodes
from rsi.persist import write_json
from rsi.rsr.stage import Yield
from tests.unit.test_cli import episode

ROOT = Path(__file__).parents[2]


def run(name: str, **parameters) -> None:
    """Every code cell of a notebook in turn, with `parameters` in the place of its own."""
    scope: dict = {}
    for cell in json.loads((ROOT / f"notebooks/{name}.ipynb").read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), scope)
            scope |= parameters if "parameters" in cell["metadata"].get("tags", []) else {}


@pytest.mark.parametrize("kept, loss, said", [
    ([], [], ["nothing kept: the actor stays as it was\n", "nothing kept\n"]),
    ([episode()], [{"step": k, "loss": 1.0, "lr": 0.1} for k in range(3)], ["look <b>"]),
])
def test_rsr_shows_what_was_kept_or_that_nothing_was(tmp_path, monkeypatch, capsys, kept, loss, said):
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    write_json(paths.result("stages/rsr1-s0.json"), {"yield": Yield().as_dict(), "loss": loss})
    write_episodes(paths.episodes("rsr/rsr1-s0-kept"), kept)
    run("rsr")
    shown = capsys.readouterr().out
    assert all(line in shown for line in said) and ("nothing kept" in shown) == (not kept)


def test_explore_names_a_mistyped_task_and_a_suite_without_common_attempts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    for name, strict in (("rpr1-s0", True), ("base", False)):
        write_episodes(paths.episodes(f"eval/{name}"), [episode("t-0", strict).with_(suite="tb21", extra={"temperature": 0.1})])
    with pytest.raises(ValueError, match="task 't-O': no valid attempt of both stages; they have t-0"):
        run("explore", task="t-O")
    with pytest.raises(ValueError, match="no task with a valid attempt of both stages: 0 attempts"):
        run("explore", suite="hard")


@pytest.mark.parametrize("task, mine, theirs, chosen", [
    ("", [True, False, True], [True, True, False], ("t-1", 0)),  # the first that ends differently, whichever stage solved it
    ("", [True, False, True], [True, False, True], ("t-0", 0)),
    ("t-2", [False, True, False], [True, True, False], ("t-2", 0)),
])
def test_explore_compares_where_the_stages_differ(task, mine, theirs, chosen):
    from rsi.explore import choose

    found = ({(f"t-{k}", 0): episode(f"t-{k}", strict) for k, strict in enumerate(stage)} for stage in (mine, theirs))
    assert choose(*found, task) == chosen
