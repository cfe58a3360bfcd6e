"""dvc.yaml read as data: parameters, code and notebooks each stage depends on; and the README's commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
STAGES = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
PARAMS = yaml.safe_load((ROOT / "params.yaml").read_text())
NO_RESULT = {"profile", "rollout.workers"}  # they change nothing that a stage writes
ROLLOUT = {f"rollout.{k}" for k in PARAMS["rollout"]} - NO_RESULT


def uses(stage: str) -> set[str]:
    """The leaf parameters that `stage` lists, groups spelled out."""
    leaves = set()
    for key in STAGES[stage].get("params", []):
        value = PARAMS
        for part in key.split("."):
            value = value[part]
        leaves |= {key} if not isinstance(value, dict) or not value else {f"{key}.{k}" for k in value}
    return leaves


def produced(stage: str) -> set[str]:
    outs = [x for kind in ("outs", "metrics", "plots") for x in STAGES[stage].get(kind, [])]
    return {re.sub(r"\$\{item\.(\w+)\}", "*", o if isinstance(o, str) else next(iter(o))) for o in outs}


def needs(stage: str) -> set[str]:
    return {re.sub(r"\$\{item\.(\w+)\}", "*", d) for d in STAGES[stage].get("deps", [])}


def reads_from(stage: str) -> set[str]:
    """Stages whose outputs `stage` depends on (a directory depends on all that is written below it)."""

    def meets(dep: str, out: str) -> bool:
        return dep == out or out.startswith(dep + "/") or bool(re.fullmatch(re.escape(dep).replace(r"\*", "[^/]*"), out))

    return {other for other in STAGES if other != stage and any(meets(d, o) for d in needs(stage) for o in produced(other))}


def reruns(parameter: str) -> set[str]:
    """The stages that list `parameter`, and everything downstream of them."""
    hit = {s for s in STAGES if parameter in uses(s)}
    while more := {s for s in STAGES if reads_from(s) & hit} - hit:
        hit |= more
    return hit


def test_every_parameter_is_used_by_some_stage():
    leaves = {f"{k}.{x}" for k, v in PARAMS.items() if isinstance(v, dict) for x in v} | {k for k, v in PARAMS.items() if not isinstance(v, dict)}
    assert leaves - NO_RESULT - set().union(*map(uses, STAGES)) == set()


@pytest.mark.parametrize(
    ("stage", "groups"),
    [
        ("rsr1", {"rsr", "lora"}),
        ("rsr2", {"rsr", "lora"}),
        ("rpr1", {"lora"}),
        ("rpr2", {"lora"}),
        ("direct_ppo", {"lora"}),
        ("evaluate", set()),
        ("evaluate_base", set()),
        ("corpus", {"corpus"}),
    ],
)
def test_rollout_stages_list_what_changes_their_episodes(stage, groups):
    assert uses(stage) >= ROLLOUT
    assert {k for k in uses(stage) if k.split(".")[0] in groups} == {f"{g}.{k}" for g in groups for k in PARAMS[g]}


def test_both_cycles_together_use_every_ppo_parameter():
    assert {f"rpr.{k}" for k in PARAMS["rpr"]} == {k for s in ("rpr1", "rpr2") for k in uses(s) if k.startswith("rpr.")}
    assert {k for k in uses("direct_ppo") if k.startswith("rpr.")} == {k for k in uses("rpr1") if k.startswith("rpr.")}


TABLES = {"table_main", "report"}
AFTER_RPR2 = {"evaluate", "audit"} | TABLES


@pytest.mark.parametrize(
    ("parameter", "expected"),
    [
        ("reward.beta", {"rpr2"} | AFTER_RPR2),
        ("rpr.actor_lr_cycle2", {"rpr2"} | AFTER_RPR2),
        ("rpr.warmup_episodes", {"rpr1", "direct_ppo", "rsr2", "rpr2"} | AFTER_RPR2),
        ("rsr.runbooks", {"rsr1", "rpr1", "rsr2", "rpr2"} | AFTER_RPR2),
        ("eval.attempts", {"evaluate", "evaluate_base"} | TABLES),
        ("eval.bootstrap", TABLES),
        ("rollout.workers", set()),
    ],
)
def test_case_24_one_parameter_re_runs_exactly_the_stages_that_use_it(parameter, expected):
    assert reruns(parameter) == expected


def test_stages_depend_on_their_cleaned_notebook_and_keep_the_executed_one():
    for name, stage in STAGES.items():
        run = re.match(r"python -m rsi\.notebooks run (\w+)(?: --as (\S+))?", stage["cmd"])
        if name == "clean":
            continue
        assert f"data/notebooks/{run[1]}.ipynb" in stage["deps"], name
        suffix = re.sub(r"\$\{item\.\w+\}", "*", run[2] or run[1])
        assert {f"data/executed/{suffix}.ipynb", f"data/executed/{suffix}.html"} <= produced(name), name


def test_code_dependencies_exist_and_every_notebook_is_cleaned():
    for name in STAGES:
        assert all((ROOT / d).exists() for d in needs(name) if d.startswith("rsi/") or d == "params.yaml"), name
    assert produced("clean") == {f"data/notebooks/{p.name}" for p in (ROOT / "notebooks").glob("*.ipynb")}


def test_every_command_in_the_readme_exists():
    from typer.main import get_command

    from rsi.cli import app

    command, makefile = get_command(app), (ROOT / "Makefile").read_text()
    blocks = re.findall(r"```bash\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    lines = [
        line.split("#")[0].split() if not line.startswith("rsi show") else line.split("    #")[0].split()
        for b in blocks
        for line in b.splitlines()
        if line.strip()
    ]
    assert len(lines) > 10
    for words in lines:
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", makefile, re.MULTILINE), words
        elif words[0] == "rsi":
            sub = command.commands[words[1]]
            assert not hasattr(sub, "commands") or words[2] in sub.commands, words
        elif words[0] == "dvc":
            assert words[1] in {"repro", "status", "dag", "metrics", "plots", "exp"}, words
            changed = re.match(r"(\w+)\.(\w+)=", words[4]) if "-S" in words else None
            assert changed is None or changed[2] in PARAMS[changed[1]], words
        else:
            assert words[0] in {".", "jupyter"}, words


def test_files_named_in_the_readme_exist():
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text()):
        if not target.startswith(("http", "data/results")):
            assert (ROOT / target).exists(), target
