"""Families about the content of text files: logs, tables, configuration, sorting, searching."""

from __future__ import annotations

import random

from rsi.tasks.step import Action, Check, Names, Step, put, same

LEVELS = ("error", "warn", "info")


def lines(rng: random.Random, names: Names) -> Step:
    f, (a, b, c) = names.file(), names.words(3)
    return Step(
        "lines",
        f"write the three lines {a} , {b} and {c} into the file {f}",
        "",
        (Action(f"printf '%s\\n' {a} {b} {c} > {f}", "one word a line"),),
        (Action(f"echo {a} {b} {c} > {f}", "write the words"),),
        "printf with one line per word",
        (Check("file", f"[[ -f {f} ]]", "intermediate"), Check("words", f"words {f} {a} {b} {c}", "intermediate"),
         Check("lines", same(f, a, b, c))),
    )


def append(rng: random.Random, names: Names) -> Step:
    f, (a, b, w) = names.file("log"), names.words(3)
    return Step(
        "append",
        f"append the line {w} to the end of the file {f}",
        put(f, a, b),
        (Action(f"echo {w} >> {f}", "keep what is there"),),
        (Action(f"echo {w} > {f}", "write the line"),),
        "echo with >>",
        (Check("line", f"has {f} '{w}'", "intermediate"), Check("all", same(f, a, b, w)),
         Check("kept", f"has {f} '{a}' && has {f} '{b}'", holds_before=True)),
    )


def config(rng: random.Random, names: Names) -> Step:
    f, keys = names.file("cfg"), names.words(4)
    values = [rng.randint(1, 99) for _ in keys]
    i, new = rng.randrange(4), rng.randint(100, 999)
    before = [f"{k}={v}" for k, v in zip(keys, values, strict=True)]
    after = [f"{k}={new if j == i else v}" for j, (k, v) in enumerate(zip(keys, values, strict=True))]
    return Step(
        "config",
        f"set the value of {keys[i]} to {new} in the file {f}",
        put(f, *before),
        (Action(f"sed -i 's/{keys[i]}=.*/{keys[i]}={new}/' {f}", "edit it in place"),),
        (Action(f"sed 's/{keys[i]}=.*/{keys[i]}={new}/' {f}", "change the value"),),
        "sed -i",
        (Check("value", f"has {f} '{after[i]}'"), Check("all", same(f, *after)),
         Check("kept", f"has {f} '{after[i - 1]}'", holds_before=True)),
    )


def count(rng: random.Random, names: Names) -> Step:
    f, g, level = names.file("log"), names.file(), rng.choice(LEVELS)
    n = rng.randint(1, 5)
    other = [x for x in LEVELS if x != level]
    levels = [level] * n + [rng.choice(other) for _ in range(rng.randint(2, 4))]
    rng.shuffle(levels)
    return Step(
        "count",
        f"count the {level} lines in {f} and write the number into {g}",
        put(f, *(f"{x} {w}" for x, w in zip(levels, names.words(len(levels)), strict=True))),
        (Action(f"grep -c {level} {f} > {g}", "the number goes into the file"),),
        (Action(f"grep -c {level} {f}", "count them"),),
        "grep -c with >",
        (Check("file", f"[[ -f {g} ]]", "intermediate"), Check("count", same(g, str(n))),
         Check("kept", f"[[ -f {f} ]]", holds_before=True)),
    )


def csv(rng: random.Random, names: Names) -> Step:
    f, g, column = names.file("csv"), names.file(), rng.randint(1, 3)
    rows = [names.words(3) for _ in range(rng.randint(3, 4))]
    return Step(
        "csv",
        f"write column {column} of the table {f} into the file {g}",
        put(f, *(",".join(r) for r in rows)),
        (Action(f"cut -d, -f{column} {f} > {g}", "the columns end at a comma"),),
        (Action(f"cut -f{column} {f} > {g}", "cut the column"),),
        "cut with -d and -f",
        (Check("file", f"[[ -f {g} ]]", "intermediate"), Check("column", same(g, *(r[column - 1] for r in rows))),
         Check("kept", f"[[ -f {f} ]]", holds_before=True)),
    )


def json(rng: random.Random, names: Names) -> Step:
    f, g, keys = names.file("json"), names.file(), names.words(4)
    values = names.words(4)
    i = rng.randrange(3)
    body = [f'  "{k}": "{v}"{"," if j < 3 else ""}' for j, (k, v) in enumerate(zip(keys, values, strict=True))]
    return Step(
        "json",
        f"write the value of {keys[i]} in {f} into the file {g}",
        put(f, "{", *body, "}"),
        (Action(f"grep {keys[i]} {f}", "look up the value"), Action(f"echo {values[i]} > {g}", f"it is {values[i]}")),
        (Action(f"grep {keys[i]} {f} > {g}", "take the value"),),
        "grep, then echo the value",
        (Check("file", f"[[ -f {g} ]]", "intermediate"), Check("value", same(g, values[i])),
         Check("kept", f"[[ -f {f} ]]", holds_before=True)),
    )


