"""Notebooks as pipeline stages: clean them, run one through papermill, keep what ran, fail when any cell did not.

    python -m rsi.notebooks clean                              notebooks/*.ipynb -> data/notebooks/, without what a save changes
    python -m rsi.notebooks run rpr --as rpr1-s0 -p stage rpr1 -p seed 0

A run leaves data/executed/<as>.ipynb and .html, free of times and paths, so that two equal runs leave equal bytes.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import ctypes
import importlib
import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from rsi.persist import write_text

SOURCE, CLEAN, EXECUTED = Path("notebooks"), Path("data/notebooks"), Path("data/executed")
KERNEL = "rsi-stage"
_METADATA = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}, "language_info": {"name": "python"}}
# jsonschema asks for this module only to check IRIs, which notebooks have none of; building its grammar takes seconds a process.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]


def here() -> Path:
    """Change to the project's root (the nearest directory upwards with params.yaml) and return it. Every notebook's first call."""
    for folder in (Path.cwd(), *Path.cwd().parents):
        if (folder / "params.yaml").is_file():
            os.chdir(folder)
            return folder
    raise FileNotFoundError(f"{Path.cwd()}: no params.yaml here or above; open the notebook inside the project")


@contextlib.contextmanager
def progress() -> Iterator[None]:
    """Progress bars and warnings go to the terminal that started the run, not into the notebook's outputs."""
    if "RSI_STAGE_STDERR" not in os.environ:
        yield
        return
    with _terminal(os.environ["RSI_STAGE_STDERR"]) as terminal, contextlib.redirect_stderr(terminal):
        yield


def _terminal(path: str) -> TextIO:
    """The runner's stderr by its path, or nowhere when it has none to open: a socket, or a terminal of another user."""
    try:
        return open(path, "a", buffering=1)
    except OSError:
        return open(os.devnull, "a")


def clean(source: Path = SOURCE, target: Path = CLEAN) -> list[Path]:
    """Copy the notebooks as the pipeline sees them: cells and tags, nothing that opening or running one changes."""
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for file in sorted(source.glob("*.ipynb")):
        notebook = json.loads(file.read_text())
        _write(target / file.name, {**notebook, "metadata": _METADATA, "cells": [_bare(c, k) for k, c in enumerate(notebook["cells"])]})
        written.append(target / file.name)
    return written


def _bare(cell: dict, number: int) -> dict:
    bare = {"cell_type": cell["cell_type"], "id": f"cell-{number:02d}", "metadata": _tags(cell), "source": _text(cell["source"])}
    return bare | ({"outputs": [], "execution_count": None} if cell["cell_type"] == "code" else {})


def _text(source: str | list[str]) -> str:
    return source if isinstance(source, str) else "".join(source)


def _tags(cell: dict) -> dict:
    tags = [t for t in cell["metadata"].get("tags", []) if not t.startswith("papermill")]
    return {"tags": tags} if tags else {}


def _write(path: Path, notebook: dict) -> None:
    write_text(path, json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n")


class StageFailed(RuntimeError):
    """A notebook that did not run to its end; the text names the file, the cell and why."""


def run(name: str, suffix: str, parameters: dict) -> Path:
    """Execute data/notebooks/`name`.ipynb and return the executed notebook. Raises StageFailed when any cell did not run to its end."""
    from papermill.execute import execute_notebook

    source, out = CLEAN / f"{name}.ipynb", EXECUTED / f"{suffix}.ipynb"
    if not source.is_file():
        raise StageFailed(f"{source}: not found; run `python -m rsi.notebooks clean` (there are: {', '.join(p.stem for p in sorted(SOURCE.glob('*.ipynb')))})")
    # what writes the HTML takes seconds to import: meanwhile the kernel runs
    threading.Thread(target=importlib.import_module, args=("nbconvert.exporters.html",), daemon=True).start()
    out.parent.mkdir(parents=True, exist_ok=True)
    error: BaseException | None = None
    with tempfile.TemporaryDirectory() as folder:
        _install_kernel(Path(folder))
        try:
            execute_notebook(
                str(source), str(out), parameters, kernel_name=KERNEL, progress_bar=False, start_timeout=120, autosave_cell_every=0, shutdown_kernel="immediate"
            )
        except Exception as e:  # whatever ended the run, what ran is kept and the cell is named
            error = e
    notebook = _settle(out, broke_off=error is not None)
    _export(out, notebook)
    stopped = unfinished(notebook)
    if stopped is not None:
        number, why = stopped
        raise StageFailed(f"{out}: cell {number} (of {source}): {why or _last_line(error)}")
    if error is not None:
        raise StageFailed(f"{out}: {_last_line(error)}")
    return out


def _last_line(error: BaseException | None) -> str:
    if error is None:
        return "did not run"
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[-1]}"


