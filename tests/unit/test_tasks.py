"""Task generation, the split, the writer, the loader, the linter and renaming; nothing is executed here."""

import random
import re
from itertools import combinations

import pytest

from rsi.tasks.families import FAMILIES
from rsi.tasks.families.held_out import FAMILIES as HELD_OUT_FAMILIES
from rsi.tasks.families.reconstruct import HELD_OUT_PROGRAMS, PROGRAMS, TRAIN_PROGRAMS
from rsi.tasks.lint import lint
from rsi.tasks.load import TaskError, load_suite, load_task
from rsi.tasks.step import Names
from rsi.tasks.suites import (
    HELD_OUT_GROUPS,
    HELD_OUT_PAIRS,
    SUITES,
    corpus_tasks,
    generate,
    make_suite,
    permutation,
    rename,
    side,
)
from rsi.tasks.words import WORDS

EVALUATION = [name for name, (_, where, _) in SUITES.items() if where == "evaluation"]


@pytest.fixture(scope="module")
def suites():
    return {name: generate(name, limit=None if name != "corpus" else 2000) for name in SUITES}


def families(task):
    return [s.family for s in task.steps if s.clause]


def test_sizes(suites):
    sizes = {"standin-tb21": 89, "standin-hard": 100, "standin-tb3": 74, "standin-tb4": 66, "standin-lhtb": 46,
             "standin-swr100": 100}
    assert {name: len(suites[name]) for name in EVALUATION} == sizes
    assert len(suites["pool"]) >= 1500


@pytest.mark.parametrize("name", SUITES)
def test_two_generations_are_identical(name):
    a, b = generate(name, 3, 40), generate(name, 3, 40)
    assert [(t.id, t.files) for t in a] == [(t.id, t.files) for t in b]
    assert [t.files for t in generate(name, 4, 40)] != [t.files for t in a]


def test_no_instruction_is_shared(suites):
    seen = {}
    for name, tasks in suites.items():
        for t in tasks:
            assert t.instruction not in seen, (name, seen.get(t.instruction))
            seen[t.instruction] = name
            assert side(t.instruction) == SUITES[name][1]


def test_other_seeds_stay_on_their_side(suites):
    evaluated = {t.instruction for name in EVALUATION for t in suites[name]}
    for name, seed in (("pool", 1), ("pool", 2), ("corpus", 1)):
        assert not evaluated & {t.instruction for t in generate(name, seed, 500)}


def test_the_pool_has_nothing_held_out(suites):
    seen = {f for t in suites["pool"] for f in families(t)}
    assert seen == {*FAMILIES, "chain", "reconstruct"}
    assert not seen & set(HELD_OUT_FAMILIES) and len(HELD_OUT_FAMILIES) >= 5
    joined = {p for t in suites["pool"] for p in combinations(sorted(families(t)), 2)}
    assert not joined & HELD_OUT_PAIRS
    assert not {p for t in suites["corpus"] for p in combinations(sorted(families(t)), 2)} & HELD_OUT_PAIRS
    programs = {s.solve[1].command for t in suites["pool"] + suites["corpus"] for s in t.steps
                if s.family == "reconstruct"}
    held_out = {s.solve[1].command for t in suites["standin-swr100"] for s in t.steps if " | " in s.solve[1].command}
    assert held_out and not {_pipe(c) for c in programs} & {_pipe(c) for c in held_out}
    assert not set(HELD_OUT_PROGRAMS) & set(TRAIN_PROGRAMS + PROGRAMS)


def _pipe(command):
    """The program of `echo "…" > f.sh` without its word."""
    return re.sub(r"-v \w+", "-v", command.split('"')[1])


def test_the_suites_are_what_they_say(suites):
    assert sorted(f for g in HELD_OUT_GROUPS for f in g) == sorted(FAMILIES)
    for t in suites["standin-tb3"]:
        pairs = list(combinations(sorted(families(t)), 2))
        assert pairs and set(pairs) <= HELD_OUT_PAIRS
        assert t.instruction.startswith("caution: leave the file ") and any(s.family == "distractor" for s in t.steps)
    assert all(set(families(t)) & set(HELD_OUT_FAMILIES) for t in suites["standin-tb4"])
    assert {f for t in suites["standin-tb4"] for f in families(t)} >= set(HELD_OUT_FAMILIES)
    assert all(8 <= len(t.steps) <= 15 and set(families(t)) == {"chain"} for t in suites["standin-lhtb"])
    singles = [t for t in suites["standin-tb21"] if len(t.steps) == 1]
    assert 0.2 < len(singles) / 89 < 0.5
    assert {f for t in suites["corpus"] for f in families(t)} >= {*FAMILIES, *HELD_OUT_FAMILIES, "chain", "reconstruct"}


