"""Software reconstruction: write a small program from examples of its input and output; hidden examples decide."""

from __future__ import annotations

import random

from rsi.tasks.step import Action, Check, Names, Step, put

STREAM = {"sort": "sort", "down": "sort -r", "once": "sort -u", "turn": "tac", "first": "head -n 2", "last": "tail -n 1",
          "drop": "grep -v {w}"}
LINE = {"upper": "tr a-z A-Z", "letters": "rev", "column": "cut -d ' ' -f 2", "dash": "tr ' ' -", "count": "wc -l"}

PROGRAMS: tuple[tuple[str, ...], ...] = tuple((p,) for p in STREAM | LINE)
# A count of sorted, turned or cut lines shows nothing of the first half, so only two compositions count.
_PAIRS = [(s, l) for s in STREAM for l in LINE if l != "count" or s in ("once", "drop")]
HELD_OUT_PROGRAMS: tuple[tuple[str, ...], ...] = tuple(_PAIRS[::2])
"""Compositions that only the evaluation suite has."""
TRAIN_PROGRAMS: tuple[tuple[str, ...], ...] = tuple(_PAIRS[1::2])

# Runs a program of the agent in the verifier. RLIMIT_FSIZE 0 keeps it from writing files. The inner substitution, not
# the outer one, waits for whatever the program leaves running, and ends with the time limit.
FUNCTIONS = r"""
maps() {
  local f=$1 program=$2 out want; shift 2
  [[ -f $f ]] || return 1
  want=$(printf '%s\n' "$@" | eval "$program")
  out=$(ulimit -f 0; printf '%s\n' "$@" | timeout -s KILL 2 env -i PATH=/usr/bin:/bin LC_ALL=C \
    bash -c 'o=$(bash "$0" 2> /dev/null); printf %s "$o"' "$f" 2> /dev/null)
  [[ $out == "$want" ]]
}
"""


def _sample(names: Names, rng: random.Random, w: str) -> list[str]:
    """Four lines of two words: one line twice, one with the word that `drop` removes."""
    a, b, c = (f"{names.word()} {names.word()}" for _ in range(3))
    lines = [a, b, a, f"{w} {c.split()[0]}"]
    rng.shuffle(lines)
    return lines


def reconstruct(rng: random.Random, names: Names, program: tuple[str, ...]) -> Step:
    """The step for one program: names of `STREAM` or `LINE`, piped in this order."""
    s, d, w = names.file("sh"), names.word(), names.word()
    command = " | ".join((STREAM | LINE)[p] for p in program).format(w=w)
    samples = [_sample(names, rng, w) for _ in range(4)]
    setup = "\n".join(
        [f"mkdir {d}"]
        + [put(f"{d}/{i}.in", *x) + f"\n{{ {command}; }} < {d}/{i}.in > {d}/{i}.out"
           for i, x in enumerate(samples[:2], 1)])
    quoted = command.replace("'", "'\\''")
    runs = [f"maps {s} '{quoted}' " + " ".join(f"'{line}'" for line in x) for x in samples]
    kinds = ("intermediate", "intermediate", "final", "final")
    return Step(
        "reconstruct",
        f"write the script {s} that turns each .in file of {d} into its .out file",
        setup,
        (Action(f"cat {d}/1.in {d}/1.out", "look at an example"), Action(f'echo "{command}" > {s}', "this maps it")),
        (Action(f"echo cat > {s}", "write the script"),),
        "cat an example, then echo the command into the script",
        (Check("script", f"[[ -f {s} ]]", "intermediate"),
         *(Check(n, run, kind) for n, run, kind in zip(("example-1", "example-2", "hidden-1", "hidden-2"), runs, kinds,
                                                       strict=True))),
        functions=FUNCTIONS,
    )
