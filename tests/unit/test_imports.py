"""The rooms' import rules: arrows point one way (docs/design.md)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "rsi"
# Each room may import itself and these; everything else of rsi is forbidden to it.
MAY = {
    "tasks": set(),
    "sandbox": {"tasks"},
    "policy": {"persist"},
    "rewards": set(),
    "harness": {"tasks", "sandbox", "policy", "persist"},
    "base": {"tasks", "sandbox", "policy", "harness", "params", "persist"},
    "rsr": {"tasks", "sandbox", "policy", "harness", "params", "persist"},
    "rpr": {"tasks", "sandbox", "policy", "harness", "rewards", "params", "persist"},
    "report": {"paths", "rewards", "persist"},  # artifacts only, plus the two modules below
    "profiles": set(),
}
ALLOWED_MODULES = {
    "report": {"rsi.harness.store", "rsi.harness.episode"},
    "harness": {"rsi.params"},
    "base": {"rsi.rsr.runbook", "rsi.rsr.method"},
}  # the corpus writes runbooks in the planner's form


def imported(file: Path) -> set[str]:
    """Modules of rsi that `file` imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found |= {f"rsi.{a.name}" for a in node.names} if node.module == "rsi" else {node.module}
    return {m for m in found if m.startswith("rsi.")}


@pytest.mark.parametrize("room", sorted(MAY))
def test_rooms_import_one_way(room):
    files = sorted((PACKAGE / room).rglob("*.py"))
    assert files
    for file in files:
        for module in imported(file):
            other = module.split(".")[1]
            allowed = other == room or other in MAY[room] or module in ALLOWED_MODULES.get(room, set())
            assert allowed, f"{file.relative_to(PACKAGE.parent)} imports {module}: not allowed from rsi/{room}"


def test_every_room_has_a_rule():
    assert {p.name for p in PACKAGE.iterdir() if (p / "__init__.py").is_file()} == MAY.keys()


def test_nothing_imports_the_stages_or_the_command_line():
    for file in PACKAGE.rglob("*.py"):
        if file.name not in ("explore.py", "cli.py"):
            assert not imported(file) & {"rsi.stages", "rsi.cli", "rsi.explore"}, file


def test_every_module_has_a_docstring_and_stays_short():
    for file in PACKAGE.rglob("*.py"):
        text = file.read_text()
        assert not text.strip() or ast.get_docstring(ast.parse(text)), f"{file}: no docstring"
        assert text.count("\n") <= 300, f"{file}: {text.count(chr(10))} lines"
