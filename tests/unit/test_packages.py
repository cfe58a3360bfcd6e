"""What is installed: every package that pyproject.toml names is used, every one that is imported is named, all are pinned."""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
COMMANDS = {"jupyterlab", "ruff", "pytest-xdist", "fastapi", "uvicorn", "openai"}  # started, or needed by what is started; imported nowhere


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(lines: list[str]) -> dict[str, str]:
    return {canonical(name): pin for name, _, pin in (line.partition("==") for line in lines)}


def code() -> list[str]:
    """The Python text of the project: modules, tests, measurements and the notebooks' cells."""
    files = [p.read_text() for folder in ("rsi", "tests", "benchmarks") for p in (ROOT / folder).rglob("*.py")]
    notebooks = [json.loads(p.read_text()) for p in (ROOT / "notebooks").glob("*.ipynb")]
    return files + ["".join(c["source"]) for n in notebooks for c in n["cells"] if c["cell_type"] == "code"]


def imported() -> set[str]:
    """Distributions that the project's own code imports."""
    nodes = [node for text in code() for node in ast.walk(ast.parse(text))]
    modules = {a.name for n in nodes if isinstance(n, ast.Import) for a in n.names}
    modules |= {n.module for n in nodes if isinstance(n, ast.ImportFrom) and n.level == 0}
    provided = packages_distributions()
    tops = {m.split(".")[0] for m in modules} - set(sys.stdlib_module_names) - {"rsi", "tests"}
    assert not (unknown := tops - provided.keys()), unknown
    return {canonical(d) for top in tops for d in provided[top]}


def test_what_is_named_is_used_and_what_is_used_is_named():
    named = pins(PROJECT["dependencies"]) | pins(PROJECT["optional-dependencies"]["dev"])
    assert named.keys() - imported() == COMMANDS
    assert imported() <= named.keys()


def test_every_named_package_is_pinned_as_in_the_tested_environment():
    tested = pins((ROOT / "constraints.txt").read_text().splitlines())
    for extra in (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()):
        assert {n: p for n, p in pins(extra).items() if tested.get(n) != p} == {}
