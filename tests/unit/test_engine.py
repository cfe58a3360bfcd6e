"""The rollout engine and the harnesses: real bash in real sandboxes, with written turns in place of a sampler."""

from dataclasses import replace

import pytest

from rsi.harness import HARNESSES
from rsi.harness.engine import Job, RolloutConfig, clip, run_batch, turn_budget
from rsi.harness.protocol import Action, format_action, parse_action
from rsi.harness.scripted import ScriptedSampler
from rsi.rsr.stage import public
from rsi.tasks.task import Task

CONFIG = RolloutConfig(context=2048, turn_tokens=160)


def play(jobs, scripts, fmt, sandboxes, config=CONFIG):
    return run_batch(jobs, ScriptedSampler(scripts, fmt), fmt, sandboxes, config, stage="test", seed=0)


@pytest.fixture(scope="module")
def plain(corpus_of_tasks):
    """A task of one step whose reference is one command that also mends the flaw's result."""
    return next(t for t in corpus_of_tasks if t.family in {"head", "csv", "sort", "count", "replace", "config", "lines", "mkdir"})


def test_the_reference_solves_and_the_flaw_does_not(corpus_of_tasks, fmt, sandboxes, written):
    tasks = corpus_of_tasks[:16]
    jobs = [Job(t, attempt=k) for t in tasks for k in range(2)]
    scripts = [written(t, which) for t in tasks for which in ("solve", "flaw")]
    episodes = play(jobs, scripts, fmt, sandboxes)
    assert all(e.verdict.valid for e in episodes)
    assert all(e.verdict.strict and e.progress == 1.0 for e in episodes[::2])
    assert not any(e.verdict.strict for e in episodes[1::2])
    assert all(e.progress < 1.0 for e in episodes[1::2])


def test_the_stream_is_prompt_turns_and_observations(plain, fmt, sandboxes, written):
    (episode,) = play([Job(plain)], [written(plain)], fmt, sandboxes)
    text = fmt.tokenizer.decode(episode.tokens)
    assert text.startswith(f"<|system|>{HARNESSES['terminus'].system}<|end|><|user|>{plain.instruction.strip()}\nend of task.<|end|><|assistant|>")
    assert "<|user|>exit 0<|end|><|assistant|>" in text
    # case 14: each sampled stop token is inside the loss region
    for turn in episode.turns:
        assert episode.tokens[turn.end - 1] == fmt.stop_id and episode.mask[turn.end - 1]
    assert fmt.decode(list(episode.tokens[episode.turns[0].start : episode.turns[0].end])) == written(plain)[0]


def test_reflect_hears_only_that_it_failed_and_goes_on(plain, fmt, sandboxes, written, claim):
    script = [*written(plain, "flaw"), claim, *written(plain), claim]
    (episode,) = play([Job(plain, "reflect")], [script], fmt, sandboxes)
    assert episode.verdict.strict
    heard = [t.observation for t in episode.turns]
    assert heard.count("the task is not complete. go on.") == 1
    assert not any(name in " ".join(heard) for name in episode.verdict.checks)


def test_verifying_in_mid_episode_leaves_no_trace(plain, fmt, sandboxes, claim):
    look = format_action("look.", "ls -a / /app /tmp /logs /tests 2>&1; ps ax | wc -l; env | sort; pwd")
    (episode,) = play([Job(plain, "reflect")], [[look, claim, look, claim]], fmt, sandboxes, replace(CONFIG, observation_chars=4000))
    before, after = episode.turns[0].observation, episode.turns[2].observation
    assert before == after
    assert "verifier" not in after and "ctrf" not in after


def test_statem_checks_its_transitions(plain, fmt, sandboxes, written, claim):
    script = [*written(plain), claim, claim, format_action("check.", "ls"), claim]
    (episode,) = play([Job(plain, "statem")], [script], fmt, sandboxes)
    heard = [t.observation for t in episode.turns]
    assert heard[-4].startswith("check each step") and heard[-4].endswith("state: check 1")
    assert heard[-3].startswith("nothing was checked")
    assert heard[-2].endswith("state: check 2")
    assert episode.verdict.strict and not episode.truncated


def test_statem_goes_back_to_act_when_a_check_fails(plain):
    from rsi.sandbox.protocol import CommandResult

    harness = HARNESSES["statem"](plain)
    harness.react(Action("", "submit"))
    assert harness.phase == "check"
    assert harness.observe(CommandResult(1, "no")).endswith("state: act 1")


