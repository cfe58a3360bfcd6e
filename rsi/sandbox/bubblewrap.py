"""The default sandbox: episodes as namespaces inside one bubblewrap room, many driven at once from one thread."""

from __future__ import annotations

import contextlib
import os
import socket
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from rsi.sandbox.protocol import CommandResult, SandboxError, SetupError, Verdict
from rsi.sandbox.room import Room, memfd
from rsi.sandbox.session import RUN_APART, RUN_QUIETLY, WIDTH, Job, Wire, init_line, run_line, serve
from rsi.sandbox.verdict import invalid, parse_verdict
from rsi.sandbox.verification import gather, pack_tree
from rsi.tasks.task import Task

SETUP_TIMEOUT_S = 60.0
FILE_TIMEOUT_S = 30.0
MAX_PROCESSES = 64
# The agent may have used up its processes; the limit counts both, so the verifier's is higher.
VERIFIER_PROCESSES = 128
# What a sandbox is built with before its task is known.
MEMORY_MB, STORAGE_MB, INODES = 256, 64, 16384


class BubblewrapSandbox:
    """One episode. Spawning returns at once; `open` waits. Everything inside ends with `close`, with the room, and when
    the descriptors held here are closed in any other way."""

    def __init__(self, room: Room, memory_mb: int = MEMORY_MB, storage_mb: int = STORAGE_MB) -> None:
        self._room, self._closed = room, False
        self._task: Task | None = None
        self._spawn(memory_mb, storage_mb)

    def _spawn(self, memory_mb: int, storage_mb: int) -> None:
        self._key, self._sizes = self._room.new_id(), (memory_mb, storage_mb)
        self._wire, theirs = _wire()
        try:
            self._room.ask(
                {
                    "op": "spawn",
                    "id": self._key,
                    "processes": MAX_PROCESSES,
                    "memory": memory_mb << 20,
                    "file_size": storage_mb << 20,
                    "storage": storage_mb << 20,
                    "inodes": INODES,
                },
                theirs,
            )
            self._wire.send(init_line("/app"))
        except SandboxError as error:
            self._wire.dead = str(error)
        finally:
            for fd in theirs:
                os.close(fd)

    def _fit(self, task: Task) -> None:
        """What was started ahead has the usual sizes; a task that wants others gets a new start."""
        self._task = task
        if self._sizes != (task.memory_mb, task.storage_mb) and not self._closed:
            self._end()
            self._spawn(task.memory_mb, task.storage_mb)

    def open(self, task: Task) -> None:
        """Run the task's setup script. Raises SetupError when it fails, SandboxError when the sandbox does not start."""
        _raise(open_many([self], [task])[0])

    def run(self, command: str, timeout: float) -> CommandResult:
        """Run one command block in the episode's shell. Raises SandboxError when the sandbox is dead."""
        return _raise(run_many([self], [command], timeout)[0])

    def put(self, path: str, data: bytes) -> None:
        """Write a file as the agent would, relative to /app. Raises OSError for the path, SandboxError otherwise."""
        self._transfer("put", path, data)

    def get(self, path: str) -> bytes:
        """Read a regular file as the agent would. Raises OSError for the path, SandboxError otherwise."""
        return self._transfer("get", path, b"")[1] or b""

    def verify(self, *, final: bool = True) -> Verdict:
        """Run tests/test.sh apart from the agent, whose processes go on: its servers are part of its end state."""
        return verify_many([self], final=final)[0]

    def close(self) -> None:
        """Kill everything inside. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._wire.dead = self._wire.dead or "the sandbox is closed"
        self._end()

    def _end(self) -> None:
        self._wire.close()  # PID 1 ends at this; the request is for a PID 1 that does not
        with contextlib.suppress(SandboxError):
            self._room.ask({"op": "close", "id": self._key}, [])

    def _request(self, request: dict, data: bytes) -> int:
        """Ask the room to do something in this episode; the pipe on which the answer comes."""
        if self._wire.dead:
            raise SandboxError(self._wire.dead)
        reader, writer = os.pipe()
        payload = memfd(data)
        try:
            self._room.ask({"id": self._key, **request}, [writer, payload])
        except SandboxError:
            os.close(reader)
            raise
        finally:
            os.close(writer)
            os.close(payload)
        return reader

    def _start_verifier(self) -> tuple[int, float]:
        task = self._task
        if task is None:
            raise SandboxError("no task was opened")
        try:
            tests = pack_tree(task.tests_dir)
        except OSError as error:
            raise SandboxError(f"cannot read the tests: {error}") from error
        request = {
            "op": "verify",
            "timeout": task.verifier_timeout_s,
            "processes": VERIFIER_PROCESSES,
            "memory": max(task.memory_mb, MEMORY_MB) << 20,
            "file_size": max(task.storage_mb, STORAGE_MB) << 20,
        }
        return self._request(request, tests), task.verifier_timeout_s

    def _transfer(self, op: str, path: str, data: bytes) -> list[bytes | None]:
        answer = _raise(gather([lambda: (self._request({"op": op, "path": path}, data), FILE_TIMEOUT_S)], 1)[0])
        if answer[0] == b"E":
            raise OSError(int(answer[1]), (answer[2] or b"").decode(), path)
        return answer


def _wire() -> tuple[Wire, list[int]]:
    """The host's ends of a new sandbox's wire, and the descriptors to send inside (socket, output, text, control)."""
    status, their_status = socket.socketpair()
    control, their_control = socket.socketpair()
    reader, writer = os.pipe()
    text = memfd(b"")
    status.setblocking(False)
    os.set_blocking(reader, False)
    theirs = [their_status.detach(), writer, os.dup(text), their_control.detach()]
    return Wire(status, reader, text, control), theirs


def _raise(result):
    if isinstance(result, Exception):
        raise result
    return result


def refusal(task: Task) -> str | None:
    """Why this backend cannot run `task`, with the remedy; None when it can. An image's content would be missing without a word."""
    if task.setup_script.is_file() or not task.setup_script.with_name("Dockerfile").is_file():
        return None
    return (
        f"task {task.id}: it starts from an image (environment/Dockerfile), and the bubblewrap sandbox builds none; write what the "
        "image adds to /app as environment/setup.sh (run in /app with the host's tools), or leave the task out"
    )


