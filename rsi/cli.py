"""The `rsi` command: thin, and quick to start (what a command needs is imported when it runs)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help="Terminal-RSI on a laptop: look at what the pipeline makes.")
tasks = typer.Typer(no_args_is_help=True, help="Task directories: are they well formed, does each hold what it says?")
app.add_typer(tasks, name="tasks")

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def fail(text: object) -> None:
    """Say what is wrong and end with status 1."""
    typer.echo(f"error: {text}", err=True)
    raise typer.Exit(1)


def task_dirs(folder: Path) -> list[Path]:
    """`folder` itself when it is a task, else the tasks in it."""
    if not folder.is_dir():
        fail(f"{folder}: no such directory")
    found = [folder] if (folder / "task.toml").is_file() else sorted(p for p in folder.iterdir() if p.is_dir())
    if not found:
        fail(f"{folder}: no task directories in it")
    return found


@app.command()
def doctor() -> None:
    """Versions, the sandbox, and what is missing with how to get it. Status 1 when the pipeline cannot run here."""
    from rsi.doctor import examine

    facts, missing = examine()
    width = max(map(len, facts))
    for name, fact in facts.items():
        typer.echo(f"{name:<{width}}  {fact}")
    for what, remedy in missing:
        typer.echo(f"MISSING {what}: {remedy}")
    if missing:
        raise typer.Exit(1)
    typer.echo("Everything the pipeline needs is here.")


def _problems(path: Path) -> list[str]:
    """What is wrong with one task directory, and why the `tasks` stage would refuse it, a line each."""
    from rsi.sandbox import refusals
    from rsi.tasks.lint import lint
    from rsi.tasks.load import TaskError, load_task, read_config
    from rsi.tasks.suites import SUITES

    try:
        ours = read_config(path)[1].get("metadata", {}).get("suite") in SUITES
    except TaskError:
        ours = False
    found = lint(path, ours)
    if not ours and (path / "environment/setup.sh").is_file():  # the sandbox starts from it: an image is then not needed
        found = [p for p in found if p.file != "environment/Dockerfile"]
    lines = [f"{path / p.file}{': ' + p.key if p.key else ''}: {p.problem}; {p.remedy}" for p in found]
    try:
        return lines + [f"{path}: {reason}" for reason in refusals([load_task(path)])]
    except TaskError as e:
        return lines or [str(e)]


@tasks.command("lint")
def tasks_lint(folder: Path) -> None:
    """Problems of one task directory or of every one in FOLDER, each with its remedy; among them what the pipeline would refuse."""
    found = 0
    for path in (dirs := task_dirs(folder)):
        for line in _problems(path):
            found += 1
            typer.echo(line)
    typer.echo(f"{len(dirs)} tasks, {found} problems")
    if found:
        raise typer.Exit(1)


@tasks.command("oracle")
def tasks_oracle(folder: Path, as_json: Json = False) -> None:
    """Run each task's reference solution and a no-op in sandboxes: the first must be strict, the second must not."""
    from dataclasses import asdict

    from rsi.sandbox import make_pool
    from rsi.sandbox.oracle import oracle
    from rsi.sandbox.protocol import SandboxError
    from rsi.tasks.load import TaskError, load_task

    try:
        rows = oracle([load_task(p) for p in task_dirs(folder)], make_pool())
    except (TaskError, SandboxError, OSError) as e:
        fail(e)
    if as_json:
        typer.echo(json.dumps([{**asdict(r), "ok": r.ok} for r in rows], indent=1))
    for r in rows if not as_json else ():
        if not r.ok:
            flags = "" if r.flagged else f", checks that hold before any work are not the flagged ones: {', '.join(r.holds_before) or 'none'}"
            typer.echo(
                f"{r.task}: reference {'strict' if r.reference else 'NOT strict'}, no-op {'STRICT' if r.noop else 'not strict'}{flags} {r.cause}".rstrip()
            )
    bad = sum(not r.ok for r in rows)
    if not as_json:
        typer.echo(f"{len(rows)} tasks, {bad} that do not hold what they say")
    if bad:
        raise typer.Exit(1)


@app.command()
def show(episode: str, html: Annotated[Path | None, typer.Option(help="Write an HTML page instead of printing.")] = None) -> None:
    """One stored episode, turn by turn: STAGE-sSEED/TASK/HARNESS/ATTEMPT, or FILE#ROW as in data/episodes/eval/base.parquet#0."""
    from rsi.persist import write_text
    from rsi.report.viewer import NoSuchEpisode, as_text, find_episode, page

    try:
        found, where = find_episode(episode)
    except (NoSuchEpisode, FileNotFoundError) as e:
        fail(e)
    if html is None:
        typer.echo(f"{where}\n{as_text(found)}")
    else:
        write_text(html, page(found))
        typer.echo(f"wrote {html}: {where}")


@app.command()
def profile(name: str, force: Annotated[bool, typer.Option(help="Replace params.yaml even where you edited it.")] = False) -> None:
    """Put a shipped profile (smoke, laptop) in the place of params.yaml and say what changed."""
    from rsi.profiles import ProfileError, switch

    try:
        changes = switch(name, Path("params.yaml"), force)
    except ProfileError as e:
        fail(e)
    for key, (before, after) in changes.items():
        typer.echo(f"{key}: {before} -> {after}")
    typer.echo(f"params.yaml is now the {name} profile ({len(changes)} values changed); `dvc repro` runs it")


@app.command()
def audit(
    files: Annotated[list[Path] | None, typer.Argument(help="Episode files (default: the PPO episodes of the last run).")] = None,
    beta: Annotated[float | None, typer.Option(help="SPR's partial credit (default: reward.beta of params.yaml).")] = None,
    stages: Annotated[Path | None, typer.Option(help="Where FDR's family scales are (default: results/stages beside each file's episodes/).")] = None,
    as_json: Json = False,
) -> None:
    """How much of the reward failed runs hold, under the raw ratio, FDR and SPR; near misses; invalid episodes by cause.

    FDR's family scales are those that the PPO stages of the files' run recorded in its data/results/stages.
    """
    from rsi.params import ParamsError, load_params
    from rsi.report.audit import REWARDS, NoScales
    from rsi.report.audit import audit as run_audit

    files = files or sorted(Path("data/episodes/ppo").glob("*.parquet"))
    if not files:
        fail("no episode files: name some, or run `dvc repro` first")
    try:
        found = run_audit(files, load_params().reward.beta if beta is None else beta, stages)
    except (ParamsError, NoScales, FileNotFoundError, ValueError) as e:
        fail(e)
    if as_json:
        typer.echo(json.dumps(found, indent=1, sort_keys=True))
        return
    shares = "".join(f"{k:>8}" for k in REWARDS)
    typer.echo(f"{'family':<16}{'episodes':>9}{'strict':>8}{'near':>6}   failed runs' share of reward\n{'':<42}{shares}")
    for name, s in {"all": found["all"], **found["families"]}.items():
        mass = "".join(f"{100 * v:7.1f}%" if v is not None else f"{'–':>8}" for v in s["failed_mass"].values())
        typer.echo(f"{name:<16}{s['episodes']:>9}{s['strict']:>8}{s['near_misses']:>6}   {mass}")
    typer.echo("invalid: " + (", ".join(f"{n} × {cause}" for cause, n in found["invalid"].items()) or "none"))
    typer.echo("FDR's family scales: " + ", ".join(found["scales"]))


if __name__ == "__main__":
    app()
