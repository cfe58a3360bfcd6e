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


@pytest.mark.parametrize("kept, loss, said", [
    ([], [], ["nothing kept: the actor stays as it was\n", "nothing kept\n"]),
    ([episode()], [{"step": k, "loss": 1.0, "lr": 0.1} for k in range(3)], ["look <b>"]),
])
def test_rsr_shows_what_was_kept_or_that_nothing_was(tmp_path, monkeypatch, capsys, kept, loss, said):
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    write_json(paths.result("stages/rsr1-s0.json"), {"yield": Yield().as_dict(), "loss": loss})
    write_episodes(paths.episodes("rsr/rsr1-s0-kept"), kept)
    scope: dict = {}
    for cell in json.loads((ROOT / "notebooks/rsr.ipynb").read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), scope)
    shown = capsys.readouterr().out
    assert all(line in shown for line in said) and ("nothing kept" in shown) == (not kept)
