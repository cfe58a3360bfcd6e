"""Scratch directories are keyed by all that determines their content and by nothing else; files appear whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rsi.params import load_params
from rsi.persist import PACKAGE, WorkDir, code, digest, whole, write_json
from rsi.stages import work_dir

ROOT = Path(__file__).parents[2]


def where(copy: Path) -> str:
    """The path of one WorkDir as a fresh process finds it with the package in `copy`."""
    program = "from rsi.persist import WorkDir; print(WorkDir('stage', 1).path)"
    env = {**os.environ, "PYTHONPATH": str(copy)}
    return subprocess.run([sys.executable, "-c", program], cwd=copy, env=env, capture_output=True, text=True, check=True).stdout


def test_edited_code_does_not_go_on_with_old_work(tmp_path):
    (tmp_path / "rsi" / "rpr").mkdir(parents=True)
    for name in ("__init__.py", "persist.py", "rpr/gae.py"):
        shutil.copy(PACKAGE / name, tmp_path / "rsi" / name)
    first = where(tmp_path)
    (tmp_path / "rsi" / "notes.txt").write_text("no code")
    assert where(tmp_path) == first
    with (tmp_path / "rsi/rpr/gae.py").open("a") as f:
        f.write("# edited\n")
    assert where(tmp_path) != first
    assert str(PACKAGE) == str(ROOT / "rsi") and code() is code()


@pytest.fixture
def suites(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data/tasks").mkdir(parents=True)
    for name in ("pool", "hard"):
        (tmp_path / f"data/tasks/{name}.tar").write_bytes(name.encode())
    return tmp_path / "data/tasks"


def test_a_key_holds_what_determines_the_content_and_nothing_else(suites):
    params = load_params(ROOT / "params.yaml")

    def path(rollout=None, key=("x",), read=("pool", "hard")):
        return work_dir(params.model_copy(update={"rollout": params.rollout.model_copy(update=rollout or {})}), "rsr1-s0", *key, suites=read).path

    first = path()
    assert path({"workers": 7}) == first  # changes no result
    assert path({"chunk": 7}) != first and path({"context": 7}) != first and path(key=("y",)) != first
    assert path(read=("hard", "pool")) != first  # evaluation runs the suites in this order
    (suites / "hard.tar").write_bytes(b"other tasks")
    assert path() != first and path(read=("pool",)) == path(read=("pool",))


def test_what_is_made_once_is_read_again_after_a_kill(tmp_path):
    made = []

    def make():
        made.append(1)
        return {"jobs": [("t", 0)]}

    assert WorkDir("w", 1, root=tmp_path).once("plan.pt", make) == WorkDir("w", 1, root=tmp_path).once("plan.pt", make) == {"jobs": [("t", 0)]}
    assert made == [1]
    WorkDir("w", 2, root=tmp_path).once("plan.pt", make)
    assert made == [1, 1]


def test_a_missing_input_is_not_an_empty_one(tmp_path):
    with pytest.raises(FileNotFoundError, match="gone: not found"):
        digest(tmp_path / "gone")
    (tmp_path / "a").write_text("1")
    before = digest(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    assert digest(tmp_path) != before


def test_a_writer_that_fails_leaves_what_was_there(tmp_path):
    file = tmp_path / "sub" / "x.json"
    write_json(file, {"b": 1 / 3, "a": [float("nan"), (True, None)]})
    assert json.loads(file.read_text()) == {"a": [None, [True, None]], "b": 0.33333333}
    with pytest.raises(RuntimeError), whole(file) as part:
        part.write_text("half")
        raise RuntimeError
    with pytest.raises(TypeError):
        write_json(file, {"a": object()})
    assert json.loads(file.read_text())["b"] == 0.33333333 and [p.name for p in file.parent.iterdir()] == ["x.json"]
