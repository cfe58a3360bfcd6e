"""Software reconstruction: write a small program from examples of its input and output. Hidden examples decide."""

from __future__ import annotations

import random
from collections.abc import Callable

from rsi.tasks.step import Action, Check, Names, Step, put

Lines = list[str]

STREAM: dict[str, tuple[str, Callable[[Lines, str], Lines]]] = {
    "sort": ("sort", lambda x, w: sorted(x)),
    "down": ("sort -r", lambda x, w: sorted(x, reverse=True)),
    "once": ("sort -u", lambda x, w: sorted(set(x))),
    "rest": ("tail -n +2", lambda x, w: x[1:]),
    "first": ("head -n 2", lambda x, w: x[:2]),
    "last": ("tail -n 1", lambda x, w: x[-1:]),
    "drop": ("grep -v {w}", lambda x, w: [y for y in x if w not in y]),
}
LINE: dict[str, tuple[str, Callable[[Lines, str], Lines]]] = {
    "upper": ("tr a-z A-Z", lambda x, w: [y.upper() for y in x]),
    "letters": ("rev", lambda x, w: [y[::-1] for y in x]),
    "column": ("cut -d ' ' -f 2", lambda x, w: [y.split(" ")[1] for y in x]),
    "dash": ("tr ' ' -", lambda x, w: [y.replace(" ", "-") for y in x]),
    "count": ("wc -l", lambda x, w: [str(len(x))]),
}
"""name: (command with {w} for the dropped word, the same in Python)."""

PROGRAMS: tuple[tuple[str, ...], ...] = tuple((p,) for p in STREAM | LINE)
# A count of sorted, turned or cut lines shows nothing of the first half, so only two compositions count.
_PAIRS = [(s, l) for s in STREAM for l in LINE if l != "count" or s in ("once", "drop")]
HELD_OUT_PROGRAMS: tuple[tuple[str, ...], ...] = tuple(_PAIRS[::2])
"""Compositions that only the evaluation suite has."""
TRAIN_PROGRAMS: tuple[tuple[str, ...], ...] = tuple(_PAIRS[1::2])

# `runs PROGRAM INPUT...` sets OUT to the outputs of an agent's program, `maps I LINE...` compares one of them.
# RLIMIT_FSIZE 0 keeps the program from writing files. The substitution inside, which the time limit ends, waits for
# whatever the program leaves running; the one outside does not.
FUNCTIONS = r"""
runs() {
  OUT=(); [[ -f $1 ]] || return 1
  mapfile -d $'\x1e' -t OUT < <(ulimit -f 0; timeout -s KILL 3 bash -c '
    p=$0; for x; do o=$(printf "%s\n" "$x" | bash "$p" 2> /dev/null); printf "%s\x1e" "$o"; done' "$@" 2> /dev/null)
}
maps() { local IFS=$'\n' i=$1; shift; [[ ${OUT[i]} == "$*" ]]; }
"""


def _run(program: tuple[str, ...], lines: Lines, word: str) -> Lines:
    for part in program:
        lines = (STREAM | LINE)[part][1](lines, word)
    return lines


def _sample(rng: random.Random, names: Names, word: str) -> Lines:
    """Four lines of two words: one line twice, and two lines whose common word is the one that `drop` looks for."""
    a, b, c, d = names.words(4)
    lines = [f"{a} {b}", f"{a} {b}", f"{word} {c}", f"{d} {word}"]
    rng.shuffle(lines)
    return lines


def _telling(rng: random.Random, lines: Lines, program: tuple[str, ...], word: str) -> Lines:
    """The lines in an order in which no other program gives the same output, as far as there is one."""
    others = [p for p in PROGRAMS + HELD_OUT_PROGRAMS + TRAIN_PROGRAMS if p != program]
    for _ in range(50):
        output = _run(program, lines, word)
        if all(_run(p, lines, word) != output for p in others):
            break
        rng.shuffle(lines)
    return lines


def reconstruct(rng: random.Random, names: Names, program: tuple[str, ...]) -> Step:
    """The step for one program: names of `STREAM` or `LINE`, piped in this order."""
    s, d, w = names.file("sh"), names.word(), names.word()
    command = " | ".join((STREAM | LINE)[p][0] for p in program).format(w=w)
    samples = [_sample(rng, names, w) for _ in range(4)]
    samples[0] = _telling(rng, samples[0], program, w)
    outputs = [_run(program, lines, w) for lines in samples]
    setup = "\n".join([f"mkdir {d}"] + [f"{put(f'{d}/{i}.in', *samples[i - 1])}\n{put(f'{d}/{i}.out', *outputs[i - 1])}"
                                        for i in (1, 2)])
    inputs = " ".join("$'" + "\\n".join(x) + "'" for x in samples[1:])
    maps = [f"maps {i} " + " ".join(f"'{line}'" for line in x) for i, x in enumerate(outputs[1:])]
    return Step(
        "reconstruct",
        f"write the script {s} that turns each .in file of {d} into its .out file",
        setup,
        (Action(f"cat {d}/1.in {d}/1.out", "look at an example"), Action(f'echo "{command}" > {s}', "this maps it")),
        (Action(f"echo cat > {s}", "write the script"),),
        "cat an example, then echo the command into the script",
        (Check("script", f"[[ -f {s} ]]", "intermediate"),
         Check("example", f"runs {s} {inputs}; {maps[0]}", "intermediate"),
         Check("hidden-1", maps[1]), Check("hidden-2", maps[2])),
        functions=FUNCTIONS,
    )
