"""Named suites, deterministic from a seed, and what keeps training and evaluation apart.

Instructions are split by content: the hash of an instruction decides whether it belongs to evaluation, the training
pool or the pretraining corpus, and every suite draws again until an instruction is on its own side. So no instruction
is shared, whatever the seeds. Besides that, pairs of families (`HELD_OUT_GROUPS`), whole families
(`families.held_out`) and compositions of transformations (`families.reconstruct`) never occur in the pool.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, count
from pathlib import Path
from typing import Literal

from rsi.tasks.chain import chain
from rsi.tasks.families import FAMILIES
from rsi.tasks.families.held_out import FAMILIES as HELD_OUT_FAMILIES
from rsi.tasks.families.held_out import distractor
from rsi.tasks.families.reconstruct import HELD_OUT_PROGRAMS, PROGRAMS, TRAIN_PROGRAMS, reconstruct
from rsi.tasks.load import TaskError, load_task
from rsi.tasks.step import Names, Step
from rsi.tasks.words import WORDS
from rsi.tasks.write import TaskFiles, assemble, instruction_of

HELD_OUT_GROUPS: tuple[tuple[str, ...], ...] = (
    ("mkdir", "config", "commit", "checksum"),
    ("copy", "count", "branch", "start"),
    ("move", "csv", "merge", "patch"),
    ("rename", "sort", "recover", "stop"),
    ("remove", "append", "head", "repair"),
    ("chmod", "json", "join", "search"),
    ("link", "tar", "lines", "replace"),
)
"""Families of one group are never joined in the training pool; `standin-tb3` joins nothing else."""

HELD_OUT_PAIRS: frozenset[tuple[str, str]] = frozenset(
    pair for group in HELD_OUT_GROUPS for pair in combinations(sorted(group), 2)
)

Side = Literal["evaluation", "pool", "corpus"]
Made = tuple[list[Step], str]


def side(instruction: str) -> Side:
    """Which side an instruction belongs to: 20 % evaluation, 30 % training pool, 50 % pretraining corpus."""
    d = hashlib.sha256(instruction.encode()).digest()[0]
    return "evaluation" if d < 51 else "pool" if d < 128 else "corpus"


def _singles(rng: random.Random, names: Names, chosen: list[str]) -> list[Step]:
    return [(FAMILIES | HELD_OUT_FAMILIES)[f](rng, names) for f in chosen]


def _joined(rng: random.Random, n: int) -> list[str]:
    """`n` different training families of which no two are a held-out pair."""
    while True:
        chosen = rng.sample(sorted(FAMILIES), n)
        if not any(tuple(sorted(p)) in HELD_OUT_PAIRS for p in combinations(chosen, 2)):
            return chosen


def _cycle(index: int) -> str:
    """The training families in turn, so that every one of them is equally frequent."""
    return sorted(FAMILIES)[index % len(FAMILIES)]


def _tb21(rng: random.Random, names: Names, i: int) -> Made:
    n = rng.choices((1, 2, 3), (35, 40, 25))[0]
    return _singles(rng, names, [_cycle(i)] if n == 1 else _joined(rng, n)), ""


def _hard(rng: random.Random, names: Names, i: int) -> Made:
    return (_singles(rng, names, _joined(rng, 2)) if i % 2 == 0 else chain(rng, names, rng.randint(3, 4))), ""


def _distracted(rng: random.Random, names: Names, steps: list[Step]) -> Made:
    """`steps` with files that have nothing to do with them, and a note that names one."""
    extra = [distractor(rng, names) for _ in range(rng.randint(1, 2))]
    return steps + [s for s, _ in extra], f"leave the file {extra[0][1]} as it is"


def _tb3(rng: random.Random, names: Names, i: int) -> Made:
    return _distracted(rng, names, _singles(rng, names, rng.sample(HELD_OUT_GROUPS[i % len(HELD_OUT_GROUPS)], rng.randint(2, 4))))


def _tb4(rng: random.Random, names: Names, i: int) -> Made:
    held_out = sorted(HELD_OUT_FAMILIES)[i % len(HELD_OUT_FAMILIES)]
    chosen = [held_out] if rng.random() < 0.5 else rng.sample([held_out, rng.choice(sorted(FAMILIES))], 2)
    return _singles(rng, names, chosen), ""


def _lhtb(rng: random.Random, names: Names, i: int) -> Made:
    return chain(rng, names, 8 + i % 8), ""


def _swr(rng: random.Random, names: Names, i: int) -> Made:
    return [reconstruct(rng, names, rng.choice(PROGRAMS if i % 5 < 2 else HELD_OUT_PROGRAMS))], ""


def _pool(rng: random.Random, names: Names, i: int) -> Made:
    kind = rng.choices(("one", "two", "three", "chain", "swr"), (40, 25, 10, 20, 5))[0]
    if kind == "one":
        return _singles(rng, names, [_cycle(i)]), ""
    if kind == "chain":
        return chain(rng, names, rng.choice((2, 2, 3, 3, 4, 4, 5, 6, 7, 8))), ""
    if kind == "swr":
        return [reconstruct(rng, names, rng.choice(PROGRAMS + TRAIN_PROGRAMS))], ""
    return _singles(rng, names, _joined(rng, 2 if kind == "two" else 3)), ""


def _corpus(rng: random.Random, names: Names, i: int) -> Made:
    """As the pool, with longer chains, distractors and the families that the pool never has: pretraining has seen all of it."""
    kind = rng.choices(("one", "held-out", "two", "three", "chain", "swr"), (34, 10, 22, 8, 21, 5))[0]
    if kind == "held-out":
        return _singles(rng, names, [rng.choice(sorted(HELD_OUT_FAMILIES))]), ""
    if kind == "chain":
        return chain(rng, names, rng.choice((2, 3, 4, 5, 6, 7, 8, 10, 12, 15))), ""
    if kind == "one":
        return _singles(rng, names, [_cycle(i)]), ""
    if kind == "swr":
        return [reconstruct(rng, names, rng.choice(PROGRAMS + TRAIN_PROGRAMS))], ""
    steps = _singles(rng, names, _joined(rng, 2 if kind == "two" else 3))
    return _distracted(rng, names, steps) if rng.random() < 0.2 else (steps, "")


SUITES: dict[str, tuple[int, Side, Callable[[random.Random, Names, int], Made]]] = {
    "standin-tb21": (89, "evaluation", _tb21),
    "standin-hard": (100, "evaluation", _hard),
    "standin-tb3": (74, "evaluation", _tb3),
    "standin-tb4": (66, "evaluation", _tb4),
    "standin-lhtb": (46, "evaluation", _lhtb),
    "standin-swr100": (100, "evaluation", _swr),
    "pool": (1600, "pool", _pool),
    "corpus": (8000, "corpus", _corpus),
}
"""name: (size, side, how task number i is made)."""


def _steps(origin: tuple[str, int, int, int], mapping: Mapping[str, str] | None = None) -> Made:
    name, seed, index, attempt = origin
    key = hashlib.sha256(f"{name}/{seed}/{index}/{attempt}".encode()).digest()
    rng = random.Random(int.from_bytes(key[:8], "big"))
    return SUITES[name][2](rng, Names(rng, mapping), index)


def _assemble(origin: tuple[str, int, int, int], made: Made, suffix: str = "", renamed: Mapping[str, str] | None = None
              ) -> TaskFiles:
    name, _, index, _ = origin
    return assemble(f"{name}-{index:04d}{suffix}", made[0], origin, guide=name == "corpus", note=made[1],
                    renamed=renamed)


def stream(name: str, seed: int = 0) -> Iterator[TaskFiles]:
    """The tasks of a suite without end, each instruction once.

    Raises TaskError for an unknown suite, and where no new instruction is found any more.
    """
    size(name)
    where = SUITES[name][1]
    seen: set[str] = set()
    for index in count():
        for attempt in range(1000):
            origin = (name, seed, index, attempt)
            made = _steps(origin)
            instruction = instruction_of(*made)
            if side(instruction) == where and instruction not in seen:
                break
        else:
            raise TaskError(f"suite {name!r}: no new instruction for task {index} in 1000 tries; ask for fewer tasks")
        seen.add(instruction)
        yield _assemble(origin, made)


def generate(name: str, seed: int = 0, limit: int | None = None) -> list[TaskFiles]:
    """The tasks of suite `name` in memory; the first `limit` of them, if given.

    Raises TaskError for an unknown suite.
    """
    tasks = stream(name, seed)
    return [next(tasks) for _ in range(size(name) if limit is None else min(limit, size(name)))]


def size(name: str) -> int:
    """The number of tasks of a suite. Raises TaskError for an unknown one."""
    if name not in SUITES:
        raise TaskError(f"no suite {name!r}: choose one of {', '.join(SUITES)}")
    return SUITES[name][0]


def corpus_tasks(n: int, seed: int = 0) -> list[TaskFiles]:
    """`n` tasks for the pretraining corpus of the base model."""
    tasks = stream("corpus", seed)
    return [next(tasks) for _ in range(n)]


def make_suite(name: str, seed: int, out_dir: Path, limit: int | None = None) -> list[Path]:
    """Write a suite as Harbor directories `out_dir/<task-id>` and return them.

    Raises TaskError for an unknown suite, OSError where writing fails.
    """
    return [task.write(Path(out_dir)) for task in generate(name, seed, limit)]


def rename(task: TaskFiles | Path, mapping: Mapping[str, str]) -> TaskFiles:
    """The same task under other names. It is a new task: execute and verify a renamed transcript again.

    `mapping` maps pool words to pool words and must be one-to-one; words it leaves out keep their names. The task is
    generated again from its origin, so that sort orders, counts and checksums are right under the new names. The words
    that no name moves to are filled up so that the whole is a permutation of the pool.
    Raises TaskError when the mapping is not one-to-one, when the task was not generated here, and when a training task
    would turn into an evaluation task or the reverse.
    """
    if isinstance(task, Path):
        meta = load_task(task).metadata
        try:
            origin = (meta["suite"], meta["seed"], meta["index"], meta["attempt"])
            before = meta.get("renamed", {})
        except KeyError as e:
            raise TaskError(f"{task}/task.toml: metadata.{e.args[0]} is missing; only generated tasks can be renamed"
                            ) from e
    else:
        origin, before = task.origin, task.renamed
    full = permutation(mapping)
    first = permutation(before)
    after = {w: full.get(first.get(w, w), first.get(w, w)) for w in WORDS}
    moved = {w: v for w, v in after.items() if w != v}
    tag = hashlib.sha256(repr(moved).encode()).hexdigest()[:8]
    renamed = _assemble(origin, _steps(origin, moved), f"-r{tag}", moved)
    sides = {side(renamed.instruction), SUITES[origin[0]][1]}
    if len(sides) > 1 and "evaluation" in sides:
        raise TaskError(f"{renamed.id}: under these names the task crosses between training and evaluation; use others")
    return renamed


def permutation(mapping: Mapping[str, str]) -> dict[str, str]:
    """`mapping` closed to a permutation: each chain a → b → c that ends in c gets c → a. Raises TaskError if it is not
    one-to-one or names a word outside the pool."""
    if len(set(mapping.values())) != len(mapping) or not {*mapping, *mapping.values()} <= set(WORDS):
        raise TaskError("a renaming must be one-to-one over words of rsi.tasks.words.WORDS")
    full = dict(mapping)
    for first in set(mapping) - set(mapping.values()):
        last = first
        while last in mapping:
            last = mapping[last]
        full[last] = first
    return full
