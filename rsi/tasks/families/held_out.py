"""Families that the training pool never contains, for the transfer suite. Their words and tools occur elsewhere."""

from __future__ import annotations

import random

from rsi.tasks.step import Action, Check, Names, Step, put, same


def paste(rng: random.Random, names: Names) -> Step:
    f, g, h, n = names.file(), names.file(), names.file("csv"), rng.randint(2, 4)
    a, b = names.words(n), names.words(n)
    return Step(
        "paste",
        f"join the lines of {f} and {g} by a comma into the table {h}",
        f"{put(f, *a)}\n{put(g, *b)}",
        (Action(f"paste -d, {f} {g} > {h}", "side by side with a comma"),),
        (Action(f"paste {f} {g} > {h}", "put them side by side"),),
        "paste -d, with >",
        (Check("file", f"[[ -f {h} ]]", "intermediate"),
         Check("table", same(h, *(f"{x},{y}" for x, y in zip(a, b, strict=True)))),
         Check("kept", same(f, *a), holds_before=True)),
    )


def split(rng: random.Random, names: Names) -> Step:
    f, p, w = names.file(), names.word(), names.words(4)
    return Step(
        "split",
        f"split the file {f} into files of 2 lines whose names start with {p}",
        put(f, *w),
        (Action(f"split -l 2 {f} {p}", "give the start of the names"),),
        (Action(f"split -l 2 {f}", "split it"),),
        "split -l with a prefix",
        (Check("first", same(f"{p}aa", *w[:2])), Check("second", same(f"{p}ab", *w[2:])),
         Check("kept", same(f, *w), holds_before=True)),
    )


def swap(rng: random.Random, names: Names) -> Step:
    f, g, a, b = names.file(), names.file(), names.word(), names.word()
    return Step(
        "swap",
        f"swap the content of the two files {f} and {g}",
        f"{put(f, a)}\n{put(g, b)}",
        (Action(f"mv {f} swap && mv {g} {f} && mv swap {g}", "one of them waits aside"),),
        (Action(f"mv {f} {g} && mv {g} {f}", "swap them"),),
        "three times mv",
        (Check("first", same(f, b)), Check("second", same(g, a)), Check("clean", "[[ ! -e swap ]]", holds_before=True)),
    )


def empty(rng: random.Random, names: Names) -> Step:
    f, g, w = names.file("log"), names.file("log"), names.words(3)
    return Step(
        "empty",
        f"remove all lines of the file {f} but keep the file",
        f"{put(f, *w)}\n{put(g, *w)}",
        (Action(f"truncate -s 0 {f}", "only the content goes"),),
        (Action(f"rm {f}", "remove it"),),
        "truncate -s 0",
        (Check("short", f"[[ ! -s {f} ]]", "intermediate"), Check("empty", f"[[ -f {f} && ! -s {f} ]]"),
         Check("kept", same(g, *w), holds_before=True)),
    )


def upper(rng: random.Random, names: Names) -> Step:
    f, g, w = names.file(), names.file(), names.words(2)
    return Step(
        "upper",
        f"write the lines of {f} in upper case into the file {g}",
        put(f, *w),
        (Action(f"tr a-z A-Z < {f} > {g}", "every letter"),),
        (Action(f"tr a-z A-Z < {f}", "change the letters"),),
        "tr with < and >",
        (Check("file", f"[[ -f {g} ]]", "intermediate"), Check("upper", same(g, *(x.upper() for x in w))),
         Check("kept", same(f, *w), holds_before=True)),
    )


def backup(rng: random.Random, names: Names) -> Step:
    f, keys, new = names.file("cfg"), names.words(3), rng.randint(100, 999)
    old = [f"{k}={rng.randint(1, 99)}" for k in keys]
    after = [f"{keys[0]}={new}", *old[1:]]
    return Step(
        "backup",
        f"set the value of {keys[0]} to {new} in {f} and keep the old file as {f}.bak",
        put(f, *old),
        (Action(f"sed -i.bak 's/{keys[0]}=.*/{keys[0]}={new}/' {f}", "keep the old file"),),
        (Action(f"sed -i 's/{keys[0]}=.*/{keys[0]}={new}/' {f}", "edit it in place"),),
        "sed -i.bak",
        (Check("value", same(f, *after)), Check("backup", same(f"{f}.bak", *old))),
    )


def relink(rng: random.Random, names: Names) -> Step:
    f, g, n = names.file(), names.file(), names.file()
    w, x = names.words(2)
    return Step(
        "relink",
        f"change the symbolic link {n} so that it leads to the file {g}",
        f"{put(f, w)}\n{put(g, x)}\nln -s {f} {n}",
        (Action(f"ln -sf {g} {n}", "put it over the old one"),),
        (Action(f"ln -s {g} {n}", "make the link"),),
        "ln -sf",
        (Check("link", f"[[ -L {n} && {n} -ef {g} ]]"), Check("kept", same(f, w), holds_before=True)),
    )


FAMILIES = {f.__name__: f for f in (paste, split, swap, empty, upper, backup, relink)}


def distractor(rng: random.Random, names: Names) -> tuple[Step, str]:
    """A file that no clause asks for and that must stay as it is: (a step without a clause, the file)."""
    f, w = names.file(rng.choice(("txt", "log", "cfg"))), names.word()
    return Step("distractor", "", put(f, w), (), (), "", (Check("untouched", same(f, w), holds_before=True),)), f
