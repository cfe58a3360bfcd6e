"""RSR's parts: methods without values, runbooks that are reviewed and rewritten, the value-leak filter, renaming that is executed again."""

import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest

from rsi.harness.episode import Episode, Turn
from rsi.params import load_params
from rsi.rsr.chat import ChatError, complete
from rsi.rsr.leaks import leaked_values, private_values
from rsi.rsr.method import looks, method
from rsi.rsr.runbook import ProgrammaticJudge, ProgrammaticPlanner, Review, deterministic_review, milestones, render, write_runbook
from rsi.rsr.stage import Yield, choose_sources, keep
from rsi.sandbox.protocol import Verdict
from rsi.tasks.task import Task
from rsi.tasks.words import WORDS


def episode(task, turns, harness="reflect", strict=True, instruction=None):
    """An episode with these (text, command, observation) turns; one token a turn."""
    n = len(turns)
    tokens = np.arange(2 * n + 1, dtype=np.int32)
    mask = np.array([False, *([True, False] * n)])
    spans = tuple(Turn(2 * k + 1, 2 * k + 2, text, command, seen, 0 if command != "submit" else None) for k, (text, command, seen) in enumerate(turns))
    return Episode(task.id, task.family, task.suite, harness, "rsr1", 0, 0, tokens, mask, np.zeros(len(tokens), np.float32), spans, 1, False,
                   Verdict({"a": strict}, strict), instruction=instruction if instruction is not None else task.instruction)


def told(k, command, seen="exit 0"):
    return (f"{k - 1} done.\n{k}. x.", command, seen)


CLAIM = ("done.", "submit", "")


@pytest.mark.parametrize("command, expected", [
    ("mkdir -p amber/cedar && touch amber/a.txt", "mkdir -p && touch"),
    ("sed -i 's/port=80/port=90/' birch.cfg", "sed -i"),
    ("sort -u amber.txt > cedar.txt", "sort -u >"),
    ("git -C amber add . && git -C amber commit -qm x", "git -C add && git -C commit -qm"),
    ("grep -l falcon amber/*", "grep -l"),
    ("echo 'rm -rf secret' > a.sh", "echo >"),
])
def test_a_method_has_no_values(command, expected):
    said = method(command)
    assert said == expected or set(said.split()) == set(expected.split())
    assert not any(word in said.split() for word in ("amber", "cedar", "birch.cfg", "falcon", "secret"))


def test_looks_only_read():
    assert looks("cat amber.txt") and looks("grep -l x amber/*")
    assert not looks("cat amber.txt > b") and not looks("mv a b") and not looks("./prog")


def test_milestones_keep_the_last_way_a_step_was_done(corpus_of_tasks):
    source = episode(corpus_of_tasks[0], [told(1, "mkdir a"), told(2, "grep x b"), told(2, "mv b c"), CLAIM, told(1, "mkdir -p a/b"), CLAIM])
    assert milestones(source) == {1: ["mkdir -p a/b"], 2: ["grep x b", "mv b c"]}


def test_milestones_keep_both_commands_of_a_step_and_drop_what_failed_or_a_claim_undid(corpus_of_tasks):
    task = corpus_of_tasks[0]
    both = episode(task, [told(1, "sed -i s/a/b/ x.sh"), told(1, "bash x.sh > y"), CLAIM])
    assert milestones(both) == {1: ["sed -i s/a/b/ x.sh", "bash x.sh > y"]}
    redone = episode(task, [told(1, "sed s/a/b/ x.sh"), CLAIM, told(1, "sed -i s/a/b/ x.sh"), CLAIM])
    assert milestones(redone) == {1: ["sed -i s/a/b/ x.sh"]}
    failed = episode(task, [told(1, "mkdir a/b"), told(1, "mkdir -p a/b"), CLAIM])
    turns = (replace(failed.turns[0], exit_code=1), *failed.turns[1:])
    assert milestones(failed.with_(turns=turns)) == {1: ["mkdir -p a/b"]}


def test_the_rewrite_keeps_the_checks_and_drops_the_values(corpus_of_tasks):
    source = episode(corpus_of_tasks[0], [told(1, "echo walrus > a"), CLAIM])
    again = ProgrammaticPlanner().rewrite(corpus_of_tasks[0], source, "end: all 1 steps hold.\n1: echo > walrus\ncheck: look at each result.",
                                          Review(False, "private literal", "remove walrus"))
    assert "walrus" not in again and again.splitlines()[-1] == "check: look at each result."


def test_a_private_literal_is_rejected(corpus_of_tasks):
    compared = [(t, line.split("'")[1]) for t in corpus_of_tasks for line in (t.path / "tests" / "test.sh").read_text().splitlines()
                if line.startswith("same ") and "'" in line]
    task, value = next((t, v) for t, v in compared if len(v) > 1 and v.isalnum() and v not in t.instruction)
    quoted = render({k: f"echo {value}" for k in range(1, task.instruction.count("\n") + 1)})
    review = deterministic_review(task, episode(task, [CLAIM]), quoted)
    assert not review.accepted and review.reason == "private literal" and value in review.critique


