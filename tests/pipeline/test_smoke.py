"""The whole pipeline with the smoke profile, through dvc, in a copy of this checkout (minutes)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


def environment(copy: Path) -> dict:
    return {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "PYTHONPATH": str(copy)}


def dvc(copy: Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([BIN / "dvc", *arguments], cwd=copy, env=environment(copy), capture_output=True, text=True, timeout=900)


def hashes(copy: Path) -> dict[str, str]:
    """Every output in dvc.lock with its hash."""
    lock = yaml.safe_load((copy / "dvc.lock").read_text())
    return {o["path"]: o["md5"] for s in lock["stages"].values() for o in s.get("outs", [])}


@pytest.fixture(scope="module")
def smoke(tmp_path_factory) -> Path:
    """A finished smoke run; the script itself fails when the second `dvc repro` runs anything."""
    copy = tmp_path_factory.mktemp("smoke") / "copy"
    done = subprocess.run(["bash", "rsi/profiles/smoke.sh", copy], cwd=ROOT, env=environment(ROOT), capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return copy


def test_all_stages_ran_and_left_their_pages(smoke):
    for name in (
        "tasks",
        "corpus",
        "base",
        "rsr1-s0",
        "rpr1-s0",
        "rsr2-s0",
        "rpr2-s0",
        "direct_ppo-s0",
        "eval-base",
        "eval-rpr2-s0",
        "table_main",
        "audit",
        "report",
    ):
        executed = json.loads((smoke / f"data/executed/{name}.ipynb").read_text())
        assert all(c["execution_count"] for c in executed["cells"] if c["cell_type"] == "code"), name
        page = (smoke / f"data/executed/{name}.html").read_text()
        assert str(smoke) not in page and "https://cdn" not in page, name


def test_main_json_has_every_suite_and_stage(smoke):
    rows = json.loads((smoke / "data/results/main.json").read_text())
    assert {r["stage"] for r in rows} == {"base", "rsr1", "rpr1", "rsr2", "rpr2", "direct_ppo"}
    assert {r["suite"] for r in rows} == {"tb21", "hard", "tb3", "tb4", "lhtb", "swr100", "four"}
    for r in rows:
        assert {"suite", "stage", "seed", "temperature", "n", "attempts", "strict", "low", "high", "progress", "invalid", "source"} <= r.keys()
        assert 0 <= r["low"] <= r["strict"] <= r["high"] <= 1 and 0 <= r["progress"] <= 1 and r["invalid"] == 0
        assert all((smoke / file).is_file() for file in r["source"].split(", "))
    scales = [json.loads((smoke / f"data/results/stages/{run}-s0.json").read_text())["scales"] for run in ("rpr1", "rpr2", "direct_ppo")]
    assert scales[0] and scales[0] == scales[1] == scales[2]  # what the audit takes as FDR's
    page = (smoke / "data/results/report.html").read_text()
    assert "standin-tb21" in page and not re.search(r'src="(?!data:)', page)


def test_metrics_and_plots_show(smoke):
    shown = json.loads(dvc(smoke, "metrics", "show", "--json").stdout)[""]["data"]
    assert "data/results/live/rpr1-s0/metrics.json" in shown and "base" in shown["data/results/summary.json"]["data"]["T0.1"]
    assert "reward" in dvc(smoke, "plots", "show", "--json").stdout
    assert "rpr2@0" in dvc(smoke, "dag").stdout


def test_notebooks_run_interactively_on_the_last_run(smoke):
    for name in ("rpr", "explore"):
        done = subprocess.run(
            [sys.executable, "-m", "rsi.notebooks", "run", name, "--as", f"../work/interactive-{name}"],
            cwd=smoke,
            env=environment(smoke),
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr[-3000:]


def test_case_24_status_names_exactly_the_stages_of_a_changed_parameter(smoke):
    original = (smoke / "params.yaml").read_text()
    try:
        (smoke / "params.yaml").write_text(original.replace("beta: 0.4", "beta: 0.3"))
        assert set(json.loads(dvc(smoke, "status", "--json").stdout)) == {"rpr2@0", "audit", "report"}  # the report prints params.yaml
    finally:
        (smoke / "params.yaml").write_text(original)


def test_saving_a_notebook_with_outputs_re_runs_nothing_but_the_cleaning(smoke):
    file = smoke / "notebooks" / "rpr.ipynb"
    original = file.read_text()
    notebook = json.loads(original)
    notebook["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["x"]}]
    notebook["metadata"]["language_info"] = {"name": "python", "version": "3.12.0"}
    try:
        file.write_text(json.dumps(notebook))
        assert re.findall(r"Running stage '(\S+)'", dvc(smoke, "repro").stdout) == ["clean"]
    finally:
        file.write_text(original)


def test_case_23_sigkill_in_the_middle_of_a_stage_then_repro_ends_with_the_same_hashes(smoke):
    assert dvc(smoke, "repro").returncode == 0
    before = hashes(smoke)
    running = subprocess.Popen(
        [BIN / "dvc", "repro", "--force", "--single-item", "rpr1@0"],
        cwd=smoke,
        env=environment(smoke),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 120
        while not list(smoke.glob("data/work/rpr1-s0/*/step-000/chunk-*.parquet")) and time.monotonic() < deadline and running.poll() is None:
            time.sleep(0.02)
        assert running.poll() is None, "the stage ended before it could be killed"
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    assert not (smoke / "data/results/stages/rpr1-s0.json").exists()
    again = dvc(smoke, "repro")
    assert again.returncode == 0, again.stdout[-3000:] + again.stderr[-3000:]
    assert "rpr1@0" in again.stdout
    assert hashes(smoke) == before
