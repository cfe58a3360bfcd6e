"""Families about git repositories. Checks read the refs of the repository; objects need git itself."""

from __future__ import annotations

import random

from rsi.tasks.step import Action, Check, Names, Step, put, same

# Fixed dates make the hashes of the initial commits the same in every run.
DATES = 'export GIT_AUTHOR_DATE="2026-01-01T00:00:00Z" GIT_COMMITTER_DATE="2026-01-01T00:00:00Z"'


def repository(d: str, *files: str) -> str:
    """Setup lines of a repository `d` on branch main with `files` (setup lines) in its first commit."""
    user = f"printf '[user]\\nname = app\\nemail = app@localhost\\n' >> {d}/.git/config"
    return "\n".join((DATES, f"git init -q -b main --template= {d}", user, *files, save(d)))


def save(d: str) -> str:
    return f"git -C {d} add .\ngit -C {d} commit -qm start"


def commit(rng: random.Random, names: Names) -> Step:
    d, f, g, w = names.word(), names.file(), names.file(), names.word()
    return Step(
        "commit",
        f"in the repository {d} commit the new file {f}",
        f"{repository(d, put(f'{d}/{g}', w))}\n{put(f'{d}/{f}', w)}",
        (Action(f"git -C {d} add {f} && git -C {d} commit -qm {w}", "add it first"),),
        (Action(f"git -C {d} commit -qam {w}", "commit it"),),
        "git add, then git commit",
        (Check("added", f"staged {d} {f}", "intermediate"), Check("committed", f"committed {d} {f}"),
         Check("kept", same(f"{d}/{f}", w), holds_before=True)),
    )


def branch(rng: random.Random, names: Names) -> Step:
    d, b, f, w = names.word(), names.word(), names.file(), names.word()
    return Step(
        "branch",
        f"in the repository {d} create the branch {b} and switch to it",
        repository(d, put(f"{d}/{f}", w)),
        (Action(f"git -C {d} checkout -q -b {b}", "create and switch at once"),),
        (Action(f"git -C {d} branch {b}", "create the branch"),),
        "git checkout -b",
        (Check("branch", f"[[ -f {d}/.git/refs/heads/{b} ]]"),
         Check("switched", same(f"{d}/.git/HEAD", f"ref: refs/heads/{b}"))),
    )


def merge(rng: random.Random, names: Names) -> Step:
    d, b, f, g, w = names.word(), names.word(), names.file(), names.file(), names.word()
    return Step(
        "merge",
        f"in the repository {d} merge the branch {b} into main",
        f"{repository(d, put(f'{d}/{f}', w))}\ngit -C {d} checkout -q -b {b}\n{put(f'{d}/{g}', w)}\n{save(d)}",
        (Action(f"git -C {d} checkout -q main && git -C {d} merge -q {b}", "go to main first"),),
        (Action(f"git -C {d} merge -q {b}", "merge the branch"),),
        "git checkout main, then git merge",
        (Check("switched", same(f"{d}/.git/HEAD", "ref: refs/heads/main"), "intermediate"),
         Check("merged", f"alike {d}/.git/refs/heads/main {d}/.git/refs/heads/{b}"),
         Check("file", same(f"{d}/{g}", w), holds_before=True)),
    )


def recover(rng: random.Random, names: Names) -> Step:
    d, f, g, w, x = names.word(), names.file(), names.file(), names.word(), names.word()
    return Step(
        "recover",
        f"in the repository {d} bring back the deleted file {f}",
        f"{repository(d, put(f'{d}/{f}', w), put(f'{d}/{g}', x))}\nrm {d}/{f}",
        (Action(f"git -C {d} checkout {f}", "take it from the last commit"),),
        (Action(f"touch {d}/{f}", "make the file again"),),
        "git checkout",
        (Check("exists", f"[[ -f {d}/{f} ]]", "intermediate"), Check("content", same(f"{d}/{f}", w)),
         Check("kept", same(f"{d}/{g}", x), holds_before=True)),
    )


FAMILIES = {f.__name__: f for f in (commit, branch, merge, recover)}
