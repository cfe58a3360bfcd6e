"""Every module of rsi that a stage's function reaches, by any import, is among that stage's dependencies in dvc.yaml.

The stage's function is the `make_*` that its notebook imports. Within that function's own module only what the function uses
counts; beyond it whole modules do. What a notebook imports to draw with is no dependency (docs/design.md).
"""

from __future__ import annotations

import ast
import functools
import json
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
STAGES = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]


def file_of(module: str) -> Path | None:
    """The file of `rsi.a.b`, relative to the root; None for what is no module."""
    path = ROOT.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return file.relative_to(ROOT) if file.is_file() else None


@functools.cache
def tree(file: Path) -> ast.Module:
    return ast.parse((ROOT / file).read_text())


def bindings(node: ast.AST) -> dict[str, str]:
    """{name: module of rsi} that the imports anywhere in `node` bind; and modules that are only named, as import_module does."""
    found = {}
    for n in ast.walk(node):
        if isinstance(n, ast.Import):
            found |= {a.asname or a.name: a.name for a in n.names}
        elif isinstance(n, ast.ImportFrom) and n.module and n.level == 0:
            found |= {a.asname or a.name: f"{n.module}.{a.name}" if file_of(f"{n.module}.{a.name}") else n.module for a in n.names}
        elif isinstance(n, ast.Constant) and isinstance(n.value, str) and re.fullmatch(r"rsi(\.\w+)+", n.value):
            found[n.value] = n.value
    return {name: m for name, m in found.items() if m.startswith("rsi.") and file_of(m)}


def used_by(file: Path, function: str) -> set[str]:
    """Modules that `function` of `file` uses: imported in it, imported at the top and named in it, or so for a function it names."""
    body = tree(file).body
    functions = {n.name: n for n in body if isinstance(n, ast.FunctionDef)}
    top = bindings(ast.Module([n for n in body if isinstance(n, ast.Import | ast.ImportFrom)], []))
    modules, todo, seen = set(), [function], set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        modules |= set(bindings(functions[name]).values())
        names = {n.id for n in ast.walk(functions[name]) if isinstance(n, ast.Name)}
        modules |= {top[n] for n in names & top.keys()}
        todo += names & functions.keys()
    return modules


def reached(file: Path, function: str) -> set[Path]:
    """Files of every module reached from `function` of `file`, its own included."""
    modules, todo = {file}, [file_of(m) for m in used_by(file, function)]
    while todo:
        if (one := todo.pop()) not in modules:
            modules.add(one)
            todo += [file_of(m) for m in set(bindings(tree(one)).values())]
    return modules


def notebook(stage: str) -> dict[str, str]:
    """What the stage's notebook imports of rsi, as `bindings`."""
    cells = json.loads((ROOT / "notebooks" / f"{STAGES[stage]['cmd'].split()[4]}.ipynb").read_text())["cells"]
    return {name: m for c in cells if c["cell_type"] == "code" for name, m in bindings(ast.parse("".join(c["source"]))).items()}


def entry(stage: str) -> tuple[Path, str]:
    """(file, function) that the stage runs."""
    if stage == "clean":
        return Path("rsi/notebooks.py"), "clean"
    ((function, module),) = [(name, m) for name, m in notebook(stage).items() if name.startswith("make_")]
    return file_of(module), function


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_depends_on_all_code_that_it_runs(stage):
    deps = [Path(d) for d in STAGES[stage]["deps"]]
    missing = sorted(str(f) for f in reached(*entry(stage)) if not any(f == d or d in f.parents for d in deps))
    assert missing == [], f"dvc.yaml: {stage}: deps lack {', '.join(missing)}"


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_depends_on_no_code_that_it_cannot_reach(stage):
    """Else an edit re-runs hours for nothing. (What the notebook itself calls may be listed.)"""
    files = reached(*entry(stage)) | {file_of(m) for m in ({} if stage == "clean" else notebook(stage)).values()}
    idle = [d for d in STAGES[stage]["deps"] if d.startswith("rsi/") and not any(f == Path(d) or Path(d) in f.parents for f in files)]
    assert idle == []


def test_imports_are_followed_into_functions_and_through_names():
    """The walk finds what it must: a lazy import, a module named as text, and nothing that another function uses."""
    rsr = reached(Path("rsi/stages.py"), "make_rsr")
    assert Path("rsi/rsr/chat.py") in rsr and Path("rsi/sandbox/bubblewrap.py") in rsr and Path("rsi/rpr/stage.py") not in rsr
    assert Path("rsi/harness/pool.py") not in reached(Path("rsi/stages.py"), "make_tasks")
