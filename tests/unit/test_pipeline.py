"""dvc.yaml read as data: parameters, code and notebooks each stage depends on; and the README's commands."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
STAGES = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
PARAMS = yaml.safe_load((ROOT / "params.yaml").read_text())
NO_RESULT = {"profile", "rollout.workers"}  # they change nothing that a stage writes
ROLLOUT = {f"rollout.{k}" for k in PARAMS["rollout"]} - NO_RESULT


def uses(stage: str) -> set[str]:
    """The parameters `group.name` that `stage` lists, groups spelled out."""
    leaves = set()
    for key in STAGES[stage].get("params", []):
        value = PARAMS
        for part in key.split("."):
            value = value[part]
        leaves |= {key} if "." in key or not isinstance(value, dict) or not value else {f"{key}.{k}" for k in value}
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
        ("rsr1", {"lora"}),
        ("rsr2", {"lora"}),
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


def test_each_cycle_uses_every_parameter_of_rsr_but_the_other_ones_rate():
    every = {f"rsr.{k}" for k in PARAMS["rsr"]}
    assert [{k for k in uses(s) if k.startswith("rsr.")} for s in ("rsr1", "rsr2")] == [every - {"rsr.lr_cycle2"}, every - {"rsr.lr"}]


TABLES = {"table_main", "report"}
AFTER_RPR2 = {"evaluate", "audit"} | TABLES


@pytest.mark.parametrize(
    ("parameter", "expected"),
    [
        ("reward.beta", {"rpr2"} | AFTER_RPR2),
        ("rpr.actor_lr_cycle2", {"rpr2"} | AFTER_RPR2),
        ("rpr.warmup_episodes", {"rpr1", "direct_ppo", "rsr2", "rpr2"} | AFTER_RPR2),
        ("rsr.lr_cycle2", {"rsr2", "rpr2"} | AFTER_RPR2),
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


def commands(readme: str) -> list[str]:
    """Every command in a text: the lines of its bash blocks without comments, and the inline ones."""
    blocks = re.findall(r"```bash\n(.*?)```", readme, re.DOTALL)
    inline = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", readme, flags=re.DOTALL))
    lines = [re.split(r"(?:^|\s)#", line)[0].strip() for block in blocks for line in block.splitlines()]
    return sorted({line for line in lines if line} | {c for c in inline if c.split()[0] in ("rsi", "dvc", "make", "jupyter", "python")})


def rsi_takes(words: list[str]) -> None:
    from typer.main import get_command

    from rsi.cli import app

    command = get_command(app)
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    command.make_context("rsi", words)  # raises for an unknown option and for an argument too many or too few


def dvc_takes(words: list[str]) -> None:
    from dvc.cli.parser import get_main_parser

    args = get_main_parser().parse_args(words)
    assert set(getattr(args, "targets", None) or []) <= STAGES.keys()
    for changed in getattr(args, "set_param", None) or []:
        value = PARAMS
        for key in changed.partition("=")[0].split("."):
            value = value[key]


def make_takes(words: list[str]) -> None:
    assert {w for w in words if "=" not in w} <= set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def jupyter_takes(words: list[str]) -> None:
    assert Path(sys.executable).with_name(f"jupyter-{words[0]}").is_file() and all((ROOT / w).exists() for w in words[1:])


def python_takes(words: list[str]) -> None:
    assert importlib.util.find_spec(words[1]) if words[0] == "-m" else (ROOT / words[0]).is_file()


def source_takes(words: list[str]) -> None:
    assert words == [".venv/bin/activate"]


TAKES = {"rsi": rsi_takes, "dvc": dvc_takes, "make": make_takes, "jupyter": jupyter_takes, "python": python_takes, ".": source_takes}


@pytest.mark.parametrize("command", commands((ROOT / "README.md").read_text()))
def test_every_command_in_the_readme_exists(command):
    name, *words = shlex.split(command)
    TAKES[name](words)


@pytest.mark.parametrize(
    "wrong",
    [
        "rsi tasks lnt rsi",
        "rsi show",
        "rsi audit --betta 1",
        "dvc reproduce",
        "dvc repro --forced",
        "dvc repro tsks",
        "dvc exp run -S rpr.gama=1",
        "make everything",
        "jupyter labb",
        "python -m rsi.nothing",
        "pip install rsi",
    ],
)
def test_a_command_that_does_not_exist_is_found_wherever_it_stands(wrong):
    from dvc.cli import DvcParserError
    from typer import BadParameter

    refused = (AssertionError, KeyError, DvcParserError, BadParameter.__base__)  # the last: every wrong usage, as click calls it

    for readme in (f"Run `{wrong}`.\n", f"```bash\n{wrong}   # why\n# only a comment\n```\n"):
        found = commands(readme)
        assert found == [wrong] or wrong.startswith("pip")  # in a sentence only the project's own commands are looked for
        for command in found:
            with pytest.raises(refused):
                TAKES[shlex.split(command)[0]](shlex.split(command)[1:])


def test_files_named_in_the_readme_exist():
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text()):
        if not target.startswith(("http", "data/results")):
            assert (ROOT / target).exists(), target
