"""Tasks made on the spot for the sandbox tests, and what runs inside and outside of a sandbox."""

from __future__ import annotations

import os
import time
from pathlib import Path

from rsi.tasks.task import Task

PASS_FILE = "[[ -e done ]] && r=1 || r=0\necho $r > /logs/verifier/reward.txt\n"


def make_task(root: Path, test: str = PASS_FILE, setup: str = ":", **fields) -> Task:
    for path, text in (("environment/setup.sh", setup), ("tests/test.sh", test)):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return Task("case", root, "", "case", **fields)


def processes(sandbox) -> str:
    return sandbox.run("ps ax -o args --no-headers | grep -v -e '^ps ' -e '^grep ' -e bash -e /.boot", 5).output


def marked(marker: str) -> list[str]:
    """Host processes with `marker` on their command line, at any depth of namespaces."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if marker in line and int(entry.name) != os.getpid():
                found.append(line)
    return found


def gone(marker: str) -> bool:
    deadline = time.monotonic() + 3
    while marked(marker) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not marked(marker)
