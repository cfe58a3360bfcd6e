"""Chunks of episodes over worker processes: stored ones are read again, foreign ones refused; what a batch is drawn from."""

import shutil
from dataclasses import replace

import pytest

import rsi.harness.pool as rollouts
from rsi.base.corpus import save_format
from rsi.harness.engine import Job, RolloutConfig
from rsi.harness.evaluate import evaluate
from rsi.harness.jobs import choose, jobs_for
from rsi.harness.pool import ForeignChunk, PolicyRef, RolloutPool, chunked
from rsi.harness.store import read_episodes
from rsi.persist import WorkDir
from rsi.policy.model import Policy, new_base, save_policy
from rsi.policy.sampling import Sampling
from rsi.sandbox.bubblewrap import SandboxPool

CONFIG = RolloutConfig(context=512, turn_tokens=80, max_turns=3)


@pytest.fixture(scope="module")
def pool():
    with RolloutPool(workers=1, chunk=4) as pool:
        yield pool


@pytest.fixture(scope="module")
def tasks(corpus_of_tasks):
    return [t for t in corpus_of_tasks if len(t.metadata["steps"]) == 1 and t.family != "reconstruct"][:3]


def test_stored_chunks_are_read_and_those_of_other_jobs_refused(tasks, pool, fmt, written, claim, tmp_path):
    ref, work = PolicyRef(save_format(fmt, tmp_path / "format")), tmp_path / "work"
    jobs = [Job(t) for t in tasks]
    scripts = [[*written(t), claim] for t in tasks]

    def run(jobs, stage="a", seed=0):
        return pool.run(jobs, ref, CONFIG, stage=stage, seed=seed, work=work, scripts=scripts[: len(jobs)])

    first = run(jobs)
    assert [e.task for e in first] == [t.id for t in tasks] and all(e.verdict.strict for e in first)
    stored = {p: p.stat().st_mtime_ns for p in work.iterdir()}
    assert len(stored) == len(chunked(jobs, 4)) == 2
    assert [e.tokens.tolist() for e in run(jobs)] == [e.tokens.tolist() for e in first]
    assert {p: p.stat().st_mtime_ns for p in work.iterdir()} == stored
    remedy = rf"{work}/chunk-000\d.parquet: not a chunk of these jobs: .*; delete the directory {work} and start"
    foreign = [replace(jobs[0], attempt=1)], [replace(jobs[0], runbook="end: x")], [replace(jobs[0], harness="reflect")], [Job(replace(tasks[0], id="other"))]
    for (job,) in foreign:
        with pytest.raises(ForeignChunk, match=remedy):
            run([job, *jobs[1:]])
    with pytest.raises(ForeignChunk, match=remedy):
        run(jobs, stage="b")
    with pytest.raises(ForeignChunk, match=remedy):
        run(jobs, seed=1)
    with pytest.raises(ForeignChunk, match=r"it holds \d episodes, not 1|episode 0 is"):
        run(jobs[:2])
    (work / "chunk-0000.parquet").write_bytes((work / "chunk-0001.parquet").read_bytes()[:100])
    with pytest.raises(ForeignChunk, match="chunk-0000.parquet: not a chunk of episodes .*; delete the file"):
        run(jobs)


def test_two_samplings_share_neither_ids_nor_random_streams(tasks, pool, fmt, tmp_path):
    """At one temperature under two names: had they one stream, they would say the same."""
    model = new_base(fmt.tokenizer, hidden=16, layers=1, heads=2, kv_heads=1, head_dim=8, mlp=32, positions=512, seed=0).eval()
    actor, work = save_policy(Policy(model, fmt), tmp_path / "actor"), WorkDir("eval", root=tmp_path)
    cold, again, warm = (evaluate([(t, 2) for t in tasks], actor, pool, CONFIG, Sampling(1.0), stage="rsr1", seed=3, work=work, name=name)
                         for name in ("cold", "cold", "warm"))
    assert [e.id for e in cold][:2] == [f"rsr1-cold-s3/{tasks[0].id}/terminus/{k}" for k in range(2)]
    assert [e.id for e in again] == [e.id for e in cold]
    assert not {e.id for e in cold} & {e.id for e in warm}
    assert all(a.tokens.tolist() != b.tokens.tolist() for a, b in zip(cold, warm, strict=True))


def test_a_task_comes_again_only_when_all_were_used_and_then_as_another_attempt(tasks):
    assert [t.id for t in choose(tasks, 2, (0, "a"))] == [t.id for t in choose(tasks, 2, (0, "a"))]
    drawn = choose(tasks, 7, (0, "a"))
    assert {t.id for t in drawn[:3]} == {t.id for t in drawn[3:6]} == {t.id for t in tasks}
    assert len({(j.task.id, j.attempt) for j in jobs_for(drawn)}) == 7
    assert {tuple(t.id for t in choose(tasks, 3, (0, s))) for s in range(20)} != {tuple(t.id for t in drawn[:3])}


def test_an_episode_whose_sandbox_failed_is_run_once_more_and_one_whose_task_is_broken_is_not(tasks, fmt, written, claim, tmp_path, monkeypatch):
    class FirstFails(SandboxPool):
        taken = 0

        def take(self):
            sandbox, self.taken = super().take(), self.taken + 1
            if self.taken == 1:
                sandbox.close()
            return sandbox

    broken = tmp_path / "broken"
    shutil.copytree(tasks[1].path, broken)
    (broken / "environment" / "setup.sh").write_text("exit 7\n")
    jobs = [Job(tasks[0]), Job(replace(tasks[1], path=broken)), Job(tasks[2])]
    worker = rollouts._Worker("bubblewrap", 1)
    worker.sandboxes = FirstFails()
    monkeypatch.setattr(rollouts, "_worker", worker)
    ref = PolicyRef(save_format(fmt, tmp_path / "format"))
    with worker.sandboxes as sandboxes:
        episodes = read_episodes(rollouts._run(ref, [[*written(j.task), claim] for j in jobs], jobs, CONFIG, "a", 0, tmp_path / "out.parquet"))
    assert [e.verdict.strict for e in episodes] == [True, False, True] and sandboxes.taken == 4
    assert episodes[0].extra["retried"].startswith("infrastructure") and [*episodes[1].extra, *episodes[2].extra] == []
    assert episodes[1].verdict.cause.startswith("the task cannot be set up") and not episodes[1].verdict.valid
