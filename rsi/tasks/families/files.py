"""Families about files, directories, links, permissions and archives."""

from __future__ import annotations

import random

from rsi.tasks.step import Action, Check, Names, Step, put, same


def mkdir(rng: random.Random, names: Names) -> Step:
    d, e, f = names.word(), names.word(), names.file()
    return Step(
        "mkdir",
        f"create the directory {d}/{e} and the empty file {f} in it",
        "",
        (Action(f"mkdir -p {d}/{e} && touch {d}/{e}/{f}", "parents first"),),
        (Action(f"mkdir {d}/{e} && touch {d}/{e}/{f}", "make the directory"),),
        "mkdir -p, then touch",
        (Check("parent", f"[[ -d {d} ]]", "intermediate"), Check("dir", f"[[ -d {d}/{e} ]]"),
         Check("file", f"[[ -f {d}/{e}/{f} ]]")),
    )


def copy(rng: random.Random, names: Names) -> Step:
    d, e, a, b = names.words(4)
    w, x = names.words(2)
    return Step(
        "copy",
        f"copy the directory {d} with all its files to {e}",
        f"mkdir {d}\n{put(f'{d}/{a}.txt', w)}\n{put(f'{d}/{b}.log', x)}",
        (Action(f"cp -r {d} {e}", "copy the whole tree"),),
        (Action(f"cp {d} {e}", "copy it"),),
        "cp -r",
        (Check("dir", f"[[ -d {e} ]]", "intermediate"), Check("first", same(f"{e}/{a}.txt", w)),
         Check("second", same(f"{e}/{b}.log", x)), Check("kept", f"[[ -f {d}/{a}.txt ]]", holds_before=True)),
    )


def move(rng: random.Random, names: Names) -> Step:
    d, e, a, b, c = names.words(5)
    ext, other = rng.sample(("log", "txt", "csv"), 2)
    return Step(
        "move",
        f"move the {ext} files of {d} into the new directory {e}",
        f"mkdir {d}\n{put(f'{d}/{a}.{ext}', a)}\n{put(f'{d}/{b}.{ext}', b)}\n{put(f'{d}/{c}.{other}', c)}",
        (Action(f"mkdir -p {e} && mv -t {e} {d}/*.{ext}", "the new directory first"),),
        (Action(f"mkdir -p {e} && cp -t {e} {d}/*.{ext}", "put the files there"),),
        "mkdir -p, then mv -t",
        (Check("dir", f"[[ -d {e} ]]", "intermediate"), Check("first", f"[[ -f {e}/{a}.{ext} ]]", "intermediate"),
         Check("moved-first", f"[[ -f {e}/{a}.{ext} && ! -e {d}/{a}.{ext} ]]"),
         Check("moved-second", f"[[ -f {e}/{b}.{ext} && ! -e {d}/{b}.{ext} ]]"),
         Check("kept", f"[[ -f {d}/{c}.{other} ]]", holds_before=True)),
    )


def rename(rng: random.Random, names: Names) -> Step:
    d, *stems = names.words(4 if rng.random() < 0.5 else 3)
    old, new = rng.choice((("txt", "md"), ("log", "txt"), ("dat", "csv")))
    setup = "\n".join([f"mkdir {d}"] + [put(f"{d}/{s}.{old}", s) for s in stems])
    checks = tuple(
        Check(f"file-{i}", f"[[ -f {d}/{s}.{new} && ! -e {d}/{s}.{old} ]]") for i, s in enumerate(stems, 1))
    return Step(
        "rename",
        f"rename every .{old} file in {d} so that it ends in .{new}",
        setup,
        (Action(f"for f in {d}/*.{old}; do mv $f ${{f%.{old}}}.{new}; done", "one file at a time"),),
        (Action(f"mv {d}/*.{old} {d}/*.{new}", "rename them"),),
        "for loop with mv and %",
        checks,
    )


def remove(rng: random.Random, names: Names) -> Step:
    d, e, a, b = names.words(4)
    return Step(
        "remove",
        f"remove the directory {d} with all its files but keep {e}",
        f"mkdir {d} {e}\n{put(f'{d}/{a}.dat', a)}\n{put(f'{e}/{b}.dat', b)}",
        (Action(f"rm -r {d}", "remove the whole tree"),),
        (Action(f"rmdir {d}", "remove the directory"),),
        "rm -r",
        (Check("gone", f"[[ ! -e {d} ]]"), Check("kept", f"[[ -f {e}/{b}.dat ]]", holds_before=True)),
    )


def chmod(rng: random.Random, names: Names) -> Step:
    a, b, c, d = (names.file("sh") for _ in range(4))
    setup = "\n".join(put(f, "echo " + f[:-3]) for f in (a, b, c, d))
    return Step(
        "chmod",
        f"make the scripts {a} {b} {c} executable",
        setup,
        (Action(f"chmod +x {a} {b} {c}", "all of them"),),
        (Action(f"chmod +x {a} {b}", "make them executable"),),
        "chmod +x",
        (Check("first", f"[[ -x {a} ]]", "intermediate"), Check("second", f"[[ -x {b} ]]", "intermediate"),
         Check("all", f"[[ -x {a} && -x {b} && -x {c} ]]"), Check("kept", f"[[ ! -x {d} ]]", holds_before=True)),
    )


def link(rng: random.Random, names: Names) -> Step:
    a, b, w = names.file(), names.file(), names.word()
    return Step(
        "link",
        f"make {b} a symbolic link to the file {a}",
        put(a, w),
        (Action(f"ln -s {a} {b}", "a symbolic one"),),
        (Action(f"ln {a} {b}", "make the link"),),
        "ln -s",
        (Check("reads", same(b, w), "intermediate"), Check("link", f"[[ -L {b} && {b} -ef {a} ]]"),
         Check("kept", same(a, w), holds_before=True)),
    )


def tar(rng: random.Random, names: Names) -> Step:
    t, d, a, b, w, x = names.words(6)
    return Step(
        "tar",
        f"unpack the archive {t}.tar into the new directory {d}",
        f"{put(f'{a}.txt', w)}\n{put(f'{b}.txt', x)}\ntar -cf {t}.tar {a}.txt {b}.txt\nrm {a}.txt {b}.txt",
        (Action(f"mkdir -p {d} && tar -xf {t}.tar -C {d}", "unpack inside it"),),
        (Action(f"mkdir -p {d} && tar -xf {t}.tar", "unpack it"),),
        "mkdir -p, then tar -x with -C",
        (Check("dir", f"[[ -d {d} ]]", "intermediate"), Check("first", same(f"{d}/{a}.txt", w)),
         Check("second", same(f"{d}/{b}.txt", x)), Check("kept", f"[[ -f {t}.tar ]]", holds_before=True)),
    )


FAMILIES = {f.__name__: f for f in (mkdir, copy, move, rename, remove, chmod, link, tar)}