def open_many(sandboxes: Sequence[BubblewrapSandbox], tasks: Sequence[Task]) -> list[SandboxError | None]:
    """Open each sandbox with its task; None, or the error that this one met."""
    errors: list[SandboxError | None] = [SetupError(reason) if (reason := refusal(task)) else None for task in tasks]
    for script, line in (("setup.sh", RUN_APART), ("start.sh", RUN_QUIETLY)):
        jobs = {}
        for i, (sandbox, task) in enumerate(zip(sandboxes, tasks, strict=True)):
            if script == "setup.sh":
                sandbox._fit(task)
            path: Path = task.path / "environment" / script
            if errors[i] is None and (script == "setup.sh" or path.exists()):
                text = path.read_bytes() if path.exists() else b""
                jobs[i] = Job(sandbox._wire, text, SETUP_TIMEOUT_S, line)
        serve(list(jobs.values()))
        for i, job in jobs.items():
            result = job.result
            if isinstance(result, SandboxError):
                errors[i] = _explain(sandboxes[i], result)
            elif result.exit_code != 0:
                words = result.output[-500:].strip()
                errors[i] = SetupError(f"{script} of {tasks[i].id} exited {result.exit_code}: {words}")
    return errors


def _explain(sandbox: BubblewrapSandbox, error: SandboxError) -> SandboxError:
    """A room that never started says why only on its stderr."""
    try:
        sandbox._room.wait_ready()
    except SandboxError as reason:
        return reason
    return error


def run_many(
    sandboxes: Sequence[BubblewrapSandbox], commands: Sequence[str], timeout: float
) -> list[CommandResult | SandboxError]:
    """One command in each sandbox, several at a time; a SandboxError in the place of a sandbox that is dead."""
    texts = [command.encode(errors="surrogateescape") for command in commands]
    jobs = [Job(box._wire, text, timeout, run_line(text)) for box, text in zip(sandboxes, texts, strict=True)]
    serve(jobs)
    return [job.result for job in jobs]


def verify_many(sandboxes: Sequence[BubblewrapSandbox], *, final: bool = True) -> list[Verdict]:
    """Verify each sandbox's task, several at a time. Never raises for what agents or verifiers did.

    `final` changes nothing here: verifying leaves no trace in the agent's processes or files either way.
    """
    answers = gather([sandbox._start_verifier for sandbox in sandboxes], WIDTH)
    return [_judge(sandbox._task, answer) for sandbox, answer in zip(sandboxes, answers, strict=True)]


def _judge(task: Task | None, answer: list[bytes | None] | SandboxError) -> Verdict:
    if isinstance(answer, SandboxError):
        return invalid("sandbox", str(answer))
    code, timed_out, tail, *reports = answer
    if timed_out == b"1":
        return invalid("verifier_timeout", f"{task.verifier_timeout_s:g} s")
    verdict = parse_verdict(*reports, task.checks)
    if not verdict.valid and reports[0] is None and reports[1] is None:
        last = (tail or b"").decode(errors="replace").strip().rpartition("\n")[2]
        return invalid("no_reward", f"test.sh exited {int(code)}" + (f", its last words: {last}" if last else ""))
    return verdict


class SandboxPool:
    """Sandboxes of one room, started ahead. For one long-lived thread: the room dies with the thread that made it."""

    def __init__(self, limit: int = 96) -> None:
        self.limit = limit
        self._room: Room | None = None
        self._ahead: deque[BubblewrapSandbox] = deque()

    def _living_room(self) -> Room:
        if self._room is not None and not self._room.alive():
            self.close()
        if self._room is None:
            self._room = Room()
        return self._room

    def prestart(self, n: int) -> None:
        """Have up to `n` sandboxes (never more than the limit) on their way; returns at once."""
        room = self._living_room()
        while len(self._ahead) < min(n, self.limit):
            self._ahead.append(BubblewrapSandbox(room))

    def take(self) -> BubblewrapSandbox:
        """A sandbox for the caller to open and close. Raises SandboxError when bubblewrap cannot be started."""
        room = self._living_room()
        return self._ahead.popleft() if self._ahead else BubblewrapSandbox(room)

    def close(self) -> None:
        """End the room with every sandbox in it, taken or not. Idempotent."""
        while self._ahead:
            self._ahead.popleft().close()
        if self._room is not None:
            self._room.close()
            self._room = None

    def __enter__(self) -> SandboxPool:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
