"""Many chunks of episodes over a few worker processes, each chunk persisted as it ends, so that a killed stage resumes.

A chunk is the unit of parallelism and of persistence. Its episodes depend on their keys, the weights and the chunk's own
composition, never on which worker ran it or when: the same jobs and chunk size give the same bytes. Only an episode whose sandbox
failed and that was run again (`extra["retried"]`) ran in another composition.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from tqdm import tqdm

from rsi.harness.engine import Job, RolloutConfig, run_batch
from rsi.harness.episode import Episode
from rsi.harness.scripted import ScriptedSampler
from rsi.harness.store import read_episodes, write_episodes
from rsi.policy.chat import ChatFormat
from rsi.policy.model import load_format, load_policy
from rsi.sandbox.verdict import retryable

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class PolicyRef:
    """A checkpoint directory, and optionally newer weights of the same model in a safetensors file."""

    path: Path
    weights: Path | None = None


class _Worker:
    """State of one worker process: its sandboxes, the policy it last used and the weights it last loaded."""

    def __init__(self, backend: str, ahead: int):
        from rsi.sandbox import make_pool

        torch.set_num_threads(1)
        self.sandboxes, self.ahead = make_pool(backend), ahead
        self.path: Path | None = None
        self.weights: Path | None = None
        self.formats: dict[Path, ChatFormat] = {}

    def format(self, path: Path) -> ChatFormat:
        """The chat format alone: scripts need no model."""
        if path not in self.formats:
            self.formats[path] = load_format(path)
        return self.formats[path]

    def sampler(self, ref: PolicyRef):
        if ref.path != self.path:
            self.policy = load_policy(ref.path)
            self.sampled_from, self.path, self.weights = self.policy.sampler(), ref.path, None
        if ref.weights != self.weights:
            if ref.weights is None:
                self.policy = load_policy(ref.path)
            else:
                load_weights(self.policy.model, ref.weights)
            self.sampled_from.load(self.policy.model)
            self.weights = ref.weights
        return self.sampled_from


_worker: _Worker | None = None


def load_weights(model, path: Path) -> None:
    """Load trained parameters (all, or the adapter's alone) into `model`. Raises RuntimeError for an unknown name."""
    state = load_file(path)
    missing, unexpected = model.load_state_dict(state, strict=False)
    if unexpected:
        raise RuntimeError(f"{path}: parameters {unexpected[:3]} are not in the model")


def _begin(backend: str, ahead: int, parent: int) -> None:
    """A worker dies with its parent, also when that is killed: nothing keeps running behind a dead stage."""
    global _worker
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _worker = _Worker(backend, ahead)


def _run(ref: PolicyRef, scripts, jobs: Sequence[Job], config: RolloutConfig, stage: str, seed: int, out: Path) -> Path:
    """One chunk to a file. Episodes whose sandbox failed are run once more from the same random streams (`extra["retried"]`)."""
    episodes: list[Episode | None] = [None] * len(jobs)
    todo = list(range(len(jobs)))
    for attempt in range(2):
        if scripts is not None:
            fmt = _worker.format(ref.path)
            sampler = ScriptedSampler([scripts[i] for i in todo], fmt)
        else:
            sampler = _worker.sampler(ref)
            fmt = _worker.policy.format
        for i, e in zip(todo, run_batch([jobs[i] for i in todo], sampler, fmt, _worker.sandboxes, config, stage=stage, seed=seed), strict=True):
            episodes[i] = e.with_(extra={**e.extra, "retried": episodes[i].verdict.cause}) if attempt else e
        todo = [i for i in todo if retryable(episodes[i].verdict)]
        if not todo:
            break
    _worker.sandboxes.prestart(_worker.ahead)
    return write_episodes(out, episodes)


def chunked(jobs: Sequence[Job], size: int) -> list[list[int]]:
    """Indices of each chunk: tasks of like length together, long ones first; a small batch is dealt out to two even chunks."""
    order = sorted(range(len(jobs)), key=lambda i: (-len(jobs[i].task.instruction), i))
    if len(jobs) <= 2 * size:
        return [part for part in (order[::2], order[1::2]) if part]
    return [order[i : i + size] for i in range(0, len(order), size)]


class ForeignChunk(RuntimeError):
    """A stored chunk holds other episodes than those that were to run; names the file, what differs and the remedy."""


def _checked(file: Path, jobs: Sequence[Job], stage: str, seed: int) -> list[Episode]:
    """The episodes of one chunk, which must be those of `jobs`. Raises ForeignChunk."""
    try:
        episodes = read_episodes(file)
    except (KeyError, ValueError) as e:  # Arrow's and an episode's own errors are ValueErrors
        raise ForeignChunk(f"{file}: not a chunk of episodes ({type(e).__name__}: {e}); delete the file and start the stage again") from e
    found = [((e.stage, e.seed), e.suite, e.task, e.harness, e.attempt, e.instruction, e.runbook) for e in episodes]
    wanted = [((stage, seed), j.task.suite, j.task.id, j.harness, j.attempt, j.task.instruction, j.runbook) for j in jobs]
    if found != wanted:
        k = next((k for k, (a, b) in enumerate(zip(found, wanted, strict=False)) if a != b), None)
        differs = f"episode {k} is {found[k]}, not {wanted[k]}" if k is not None else f"it holds {len(found)} episodes, not {len(wanted)}"
        raise ForeignChunk(f"{file}: not a chunk of these jobs: {differs}; delete the directory {file.parent} and start the stage again")
    return episodes


class RolloutPool:
    """Worker processes for rollouts. Use as a context manager; forks, so that torch is imported once a stage."""

    def __init__(self, workers: int = 2, backend: str = "bubblewrap", chunk: int = 32):
        self.chunk = chunk
        self.executor = ProcessPoolExecutor(workers, multiprocessing.get_context("fork"), _begin, (backend, chunk, os.getpid()))

    def __enter__(self) -> RolloutPool:
        return self

    def __exit__(self, *exc) -> None:
        self.executor.shutdown(wait=True, cancel_futures=True)

    def run(self, jobs: Sequence[Job], policy: PolicyRef, config: RolloutConfig, *, stage: str, seed: int, work: Path,
            scripts: Sequence[Sequence[str]] | None = None, label: str = "", progress: Callable = tqdm) -> list[Episode]:
        """Run all jobs and return their episodes in order. Chunks already in `work` are read, not run again.

        `work` must belong to these very jobs, weights and settings (see `rsi.persist.WorkDir`). Raises ForeignChunk, naming the
        file, when a chunk found there is of other jobs.
        """
        work = Path(work)
        chunks = chunked(jobs, self.chunk)
        files = [work / f"chunk-{k:04d}.parquet" for k in range(len(chunks))]
        futures = [
            self.executor.submit(_run, policy, [scripts[i] for i in chunk] if scripts is not None else None,
                                 [jobs[i] for i in chunk], config, stage, seed, file)
            for chunk, file in zip(chunks, files, strict=True) if not file.exists()]
        for future in progress(as_completed(futures), total=len(futures), desc=label or stage, leave=False, disable=None):
            future.result()
        episodes: list[Episode | None] = [None] * len(jobs)
        for chunk, file in zip(chunks, files, strict=True):
            for i, episode in zip(chunk, _checked(file, [jobs[i] for i in chunk], stage, seed), strict=True):
                episodes[i] = episode
        return episodes