def test_the_turn_limit_truncates_and_still_verifies(plain, fmt, sandboxes, written):
    idle = [format_action("wait.", "true")] * 30
    (episode,) = play([Job(plain)], [written(plain) + idle], fmt, sandboxes)
    assert episode.truncated and len(episode.turns) == turn_budget(plain, CONFIG.max_turns) == 6
    assert episode.verdict.strict  # the work was done before the limit: it counts
    assert not episode.mask[-1]  # the last observation is kept for the bootstrap value


def test_the_context_limit_truncates(plain, fmt, sandboxes):
    loud = [format_action("count.", "seq 1 300")] * 30
    (episode,) = play([Job(plain)], [loud], fmt, sandboxes, replace(CONFIG, context=300, turn_tokens=60))
    assert episode.truncated and len(episode.tokens) <= 300 and episode.verdict.valid


def test_case_15_a_prompt_as_long_as_the_context_is_refused(plain, fmt, sandboxes):
    with pytest.raises(ValueError, match=f"task {plain.id}: a prompt of"):
        play([Job(plain)], [[]], fmt, sandboxes, replace(CONFIG, context=40, turn_tokens=20))


def test_bad_turns_are_answered_and_cost_a_turn(plain, fmt, sandboxes):
    script = ["no block here", "two\n```bash\nls\n```\n```bash\nls\n```", "empty\n```bash\n\n```"]
    (episode,) = play([Job(plain)], [script], fmt, sandboxes)
    assert [t.observation for t in episode.turns[:3]] == ["error: no command block", "error: more than one command block", "error: the command block is empty"]


def test_the_private_runbook_is_in_the_guided_prompt_and_nowhere_in_the_public_stream(plain, fmt, sandboxes, written):
    runbook = "end: all 1 steps hold.\n1: some method"
    (guided,) = play([Job(plain, runbook=runbook)], [written(plain)], fmt, sandboxes)
    assert runbook in fmt.tokenizer.decode(guided.tokens)
    shown = public(guided, plain, fmt)
    assert "notes:" not in fmt.tokenizer.decode(shown.tokens) and runbook not in fmt.tokenizer.decode(shown.tokens)
    assert shown.tokens[shown.mask].tolist() == guided.tokens[guided.mask].tolist()  # the very ids that were sampled
    (unguided,) = play([Job(plain)], [written(plain)], fmt, sandboxes)
    assert shown.tokens.tolist() == unguided.tokens.tolist()


def test_a_sandbox_that_fails_makes_one_invalid_episode(plain, fmt, sandboxes, tmp_path, written):
    import shutil

    broken = tmp_path / "broken"
    shutil.copytree(plain.path, broken)
    (broken / "environment" / "setup.sh").write_text("exit 7\n")
    episodes = play([Job(replace(plain, id="broken", path=broken)), Job(plain)], [written(plain)] * 2, fmt, sandboxes)
    assert not episodes[0].verdict.valid and episodes[0].verdict.cause.startswith("the task cannot be set up: setup.sh of broken exited 7")
    assert episodes[1].verdict.strict


def test_an_agent_that_cuts_off_its_shell_is_graded_by_the_state_it_left(plain, fmt, sandboxes, written):
    cut = "cut.\n```bash\nperl -e 'open(S, \"+<&=61\"); shutdown(S, 2)'\n```"
    episodes = play([Job(plain), Job(plain, attempt=1), Job(plain, attempt=2)], [[cut], [*written(plain), cut], written(plain)], fmt, sandboxes)
    assert [(e.verdict.valid, e.verdict.strict) for e in episodes] == [(True, False), (True, True), (True, True)]
    assert [t.text for t in episodes[0].turns] == [cut]


def test_actions_are_read_as_they_are_written():
    assert parse_action(format_action("look.", "ls -la\ncat a")) == Action("look.", "ls -la\ncat a")
    assert parse_action("x\n```sh\n submit \n```").submits
    assert parse_action("nothing").error


def test_long_observations_keep_head_and_tail():
    text = clip("a" * 500 + "z" * 500, 90)
    assert text.startswith("a" * 60) and text.endswith("z" * 30) and "\n...\n" in text


def test_a_budget_follows_the_clauses(tmp_path):
    task = Task("x", tmp_path, "1. a.\n2. b.\n3. c.\n", "f")
    assert turn_budget(task, 24) == 10 and turn_budget(replace(task, instruction="do it"), 24) == 24
