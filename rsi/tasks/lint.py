"""The linter: what is wrong with a task directory, with a remedy for each problem."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from rsi.tasks.load import TaskError, read_config
from rsi.tasks.suites import HELD_OUT_PAIRS, SUITES, side
from rsi.tasks.write import SCHEMA_VERSION

KEYS = {
    "": {"schema_version", "metadata", "agent", "verifier", "environment"},
    "metadata": {"family", "families", "suite", "seed", "index", "attempt", "renamed", "steps", "checks"},
    "agent": {"timeout_sec"},
    "verifier": {"timeout_sec"},
    "environment": {"build_timeout_sec", "cpus", "memory_mb", "storage_mb"},
}
FILES = ("task.toml", "instruction.md", "environment/Dockerfile", "tests/test.sh", "solution/solve.sh")
# The loader reads these of older tasks; ours are written with the newer names.
OLD_KEYS = {"version": "schema_version", "environment.memory": "memory_mb", "environment.storage": "storage_mb"}


@dataclass(frozen=True)
class Problem:
    """`file` relative to the task, `key` in it ("" for the whole file), what is wrong and what to do."""

    file: str
    key: str
    problem: str
    remedy: str


def lint(task_dir: Path, ours: bool) -> list[Problem]:
    """The problems of one task directory. `ours`: hold it to the rules of the generated suites, not only Harbor's."""
    root = Path(task_dir)
    found = [Problem(f, "", "missing", "add the file") for f in FILES if not (root / f).is_file()]
    try:
        _, table = read_config(root)
    except TaskError as e:
        return [*found, Problem("task.toml", "", str(e), "correct it")] if (root / "task.toml").is_file() else found
    if (root / "instruction.md").is_file() and not (root / "instruction.md").read_text().strip():
        found.append(Problem("instruction.md", "", "empty", "say what is to be done"))
    if ours and not found:
        found += _keys(table) + _checks(root, table) + _provenance(root, table)
    return found


def _keys(table: dict) -> list[Problem]:
    found = []
    for section, known in KEYS.items():
        values = table if not section else table.get(section)
        if not isinstance(values, dict):
            found.append(Problem("task.toml", section, "missing section", f"add [{section}]"))
            continue
        for key in sorted(set(values) - known):
            path = f"{section}.{key}".lstrip(".")
            remedy = f"write {OLD_KEYS[path]}" if path in OLD_KEYS else "remove it, or correct its spelling"
            found.append(Problem("task.toml", path, "unknown key", remedy))
    if table.get("schema_version") != SCHEMA_VERSION:
        found.append(Problem("task.toml", "schema_version", f"is not {SCHEMA_VERSION}", f'write "{SCHEMA_VERSION}"'))
    return found


def _checks(root: Path, table: dict) -> list[Problem]:
    found, script = [], (root / "tests/test.sh").read_text()
    checks = table.get("metadata", {}).get("checks", [])
    names = [c["name"] for c in checks]
    written = re.findall(r"^.*; t (\S+) (\S+) \$\?$", script, re.MULTILINE)
    if not any(c.get("kind", "final") == "final" and not c.get("holds_before") for c in checks):
        found.append(Problem("task.toml", "metadata.checks", "no final check that needs work", "add one"))
    for name in sorted({n for n in names if names.count(n) > 1}):
        found.append(Problem("task.toml", f"metadata.checks.{name}", "named twice", "give each check its own name"))
    if sorted(written) != sorted((c["name"], c.get("kind", "final")) for c in checks):
        found.append(Problem("tests/test.sh", "", "its checks are not metadata.checks", "make both lists equal"))
    return found


def _provenance(root: Path, table: dict) -> list[Problem]:
    meta, instruction = table["metadata"], (root / "instruction.md").read_text()
    suite = meta.get("suite", "")
    if suite not in SUITES:
        return [Problem("task.toml", "metadata.suite", f"unknown suite {suite!r}", f"one of {', '.join(SUITES)}")]
    found, where = [], SUITES[suite][1]
    clauses = re.findall(r"^(\d+)\. [a-z].*\.$", instruction, re.MULTILINE)
    if clauses != [str(k) for k in range(1, len(meta.get("families", [])) + 1)]:
        found.append(Problem("instruction.md", "", "not one numbered clause per family", "number the clauses from 1"))
    if ("evaluation" in (where, side(instruction))) and side(instruction) != where:
        found.append(Problem("instruction.md", "", "on the wrong side of the split", "generate it with other names"))
    if where != "corpus" and "steps" in meta:
        found.append(Problem("task.toml", "metadata.steps", "only the pretraining corpus may carry solutions", "remove it"))
    if where == "corpus" and "steps" not in meta:
        found.append(Problem("task.toml", "metadata.steps", "missing", "write the steps of a corpus task"))
    pairs = {(a, b) for a in meta.get("families", []) for b in meta.get("families", [])}
    if where == "pool" and pairs & HELD_OUT_PAIRS:
        found.append(Problem("task.toml", "metadata.families", "joins a held-out pair", "draw other families"))
    return found
