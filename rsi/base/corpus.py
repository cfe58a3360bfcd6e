"""The pretraining corpus: scripted transcripts of mixed quality, really executed; and the tokenizer made from it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rsi.base.authors import Script, scripted_steps, write
from rsi.harness import HARNESSES
from rsi.harness.engine import Job, RolloutConfig
from rsi.harness.episode import Episode, Turn
from rsi.harness.pool import PolicyRef, RolloutPool
from rsi.persist import WorkDir
from rsi.policy.chat import ChatFormat
from rsi.policy.streams import stream
from rsi.policy.tokenizer import train_tokenizer
from rsi.tasks.load import load_task
from rsi.tasks.suites import corpus_tasks
from rsi.tasks.task import Task
from rsi.tasks.words import WORDS


def make_scripts(tasks: Sequence[Task], seed: int) -> list[Script]:
    return [write(scripted_steps(t.metadata["steps"]), stream(seed, "corpus", t.id)) for t in tasks]


def draft_format(tasks: Sequence[Task], scripts: Sequence[Script], vocab: int) -> ChatFormat:
    """A tokenizer from what is written before anything ran; it carries the scripts through the engine."""
    texts = [t.instruction for t in tasks] + [turn for s in scripts for turn in s.turns]
    return ChatFormat(train_tokenizer(texts, WORDS, vocab))


def run_corpus(count: int, seed: int, vocab: int, pool: RolloutPool, config: RolloutConfig, work: WorkDir) -> tuple[list[Episode], ChatFormat]:
    """Execute `count` transcripts and encode them with the final tokenizer (trained on the observations too).

    Nothing here was sampled, so the transcripts may be encoded again; sampled ids never are.
    """
    folder = work.sub("tasks")
    if not (work.path / "tasks.done").exists():
        for files in corpus_tasks(count, seed):
            files.write(folder)
        (work.path / "tasks.done").touch()
    tasks = [load_task(p) for p in sorted(folder.iterdir())]
    scripts = make_scripts(tasks, seed)
    draft = save_format(draft_format(tasks, scripts, vocab), work.path / "draft")
    jobs = [Job(t, s.harness, 0, s.runbook) for t, s in zip(tasks, scripts, strict=True)]
    episodes = pool.run(jobs, PolicyRef(draft), config, stage="corpus", seed=seed, work=work.sub("episodes"), scripts=[s.turns for s in scripts],
                           label="corpus")
    episodes = [e.with_(extra={"author": s.author}) for e, s in zip(episodes, scripts, strict=True)]
    texts = [e.instruction for e in episodes] + [x for e in episodes for t in e.turns for x in (t.text, t.observation)]
    fmt = ChatFormat(train_tokenizer(texts, WORDS, vocab))
    by_id = {t.id: t for t in tasks}
    return [encode(e, by_id[e.task], fmt) for e in episodes], fmt


def encode(episode: Episode, task: Task, fmt: ChatFormat) -> Episode:
    """The transcript under `fmt`: same text, new ids."""
    tokens = fmt.prompt(HARNESSES[episode.harness](task, episode.runbook).messages())
    start, turns, mask = len(tokens), [], [False] * len(tokens)
    for k, t in enumerate(episode.turns):
        action = fmt.action(t.text)
        turns.append(Turn(len(tokens), len(tokens) + len(action), t.text, t.command, t.observation, t.exit_code, t.timed_out))
        tokens, mask = tokens + action, mask + [True] * len(action)
        if k + 1 < len(episode.turns) or episode.truncated:
            seen = fmt.observation(t.observation)
            tokens, mask = tokens + seen, mask + [False] * len(seen)
    return episode.with_(tokens=np.asarray(tokens, np.int32), mask=np.asarray(mask, bool), logprobs=np.zeros(len(tokens), np.float32),
                         turns=tuple(turns), prompt_length=start, train_temperature=None)


def save_format(fmt: ChatFormat, path: Path) -> Path:
    """A directory that carries only a tokenizer (workers need one to run scripts)."""
    fmt.tokenizer.save_pretrained(path)
    return path