def test_evaluation_tasks_carry_no_guidance(suites):
    for name in EVALUATION:
        for t in suites[name]:
            toml = t.files["task.toml"]
            assert not any(word in toml for word in ("solve", "flaw", "hint", "clause"))
            flaws = {a.command for s in t.steps for a in s.flaw} - {a.command for s in t.steps for a in s.solve}
            text = "".join(v for k, v in t.files.items() if k != "solution/solve.sh").splitlines()
            assert not flaws & set(text)


def test_every_family_is_registered_under_its_name():
    for name, build in (FAMILIES | HELD_OUT_FAMILIES).items():
        rng = random.Random(0)
        step = build(rng, Names(rng))
        assert step.family == name and 2 <= len(step.checks) <= 8 and 1 <= len(step.solve) <= 3
        assert 6 <= len(step.clause.split()) <= 20 and step.hint and step.flaw
        assert any(c.kind == "final" and not c.holds_before for c in step.checks)


def test_names_are_whole_words(suites):
    """No pool word is part of another one or of a word of clauses, notes, hints and commands."""
    assert len(set(WORDS)) == len(WORDS) >= 260
    assert not [(a, b) for a in WORDS for b in WORDS if a != b and a in b]
    texts = (x for tasks in suites.values() for t in tasks for s in t.steps
             for x in (s.clause, s.hint, *(y for a in s.solve + s.flaw for y in (a.command, a.note))))
    vocabulary = {w for x in texts for w in re.findall("[a-z]+", x)} - set(WORDS)
    assert not [(a, b) for a in WORDS for b in vocabulary if a in b]
    assert len(vocabulary) < 300


def test_written_suite_loads_and_lints(tmp_path):
    for name in SUITES:
        made = make_suite(name, 0, tmp_path / name, limit=30)
        tasks = load_suite(tmp_path / name)
        assert [t.path for t in tasks] == sorted(p.resolve() for p in made)
        for task in tasks:
            assert lint(task.path, ours=True) == []
            assert task.family and task.suite == name and task.checks and task.memory_mb == 256
            assert ("steps" in task.metadata) == (name == "corpus")
            assert task.solution_script.is_file() and task.setup_script.is_file()


def test_guided_steps_are_plain_data(tmp_path):
    task = load_task(make_suite("corpus", 0, tmp_path, limit=1)[0])
    for step in task.metadata["steps"]:
        assert set(step) == {"family", "clause", "hint", "solve", "flaw"}
        assert all(set(a) == {"command", "note"} for a in step["solve"] + step["flaw"])