def unfinished(notebook: dict) -> tuple[int, str] | None:
    """The first code cell that failed or never ran, as (its number among all cells of the source, why), or None.

    An early `exit()` or `sys.exit(0)` counts: the cells after it did not run, so the stage is not done.
    """
    source_number = 0
    for cell in notebook["cells"]:
        injected = "injected-parameters" in cell["metadata"].get("tags", [])
        source_number += not injected
        if cell["cell_type"] != "code" or not _text(cell["source"]).strip():
            continue
        for output in cell["outputs"]:
            if output["output_type"] == "error":
                return source_number, f"{output['ename']}: {output['evalue']}"
        if cell["execution_count"] is None:
            return source_number, ""
    return None


def _settle(path: Path, broke_off: bool) -> dict:
    """Rewrite an executed notebook without times, paths and random ids; streams are joined, however they were cut.

    broke_off: the run ended early; the last cell that began is then one that did not run to its end, whatever its count says.
    """
    if not path.is_file():
        return {"cells": [], "metadata": _METADATA, "nbformat": 4, "nbformat_minor": 5}
    notebook = json.loads(path.read_text())
    cells, began = [], None
    for number, cell in enumerate(c for c in notebook["cells"] if "papermill-error-cell-tag" not in c["metadata"].get("tags", [])):
        bare = _bare(cell, number)
        if cell["cell_type"] == "code":
            bare |= {"outputs": _joined(cell["outputs"]), "execution_count": cell["execution_count"]}
            began = bare if cell["metadata"].get("papermill", {}).get("start_time") else began
        cells.append(bare)
    if broke_off and began is not None:
        began["execution_count"] = None
    settled = {"cells": cells, "metadata": _METADATA, "nbformat": 4, "nbformat_minor": 5}
    _write(path, settled)
    return settled


def _joined(outputs: list[dict]) -> list[dict]:
    joined: list[dict] = []
    for output in outputs:
        if output["output_type"] == "stream" and joined and joined[-1].get("name") == output["name"]:
            joined[-1] = {**joined[-1], "text": _text(joined[-1]["text"]) + _text(output["text"])}
        else:
            joined.append(output)
    return joined


def _export(path: Path, notebook: dict) -> None:
    """The HTML beside the executed notebook: one file, no scripts from elsewhere."""
    import nbformat
    from nbconvert.exporters.html import HTMLExporter

    exporter = HTMLExporter(template_name="basic")
    body, _ = exporter.from_notebook_node(nbformat.reads(json.dumps(notebook), as_version=4))
    style = (Path(__file__).parent / "report" / "notebook.css").read_text()
    page = f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{path.stem}</title><style>{style}</style></head><body>{body}</body></html>\n'
    write_text(path.with_suffix(".html"), page)


def _install_kernel(folder: Path) -> None:
    """A kernel that is this very python, found before any other of the machine; it hears of its parent's death."""
    spec = folder / "kernels" / KERNEL
    spec.mkdir(parents=True)
    argv = [sys.executable, "-m", "rsi.notebooks", "kernel", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": KERNEL, "language": "python"}))
    os.environ["JUPYTER_PATH"] = os.pathsep.join([str(folder), *filter(None, [os.environ.get("JUPYTER_PATH")])])
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}  # models are local directories; loading one is no progress
    os.environ["RSI_STAGE_STDERR"] = f"/proc/{os.getpid()}/fd/2"


def die_with_parent(parent: int | None = None) -> None:
    """SIGKILL to the parent ends this process too: nothing keeps computing behind a dead pipeline."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1 is PR_SET_PDEATHSIG
        if parent is not None and os.getppid() != parent:
            os._exit(1)


def serve_kernel(argv: list[str]) -> None:
    """Be an IPython kernel (what `ipykernel_launcher` does), ended by the parent's death.

    `exit()` raises as `sys.exit()` does: in a kernel of its own it would only ask the front end, and later cells would run.
    """
    die_with_parent(int(os.environ["RSI_STAGE_STDERR"].split("/")[2]))
    import warnings

    from ipykernel import kernelapp

    warnings.filterwarnings("ignore", message="IProgress not found")  # bars are text on the terminal
    sys.argv = ["ipykernel", *argv, "--log-level=ERROR"]
    kernelapp.launch_new_instance(exec_lines=["import sys as _sys; exit = quit = _sys.exit"])


def _value(text: str) -> object:
    """`0`, `True`, `None` and `[1, 2]` by value; anything else is the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["kernel"]:
        serve_kernel(argv[1:])
        return 0
    parser = argparse.ArgumentParser(prog="python -m rsi.notebooks", description="Clean notebooks, or run one as a stage.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("clean", help="copy notebooks/ to data/notebooks/ without outputs and volatile metadata")
    runner = commands.add_parser("run", help="execute data/notebooks/NAME.ipynb")
    runner.add_argument("name")
    runner.add_argument("--as", dest="suffix", help="name of the executed notebook (default: NAME)")
    runner.add_argument("-p", nargs=2, action="append", default=[], metavar=("KEY", "VALUE"), help="a parameter of the notebook")
    args = parser.parse_args(argv)
    if args.command == "clean":
        clean()
        return 0
    if "DVC_ROOT" in os.environ:  # started by the pipeline, not by a person
        die_with_parent()
    try:
        print(run(args.name, args.suffix or args.name, {key: _value(value) for key, value in args.p}))
    except StageFailed as e:
        print(f"FAILED {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
