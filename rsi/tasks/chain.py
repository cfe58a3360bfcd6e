"""Chains: dependent steps on one small set of files, which is simulated here, so that the checks know it.

Every step uses what the setup or an earlier step made. The state at the end decides: the step that touched a file last
has the final check on its content, earlier ones have intermediate checks on what is left of their work.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from rsi.tasks.step import Action, Check, Names, Step, has, put, same

MAX_FILES = 6


@dataclass(eq=False)
class _File:
    path: str
    lines: list[str]
    last: int = 0
    """The step that touched the content or the place last; 0 is the setup."""
    fixed: bool = False
    """A link leads here: it must not move."""
    by_name: bool = False
    """The order of its lines depends on the names in it."""
    cut_by_name: bool = False
    """Even which lines it has depends on names. No clause picks a word from it, so that renaming changes no choice."""


@dataclass
class _Made:
    """What one step does: clause, reference, flaw, hint, the file it is about and further final conditions.

    `line`: what it wrote. `source`: a file that must stay.
    """

    op: str
    clause: str
    solve: str
    flaw: str
    hint: str
    note: str
    file: _File | None = None
    line: str = ""
    source: _File | None = None
    final: list[tuple[str, str]] = field(default_factory=list)


def _movable(f: _File) -> bool:
    return "/" not in f.path and not f.fixed


class _World:
    def __init__(self, rng: random.Random, names: Names) -> None:
        self.rng, self.names, self.k = rng, names, 0
        self.files: list[_File] = []
        self.dirs: list[str] = []
        self.used: set[str] = set()

    def pick(self, ok: Callable[[_File], bool] = lambda f: True) -> _File | None:
        """A file that fits and that a step has touched, mostly the latest one, so that steps build on each other."""
        fits = sorted((f for f in self.files if ok(f)), key=lambda f: f.last)
        fits = [f for f in fits if f.last > 0] or fits
        if not fits:
            return None
        return fits[-1] if self.rng.random() < 0.6 else self.rng.choice(fits)

    def new(self, lines: list[str], *sources: _File) -> _File | None:
        if len(self.files) >= MAX_FILES:
            return None
        f = _File(self.names.file(), list(lines), self.k, by_name=any(s.by_name for s in sources),
                  cut_by_name=any(s.cut_by_name for s in sources))
        self.files.append(f)
        return f


def _create(w: _World) -> _Made | None:
    word = w.names.word()
    if (f := w.new([word])) is None:
        return None
    return _Made("create", f"write the line {word} into the new file {f.path}", f"echo {word} > {f.path}",
                 f"touch {f.path}", "echo with >", "a new file", f, word)


def _append(w: _World) -> _Made | None:
    if (f := w.pick(lambda f: len(f.lines) < 6)) is None:
        return None
    word = w.names.word()
    f.lines.append(word)
    f.last = w.k
    return _Made("append", f"append the line {word} to the end of the file {f.path}", f"echo {word} >> {f.path}",
                 f"echo {word} > {f.path}", "echo with >>", "keep what is there", f, word)


def _copy(w: _World) -> _Made | None:
    if (f := w.pick()) is None or (g := w.new(f.lines, f)) is None:
        return None
    return _Made("copy", f"copy the file {f.path} to the new file {g.path}", f"cp {f.path} {g.path}",
                 f"mv {f.path} {g.path}", "cp", "the old one stays", g, source=f)


def _sort(w: _World) -> _Made | None:
    f = w.pick(lambda f: len(f.lines) > 1)
    if f is None or (g := w.new(sorted(f.lines), f)) is None:
        return None
    g.by_name = True
    return _Made("sort", f"sort the lines of {f.path} into the file {g.path}", f"sort {f.path} > {g.path}",
                 f"sort {f.path}", "sort with >", "the lines go into the file", g)


def _count(w: _World) -> _Made | None:
    if (f := w.pick()) is None or (g := w.new([str(len(f.lines))])) is None:
        return None
    return _Made("count", f"count the lines of {f.path} and write the number into {g.path}",
                 f"wc -l < {f.path} > {g.path}", f"wc -l {f.path} > {g.path}", "wc -l with <", "only the number", g)


def _head(w: _World) -> _Made | None:
    f = w.pick(lambda f: len(f.lines) > 2)
    if f is None:
        return None
    n = w.rng.randint(2, len(f.lines) - 1)
    if (g := w.new(f.lines[:n], f)) is None:
        return None
    g.cut_by_name |= f.by_name
    return _Made("head", f"write the first {n} lines of {f.path} into the file {g.path}",
                 f"head -n {n} {f.path} > {g.path}", f"head {f.path} > {g.path}", "head -n",
                 "give the number of lines", g)


def _both(w: _World) -> _Made | None:
    f, g = w.pick(), w.pick()
    if f is None or f is g or len(f.lines) + len(g.lines) > 7 or (h := w.new(f.lines + g.lines, f, g)) is None:
        return None
    return _Made("both", f"put the lines of {f.path} and then of {g.path} into the file {h.path}",
                 f"cat {f.path} {g.path} > {h.path}", f"cat {f.path} > {h.path}", "cat with >", "both in this order", h)


def _replace(w: _World) -> _Made | None:
    f = w.pick(lambda f: not f.cut_by_name and any(x.isalpha() for x in f.lines))
    if f is None:
        return None
    old, new = w.rng.choice(w.names.oldest_first(x for x in f.lines if x.isalpha())), w.names.word()
    f.lines = [new if x == old else x for x in f.lines]
    f.last = w.k
    return _Made("replace", f"replace {old} by {new} in the file {f.path}", f"sed -i 's/{old}/{new}/' {f.path}",
                 f"sed 's/{old}/{new}/' {f.path}", "sed -i", "edit it in place", f, new)


def _mkdir(w: _World) -> _Made | None:
    if len(w.dirs) >= 2 or not any(map(_movable, w.files)):
        return None
    d = w.names.word()
    w.dirs.append(d)
    return _Made("mkdir", f"create the new directory {d} for later use", f"mkdir -p {d}", f"touch {d}", "mkdir -p",
                 "make the directory", final=[("dir", f"[[ -d {d} ]]")])


def _move(w: _World) -> _Made | None:
    open_dirs = [d for d in w.dirs if d not in w.used]
    f = w.pick(_movable)
    if f is None or not open_dirs:
        return None
    old, d = f.path, open_dirs[-1]
    f.path, f.last = f"{d}/{old}", w.k
    return _Made("move", f"move the file {old} into the directory {d}", f"mv {old} {d}", f"cp {old} {d}", "mv",
                 "it must not stay", f, final=[("moved", f"[[ -f {f.path} && ! -e {old} ]]")])


def _link(w: _World) -> _Made | None:
    f = w.pick(_movable)
    if f is None:
        return None
    f.fixed = True
    n = w.names.file()
    return _Made("link", f"make {n} a symbolic link to the file {f.path}", f"ln -s {f.path} {n}", f"ln {f.path} {n}",
                 "ln -s", "a symbolic one", final=[("link", f"[[ -L {n} && {n} -ef {f.path} ]]")])


def _pack(w: _World) -> _Made | None:
    full = [d for d in w.dirs if d not in w.used and any(f.path.startswith(d + "/") for f in w.files)]
    if not full:
        return None
    d, t = full[-1], w.names.file("tar")
    w.used.add(d)
    inside = [f for f in w.files if f.path.startswith(d + "/")]
    f = w.rng.choice(inside)
    return _Made("pack", f"pack the directory {d} into the archive {t}", f"tar -cf {t} {d}", f"tar -cf {d} {t}",
                 "tar -cf with the archive first", "the archive comes first",
                 final=[("archive", f"packed {t} {f.path} " + " ".join(f"'{x}'" for x in f.lines))])


OPS: dict[str, tuple[float, Callable[[_World], _Made | None]]] = {
    "create": (1, _create), "append": (3, _append), "copy": (2, _copy), "sort": (1.5, _sort), "count": (1.5, _count),
    "head": (1.5, _head), "both": (1.5, _both), "replace": (2.5, _replace), "mkdir": (2, _mkdir), "move": (3, _move),
    "link": (1, _link), "pack": (1.5, _pack),
}
"""name: (weight, the step, or None where it does not fit the present files)."""

FUNCTIONS = r"""
packed() {
  local f=$1 m=$2 IFS=$'\n'; shift 2
  [[ -f $f ]] && mapfile -t -n 1000 L < <(tar -xOf "$f" "$m" 2> /dev/null) && [[ ${L[*]} == "$*" ]]
}
"""


def chain(rng: random.Random, names: Names, n: int) -> list[Step]:
    """`n` dependent steps; the first one carries the setup of the initial file."""
    w = _World(rng, names)
    first = _File(names.file(), names.words(rng.randint(2, 3)))
    w.files.append(first)
    path, lines = first.path, list(first.lines)
    setup = put(path, *lines)
    made: list[_Made] = []
    while len(made) < n:
        w.k = len(made) + 1
        last = made[-1].op if made else ""
        # A new directory is used at once.
        ops = ["move"] if last == "mkdir" and len(made) < n else [o for o in OPS if o != last]
        op = rng.choices(ops, [OPS[o][0] for o in ops])[0]
        if (m := OPS[op][1](w)) is not None:
            made.append(m)
    return [
        Step("chain", m.clause, setup if k == 1 else "", (Action(m.solve, m.note),), (Action(m.flaw, m.note),), m.hint,
             _checks(k, m, {path: lines}), functions=FUNCTIONS if m.op == "pack" else "")
        for k, m in enumerate(made, 1)
    ]


def _checks(k: int, m: _Made, before: dict[str, list[str]]) -> tuple[Check, ...]:
    """The step's checks against the state at the end. `before`: the files of the setup."""
    checks = [Check(name, test) for name, test in m.final]
    f, source = m.file, m.source
    if source is not None:
        checks.append(Check("kept", f"[[ -f {source.path} ]]", holds_before=source.path in before))
    if f is not None and f.last == k:
        checks += [Check("file", f"[[ -f {f.path} ]]", "intermediate", f.path in before),
                   Check("content", same(f.path, *f.lines), holds_before=before.get(f.path) == f.lines)]
    elif f is not None:
        line = m.line if m.line in f.lines else f.lines[0]
        checks.append(Check("line", has(f.path, line), "intermediate", line in before.get(f.path, [])))
    return tuple(checks)
