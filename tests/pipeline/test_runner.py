"""The notebook runner: what fails a stage, what is kept, what is named; and that equal runs leave equal bytes."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def notebook(*cells: str) -> dict:
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "elsewhere", "display_name": "x"}, "widgets": {}},
        "cells": [
            {
                "cell_type": "code",
                "id": os.urandom(4).hex(),
                "metadata": {"tags": ["parameters"]} if k == 0 else {"collapsed": True},
                "source": c,
                "outputs": [{"output_type": "stream", "name": "stdout", "text": "old"}],
                "execution_count": 7,
            }
            for k, c in enumerate(cells)
        ],
    }


@pytest.fixture
def project(tmp_path, monkeypatch):
    shutil.copy(ROOT / "params.yaml", tmp_path)
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "rsi.notebooks", *arguments]


def environment() -> dict:
    return {**{k: v for k, v in os.environ.items() if k != "DVC_ROOT"}, "PYTHONPATH": str(ROOT)}


def run(project: Path, *cells: str, parameters: tuple = ("-p", "x", "5")) -> tuple[subprocess.CompletedProcess, dict]:
    (project / "notebooks" / "it.ipynb").write_text(json.dumps(notebook(*cells)))
    subprocess.run(command("clean"), check=True, env=environment())
    done = subprocess.run(command("run", "it", "--as", "it-s0", *parameters), env=environment(), capture_output=True, text=True, timeout=120)
    return done, json.loads((project / "data/executed/it-s0.ipynb").read_text())


def printed(executed: dict) -> str:
    return "".join("".join(o.get("text", "")) for c in executed["cells"] if c["cell_type"] == "code" for o in c["outputs"])


def test_a_notebook_runs_with_its_parameters_and_equal_runs_leave_equal_bytes(project):
    cells = ("x = 1", "for k in range(300): print(k)", "import sys; print('warning', file=sys.stderr); x")
    done, executed = run(project, *cells)
    assert done.returncode == 0, done.stderr
    assert executed["cells"][-1]["outputs"][-1]["data"]["text/plain"] in ("5", ["5"])
    first = [(project / f"data/executed/it-s0.{kind}").read_bytes() for kind in ("ipynb", "html")]
    run(project, *cells)
    assert first == [(project / f"data/executed/it-s0.{kind}").read_bytes() for kind in ("ipynb", "html")]
    assert str(project).encode() not in b"".join(first)


def test_progress_bars_reach_the_terminal_and_not_the_notebook(project):
    done, executed = run(
        project, "x = 1", "from rsi.notebooks import progress\nfrom tqdm import tqdm\nwith progress():\n    list(tqdm(range(3), disable=False, desc='bar'))"
    )
    assert "bar" in done.stderr and "3/3" in done.stderr
    assert "bar" not in printed(executed)


def test_a_socket_for_stderr_costs_the_progress_bars_and_not_the_stage(project):
    (project / "notebooks" / "it.ipynb").write_text(
        json.dumps(notebook("x = 1", "from rsi.notebooks import progress\nimport sys\nwith progress():\n    print('bar', file=sys.stderr)\nprint('went on')"))
    )
    subprocess.run(command("clean"), check=True, env=environment())
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert subprocess.run(command("run", "it"), env=environment(), stderr=theirs, timeout=120).returncode == 0
    executed = json.loads((project / "data/executed/it.ipynb").read_text())
    assert "went on" in printed(executed) and "bar" not in printed(executed)


def test_case_21_a_dead_kernel_fails_the_stage_and_what_ran_is_kept_and_named(project):
    done, executed = run(project, "x = 1", "print('before', x)", "import os; os._exit(9)", "print('after')")
    assert done.returncode != 0
    assert "data/executed/it-s0.ipynb: cell 3" in done.stderr and "Kernel died" in done.stderr
    assert "before 5" in printed(executed) and "after" not in printed(executed)


@pytest.mark.parametrize("leave", ["import sys; sys.exit(0)", "exit()", "quit()", "raise SystemExit"])
def test_case_22_an_early_exit_is_a_failure(project, leave):
    done, executed = run(project, "x = 1", "print('before')", leave, "print('after')")
    assert done.returncode != 0
    assert "data/executed/it-s0.ipynb: cell 3" in done.stderr and "SystemExit" in done.stderr
    assert "before" in printed(executed) and "after" not in printed(executed)


def test_a_failing_cell_is_named_with_its_error(project):
    done, executed = run(project, "x = 1", "1 / 0", "print('after')")
    assert done.returncode != 0
    assert "cell 2 (of data/notebooks/it.ipynb): ZeroDivisionError: division by zero" in done.stderr
    assert (project / "data/executed/it-s0.html").is_file()


def test_an_unknown_notebook_is_named(project):
    done = subprocess.run(command("run", "nothing"), env=environment(), capture_output=True, text=True)
    assert done.returncode != 0 and "data/notebooks/nothing.ipynb: not found" in done.stderr


def test_sigkill_of_the_runner_leaves_no_kernel(project):
    (project / "notebooks" / "it.ipynb").write_text(json.dumps(notebook("x = 1", "import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(60)")))
    subprocess.run(command("clean"), check=True, env=environment())
    runner = subprocess.Popen(command("run", "it"), env=environment(), stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not ((project / "pid").is_file() and (project / "pid").read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        kernel = Path("/proc", (project / "pid").read_text())
    finally:
        runner.kill()
        runner.wait()
    deadline = time.monotonic() + 10
    while kernel.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not kernel.exists()


def test_cleaning_forgets_what_opening_and_running_changes(project):
    from rsi.notebooks import clean

    (project / "notebooks" / "it.ipynb").write_text(json.dumps(notebook("x = 1", "x")))
    first = clean()[0].read_bytes()
    (project / "notebooks" / "it.ipynb").write_text(json.dumps({**notebook("x = 1", "x"), "metadata": {"language_info": {"version": "3.12.1"}}}))
    assert clean()[0].read_bytes() == first


def test_shipped_notebooks_hold_no_outputs_and_have_parameters():
    for file in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(file.read_text())["cells"]
        code = [c for c in cells if c["cell_type"] == "code"]
        assert all(not c["outputs"] and c["execution_count"] is None for c in code), (
            f"{file.name} holds outputs; run: jupyter nbconvert --clear-output --inplace"
        )
        assert sum("parameters" in c["metadata"].get("tags", []) for c in code) == 1, file.name
        assert "here()" in "".join("".join(c["source"]) for c in code), file.name