def test_review_finds_format_deliverable_and_unknown_tools(corpus_of_tasks):
    task = corpus_of_tasks[0]
    source = episode(task, [told(1, "cp -r amber cedar birch"), CLAIM])
    assert deterministic_review(task, source, "do it").reason == "format"
    assert deterministic_review(task, source, "end: x\n1: cp -r amber cedar birch").reason == "deliverable"
    assert deterministic_review(task, source, "end: x\n1: frobnicate -x").reason == "unsupported tool"
    assert deterministic_review(task, source, "end: x\n1: cp -r").accepted


def test_the_judge_wants_one_milestone_a_clause(corpus_of_tasks):
    task = next(t for t in corpus_of_tasks if t.instruction.startswith("1.") and "\n2." in t.instruction and "\n3." not in t.instruction)
    assert ProgrammaticJudge().judge(task, render({1: "cp", 2: "mv"})).accepted
    assert ProgrammaticJudge().judge(task, render({1: "cp"})).reason == "milestones"
    assert ProgrammaticJudge().judge(task, render({1: "cp", 2: ""})).reason == "empty milestone"


def test_rejection_recurses_with_a_bound(corpus_of_tasks):
    task = corpus_of_tasks[0]
    source = episode(task, [CLAIM])

    class Stubborn:
        def judge(self, task, runbook):
            return Review(False, "judgement", "no")

    class Planner:
        drafts = 0

        def draft(self, *_):
            return "end: x\n1: cp"

        def rewrite(self, *_):
            Planner.drafts += 1
            return "end: x\n1: mv"

    runbook, reasons = write_runbook(task, source, 0, Planner(), Stubborn(), rounds=3)
    assert runbook is None and reasons == ["judgement"] * 4 and Planner.drafts == 4


def test_the_programmatic_planner_writes_what_the_reviewer_accepts(corpus_of_tasks, written):
    for task in corpus_of_tasks[:30]:
        turns = [told(k, a["command"]) for k, s in enumerate((s for s in task.metadata["steps"] if s["clause"]), 1) for a in s["solve"]]
        source = episode(task, [*turns, CLAIM])
        for variant in range(4):
            runbook, _ = write_runbook(task, source, variant, ProgrammaticPlanner(), ProgrammaticJudge(), rounds=2)
            assert runbook is not None, (task.instruction, variant)


def test_a_value_nobody_could_know_is_a_leak_and_one_that_was_printed_is_not(corpus_of_tasks):
    task = corpus_of_tasks[0]
    private = {"walrus", "417"}
    guessed = episode(task, [("echo walrus > a", "echo walrus > a", "exit 0"), CLAIM], instruction="write the word")
    used = ("echo walrus 417 > a", "echo walrus 417 > a", "exit 0")
    read = episode(task, [("cat b", "cat b", "exit 0\nwalrus 417"), used, CLAIM], instruction="write the word")
    assert leaked_values(guessed, private) == ["walrus"]
    assert leaked_values(read, private) == []
    assert leaked_values(guessed, set()) == []
    thought = episode(task, [("no walrus, but 417.", "echo > a", "exit 0"), CLAIM], instruction="write the word")
    assert leaked_values(thought, private) == ["417"]


def test_private_values_of_a_task_from_elsewhere_are_what_its_scripts_quote(tmp_path):
    files = {"tests/test.sh": "python3 /tests/test_it.py", "tests/test_it.py": "assert read() == 'zanzibar quay 4711'",
             "solution/solve.sh": 'echo "grep the map"'}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    foreign = Task("t", tmp_path, "write the name of the island; the map says it", "f")
    assert private_values(foreign, set(WORDS)) == {"zanzibar", "quay", "4711"}


def test_only_verified_finished_distinct_runs_are_kept(corpus_of_tasks, fmt):
    task = corpus_of_tasks[0]
    params = load_params().rsr.model_copy(update={"per_task": 2, "per_family": 9})
    good = episode(task, [("", "true", "exit 0"), CLAIM], "terminus")
    runs = [good, good, episode(task, [("", "false", "exit 0"), CLAIM], "terminus", strict=False), good.with_(truncated=True),
            episode(task, [("", "true", "exit 0"), ("", "ls", "")], "terminus")]
    found = Yield()
    kept = keep(runs, [], {task.id: task}, fmt, params, found, set(WORDS))
    assert len(kept) == 1 and found.counts["dropped_duplicate"] == 1 and found.counts["kept_direct"] == 1
    assert not kept[0].logprobs.any() and kept[0].train_temperature is None


def test_sources_are_successes_of_the_other_harnesses(corpus_of_tasks):
    a, b = corpus_of_tasks[:2]
    runs = [episode(a, [CLAIM], "terminus"), episode(a, [("", "ls", ""), CLAIM], "reflect"), episode(a, [CLAIM], "statem"),
            episode(b, [CLAIM], "reflect", strict=False)]
    assert [(e.task, e.harness) for e in choose_sources(runs, 5)] == [(a.id, "statem")]


@pytest.mark.parametrize("status, body", [(500, "oops"), (200, "not json"), (200, json.dumps({"choices": []}))])
def test_an_endpoint_that_does_not_answer_is_named(status, body):
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):  # noqa: N802
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *args):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    with pytest.raises(ChatError, match=f"{url}: no chat completion from model 'm'"):
        complete(url, "m", "s", "u")
    server.shutdown()
