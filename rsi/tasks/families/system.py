"""Families about checksums, patches, broken scripts and running processes."""

from __future__ import annotations

import random

from rsi.tasks.step import Action, Check, Names, Step, put, same


def checksum(rng: random.Random, names: Names) -> Step:
    d, s, w, *stems = names.words(6)
    i = rng.randrange(3)
    bad = stems[i]
    setup = "\n".join([f"mkdir {d}"] + [put(f"{d}/{x}.dat", x) for x in stems]
                      + [f"sha256sum {d}/*.dat > {s}.sum", put(f"{d}/{bad}.dat", w)])
    return Step(
        "checksum",
        f"remove the file of {d} whose checksum does not match {s}.sum",
        setup,
        (Action(f"sha256sum --quiet -c {s}.sum", "see which sum fails"),
         Action(f"rm {d}/{bad}.dat", f"it is {bad}.dat")),
        (Action(f"sha256sum {d}/* > {s}.sum", "make the sums match"),),
        "sha256sum -c, then rm",
        (Check("gone", f"[[ ! -e {d}/{bad}.dat ]]"),
         Check("kept", f"[[ -f {d}/{stems[i - 1]}.dat && -f {d}/{stems[i - 2]}.dat ]]", holds_before=True)),
    )


def patch(rng: random.Random, names: Names) -> Step:
    f, p, (a, b, c, d) = names.file(), names.file("diff"), names.words(4)
    setup = (f"{put(f, a, b, c)}\n"
             f"{put(p, f'--- {f}', f'+++ {f}', '@@ -1,3 +1,3 @@', f' {a}', f'-{b}', f'+{d}', f' {c}')}")
    return Step(
        "patch",
        f"apply the patch {p} to the file {f}",
        setup,
        (Action(f"patch -s {f} {p}", "the file comes first"),),
        (Action(f"patch -s {p} {f}", "apply it"),),
        "patch -s with the file first",
        (Check("line", f"has {f} '{d}'"), Check("all", same(f, a, d, c)),
         Check("kept", f"[[ -f {p} ]] && has {f} '{a}'", holds_before=True)),
    )


def repair(rng: random.Random, names: Names) -> Step:
    s, w, good, bad = names.file("sh"), *names.words(3)
    return Step(
        "repair",
        f"repair the script {s} so that it writes {w} into {good}.txt and run it",
        put(s, f"echo {w} > {bad}.txt"),
        (Action(f"cat {s}", "look at the script first"),
         Action(f"sed -i 's/{bad}/{good}/' {s}", f"{bad} is wrong"), Action(f"bash {s}", "run it now")),
        (Action(f"bash {s}", "run the script"),),
        "cat, then sed -i, then bash",
        (Check("script", same(s, f"echo {w} > {good}.txt")), Check("output", same(f"{good}.txt", w))),
    )


def start(rng: random.Random, names: Names) -> Step:
    s, p, out = names.file("sh"), names.file("pid"), names.file("out")
    return Step(
        "start",
        f"start the worker {s} in the background and write its pid into {p}",
        put(s, f"echo $$ > {out}", "exec sleep 600"),
        (Action(f"(bash {s} & echo $! > {p})", "the pid of the last job"),),
        (Action(f"(bash {s} & echo $$ > {p})", "start it"),),
        "bash with & and the pid of the last job",
        (Check("pid", f"digits {p}", "intermediate"), Check("runs", f"soon digits {out}"),
         Check("same", f"digits {p} && soon alike {p} {out}")),
    )


def stop(rng: random.Random, names: Names) -> Step:
    s, out, w = names.file("sh"), names.file("out"), names.word()
    body = put(s, f'trap "echo {w} > {out}; exit" TERM', "echo ready", "while :; do sleep 600 & wait; done")
    return Step(
        "stop",
        f"stop the running worker {s} so that it writes {out} at its end",
        body,
        (Action(f"pkill -f {s}", "match the whole command line"),),
        (Action(f"pkill {s}", "stop it by name"),),
        "pkill -f",
        (Check("ended", f"soon test -s {out}", "intermediate"), Check("output", same(out, w)),
         Check("kept", f"[[ -f {s} ]]", holds_before=True)),
        # the agent comes in when the trap is set, not before
        start=f"read -r < <(bash {s} 2> /dev/null < /dev/null)",
    )


FAMILIES = {f.__name__: f for f in (checksum, patch, repair, start, stop)}
