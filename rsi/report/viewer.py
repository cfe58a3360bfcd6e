"""One episode, turn by turn: for the terminal and as HTML."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from rsi.harness.episode import Episode
from rsi.harness.store import read_episodes, read_table


class NoSuchEpisode(LookupError):
    """No stored episode goes by that name; says how to name one."""


def find_episode(name: str, folder: Path = Path("data/episodes")) -> tuple[Episode, str]:
    """An episode by `FILE#ROW` or by its id (`rpr1-cold-s0/TASK/terminus/0`), looked for in every collection of `folder`; and where it
    was, as `FILE#ROW`. Collections of episodes as they ran go first: those kept for training hold rewritten copies under the same ids."""
    file, _, row = name.rpartition("#")
    if file:
        episodes = read_episodes(Path(file))
        if not row.isdigit() or int(row) >= len(episodes):
            raise NoSuchEpisode(f"{file} has the rows 0 to {len(episodes) - 1}, not {row!r}")
        return episodes[int(row)], name
    for path in sorted(folder.rglob("*.parquet"), key=lambda p: (p.stem.endswith("-kept"), p)):
        ids = read_table(path, ["stage", "seed", "task", "harness", "attempt"])
        for k, r in enumerate(ids.itertuples()):
            if f"{r.stage}-s{r.seed}/{r.task}/{r.harness}/{r.attempt}" == name:
                return read_episodes(path)[k], f"{path}#{k}"
    raise NoSuchEpisode(
        f"no episode {name!r} below {folder}; name one as STAGE-sSEED/TASK/HARNESS/ATTEMPT or as FILE#ROW, for example {folder}/eval/base.parquet#0"
    )


def outcome(episode: Episode) -> str:
    """One line: strict, failed or invalid, how it ended, and the progress."""
    if not episode.verdict.valid:
        return f"INVALID ({episode.verdict.cause})"
    end = "cut at the turn or context limit" if episode.truncated else "finished by the agent"
    return f"{'STRICT SUCCESS' if episode.verdict.strict else 'failed'}, progress {episode.progress:.2f}, {end}"


def as_text(episode: Episode, reward: Callable[[Episode], float] | None = None) -> str:
    """The whole trajectory as plain text."""
    lines = [f"{episode.id}   suite {episode.suite or '–'}, family {episode.family}", "", episode.instruction.rstrip(), ""]
    if episode.runbook:
        lines += ["private runbook (never in the training text):", *("  | " + x for x in episode.runbook.splitlines()), ""]
    for k, t in enumerate(episode.turns, 1):
        status = "timed out" if t.timed_out else f"exit {t.exit_code}" if t.exit_code is not None else ""
        lines += [f"── turn {k} ({t.end - t.start} tokens) {status}".rstrip(), t.text.rstrip()]
        lines += ["  > " + x for x in t.observation.rstrip().splitlines()] + [""]
    lines.append(outcome(episode) + (f", reward {reward(episode):.3f}" if reward and episode.verdict.valid else ""))
    return "\n".join([*lines, *(f"  {mark} {name} ({kind})" for mark, name, kind in checks(episode))])


def checks(episode: Episode) -> list[tuple[str, str, str]]:
    """(mark, name, kind) of each check; a check that held before any work says so."""
    spec = {s.name: s for s in episode.specs}
    out = []
    for name, ok in episode.verdict.checks.items():
        s = spec.get(name)
        out.append(("✓" if ok else "✗", name, "held before any work" if s and s.holds_before else s.kind if s else "final"))
    return out


_STYLE = """.ep{font:13px/1.45 ui-monospace,monospace;color:#1a1a1a}.ep pre{margin:.2rem 0;white-space:pre-wrap}.ep .t{border-left:3px solid #0072B2;
padding:.1rem .7rem;margin:.6rem 0}.ep .o{background:#f4f5f6;border-left:3px solid #999;padding:.2rem .7rem;margin:.2rem 0 .6rem}.ep .ok{color:#00664b}
.ep .no{color:#a33d00}.ep h3{font:600 14px system-ui;margin:.4rem 0}.ep .s{color:#666}"""


def as_html(episode: Episode, values: Sequence[tuple[float, float]] | None = None) -> str:
    """An HTML fragment that carries its own style. values: (value, advantage) means of each turn, shown in its head line."""
    parts = [
        f"<style>{_STYLE}</style><div class='ep'><h3>{escape(episode.id)}</h3><div class='s'>suite {escape(episode.suite or '–')}, "
        f"family {escape(episode.family)}</div><pre>{escape(episode.instruction.rstrip())}</pre>"
    ]
    for k, t in enumerate(episode.turns):
        status = "timed out" if t.timed_out else f"exit {t.exit_code}" if t.exit_code is not None else ""
        worth = f" · V {values[k][0]:+.3f} · A {values[k][1]:+.3f}" if values else ""
        parts.append(f"<div class='t'><div class='s'>turn {k + 1} · {t.end - t.start} tokens {status}{worth}</div><pre>{escape(t.text.rstrip())}</pre></div>")
        if t.observation:
            parts.append(f"<pre class='o'>{escape(t.observation.rstrip())}</pre>")
    rows = "".join(
        f"<div class='{'ok' if mark == '✓' else 'no'}'>{mark} {escape(name)} <span class='s'>({kind})</span></div>" for mark, name, kind in checks(episode)
    )
    return "".join([*parts, f"<h3 class='{'ok' if episode.verdict.strict else 'no'}'>{escape(outcome(episode))}</h3>{rows}</div>"])


def page(episode: Episode) -> str:
    """A whole HTML page for one episode."""
    return f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{escape(episode.id)}</title></head><body>{as_html(episode)}</body></html>\n"