def sort(rng: random.Random, names: Names) -> Step:
    f, g, words = names.file(), names.file(), names.words(rng.randint(3, 4))
    shown = words + rng.sample(words, 2)
    rng.shuffle(shown)
    return Step(
        "sort",
        f"sort the lines of {f} without duplicates into the file {g}",
        put(f, *shown),
        (Action(f"sort -u {f} > {g}", "each line only once"),),
        (Action(f"sort {f} > {g}", "sort the lines"),),
        "sort -u with >",
        (Check("file", f"[[ -f {g} ]]", "intermediate"), Check("words", f"has {g} '{min(words)}'", "intermediate"),
         Check("sorted", same(g, *sorted(words))), Check("kept", same(f, *shown), holds_before=True)),
    )


def replace(rng: random.Random, names: Names) -> Step:
    f, g, (d, a, b, c, e) = names.file(), names.file(), names.words(5)
    return Step(
        "replace",
        f"replace every case of {a} by {b} in all txt files in the directory {d}",
        f"mkdir {d}\n{put(f'{d}/{f}', f'{a} {c} {a}')}\n{put(f'{d}/{g}', f'{e} {a}', f'{a} {a}')}",
        (Action(f"sed -i 's/{a}/{b}/g' {d}/*.txt", "all of them in each line"),),
        (Action(f"sed -i 's/{a}/{b}/' {d}/*.txt", "replace the word"),),
        "sed -i with g",
        (Check("start", f"has {d}/{g} '{e} {b}'", "intermediate"), Check("first", same(f"{d}/{f}", f"{b} {c} {b}")),
         Check("second", same(f"{d}/{g}", f"{e} {b}", f"{b} {b}"))),
    )


def head(rng: random.Random, names: Names) -> Step:
    f, g, n = names.file(), names.file(), rng.randint(2, 4)
    words = names.words(rng.randint(6, 7))
    command, which, part = rng.choice((("head", "first", words[:n]), ("tail", "last", words[-n:])))
    return Step(
        "head",
        f"write the {which} {n} lines of {f} into the file {g}",
        put(f, *words),
        (Action(f"{command} -n {n} {f} > {g}", "give the number of lines"),),
        (Action(f"{command} {f} > {g}", f"take the {which} lines"),),
        "head -n or tail -n",
        (Check("file", f"[[ -f {g} ]]", "intermediate"), Check("lines", same(g, *part)),
         Check("kept", same(f, *words), holds_before=True)),
    )


def join(rng: random.Random, names: Names) -> Step:
    f, g, h = names.file(), names.file(), names.file()
    keys = sorted(rng.sample(range(10, 99), 3))
    a, b = names.words(3), names.words(3)
    left, right = ([f"{k} {w}" for k, w in zip(keys, ws, strict=True)] for ws in (a, b))
    joined = [f"{k} {x} {y}" for k, x, y in zip(keys, a, b, strict=True)]
    return Step(
        "join",
        f"join the lines of {f} and {g} by their number into {h}",
        f"{put(f, *left)}\n{put(g, *right)}",
        (Action(f"join {f} {g} > {h}", "equal numbers go together"),),
        (Action(f"cat {f} {g} > {h}", "put both together"),),
        "join with >",
        (Check("file", f"[[ -f {h} ]]", "intermediate"), Check("first", f"has {h} '{joined[0]}'"),
         Check("all", same(h, *joined)), Check("kept", same(f, *left), holds_before=True)),
    )


def search(rng: random.Random, names: Names) -> Step:
    d, e, w, *stems = names.words(6)
    i = rng.randrange(3)
    content = [(names.word(), w if j == i else names.word()) for j in range(3)]
    hit = stems[i]
    setup = "\n".join([f"mkdir {d} {e}"] + [put(f"{d}/{s}.txt", *c) for s, c in zip(stems, content, strict=True)])
    return Step(
        "search",
        f"move the file in {d} that contains the word {w} into {e}",
        setup,
        (Action(f"grep -l {w} {d}/*", "find the file first"), Action(f"mv {d}/{hit}.txt {e}", f"it is {hit}.txt")),
        (Action(f"mv {d}/{w}.txt {e}", "move the file"),),
        "grep -l, then mv",
        (Check("there", f"[[ -f {e}/{hit}.txt ]]"), Check("gone", f"[[ ! -e {d}/{hit}.txt ]]"),
         Check("kept", f"[[ -f {d}/{stems[i - 1]}.txt && ! -e {e}/{stems[i - 1]}.txt ]]", holds_before=True)),
    )


FAMILIES = {f.__name__: f for f in (lines, append, config, count, csv, json, sort, replace, head, join, search)}