def foreign(tmp_path, toml):
    root = tmp_path / "foreign"
    for name, text in (("task.toml", toml), ("instruction.md", "Do it.\n"), ("tests/test.sh", "exit 0\n"),
                       ("environment/Dockerfile", "FROM x\n"), ("solution/solve.sh", "true\n")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_foreign_tasks_load(tmp_path):
    root = foreign(tmp_path, 'version = "1.0"\n[metadata]\ncategory = "security"\nauthor_name = "x"\n[agent]\n'
                   'timeout_sec = 900.0\n[environment]\nmemory = "2G"\nstorage = "10G"\ngpus = 1\n[own]\na = 1\n')
    task = load_task(root)
    assert (task.memory_mb, task.storage_mb, task.verifier_timeout_s) == (2048, 10240, 600.0)
    assert task.family == "security" and task.metadata["author_name"] == "x" and task.checks == ()
    assert lint(root, ours=False) == []
    assert {"environment.memory", "version", "own"} <= {p.key for p in lint(root, ours=True)}


@pytest.mark.parametrize(("toml", "field"), [
    ("a = ", "task.toml"),
    ('schema_version = "1.5"\n', "schema_version"),
    ('[agent]\ntimeout_sec = "soon"\n', "agent.timeout_sec"),
    ("[agent]\ntimeout_sec = inf\n", "agent.timeout_sec"),
    ('[environment]\nmemory = "much"\n', "memory"),
    ('[[metadata.checks]]\nname = "x"\nkind = "last"\n', "metadata.checks.0.kind"),
    ("[[metadata.checks]]\nkind = 'final'\n", "metadata.checks.0.name"),
])
def test_bad_tomls_are_named(tmp_path, toml, field):
    root = foreign(tmp_path, toml)
    with pytest.raises(TaskError, match=re.escape(field)) as e:
        load_task(root)
    assert "task.toml" in str(e.value) and "correct" in str(e.value)
    assert lint(root, ours=False)


def test_missing_files_are_named(tmp_path):
    with pytest.raises(TaskError, match="no task directories"):
        load_suite(tmp_path)
    with pytest.raises(TaskError, match="not found"):
        load_task(tmp_path)
    root = foreign(tmp_path, "")
    (root / "tests/test.sh").unlink()
    with pytest.raises(TaskError, match=r"tests/test\.sh"):
        load_task(root)
    with pytest.raises(TaskError, match="choose one of"):
        generate("standin-tb9")


def edited(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(("file", "old", "new", "key"), [
    ("task.toml", "[agent]", "[agent]\nretries = 2", "agent.retries"),
    ("task.toml", 'schema_version = "1.4"', 'schema_version = "1.3"', "schema_version"),
    ("task.toml", 'name = "s1-', 'name = "s9-', ""),
    ("task.toml", 'suite = "standin-tb21"', 'suite = "mine"', "metadata.suite"),
    ("task.toml", 'suite = "standin-tb21"', 'suite = "corpus"', "metadata.steps"),
    ("tests/test.sh", " final $?", " intermediate $?", ""),
    ("instruction.md", "1. ", "2. ", ""),
])
def test_lint_names_the_problem(tmp_path, file, old, new, key):
    root = make_suite("standin-tb21", 0, tmp_path, limit=1)[0]
    edited(root / file, old, new)
    problems = lint(root, ours=True)
    assert key in {p.key for p in problems} and all(p.remedy for p in problems)


def mapping_for(task, seed=0):
    """A permutation under which the task stays where it is."""
    for k in range(seed, seed + 100):
        mapping = dict(zip(WORDS, random.Random(k).sample(WORDS, len(WORDS)), strict=True))
        try:
            return mapping, rename(task, mapping)
        except TaskError:
            continue
    raise AssertionError("no permutation keeps the task on its side")


def whole_words(text, mapping):
    return re.sub(r"[a-z]+", lambda m: mapping.get(m[0], m[0]), text)


def test_rename_is_whole_word_replacement(tmp_path):
    for task in generate("pool", 0, 60):
        mapping, renamed = mapping_for(task)
        assert renamed.instruction == whole_words(task.instruction, mapping)
        assert [a.command for s in renamed.steps for a in s.solve if a.command] == [
            whole_words(a.command, mapping) for s in task.steps for a in s.solve]
        assert renamed.id != task.id and lint(renamed.write(tmp_path), ours=True) == []


def test_rename_from_disk_and_back(tmp_path):
    task = generate("pool", 0, 1)[0]
    mapping, renamed = mapping_for(task)
    assert rename(task.write(tmp_path), mapping).files == renamed.files
    back = rename(renamed.write(tmp_path), {v: k for k, v in mapping.items()})
    assert back.instruction == task.instruction and back.files["tests/test.sh"] == task.files["tests/test.sh"]


def test_rename_refuses(tmp_path):
    task = generate("pool", 0, 1)[0]
    with pytest.raises(TaskError, match="one-to-one"):
        rename(task, {"amber": "cedar", "birch": "cedar"})
    with pytest.raises(TaskError, match="one-to-one"):
        rename(task, {"amber": "rm"})
    with pytest.raises(TaskError, match="only generated"):
        rename(foreign(tmp_path, ""), {"amber": "cedar"})
    assert permutation({"amber": "cedar", "cedar": "birch"}) == {"amber": "cedar", "cedar": "birch", "birch": "amber"}


def test_corpus_stream_is_unique():
    tasks = corpus_tasks(1500, seed=5)
    assert len({t.instruction for t in tasks}) == len({t.id for t in tasks}) == 1500
