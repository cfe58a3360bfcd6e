"""The host's side of an episode's shell: the wire to it, one command's life, and a loop that serves many at once.

The wire of one sandbox is a socket (command lines in, the shell's status messages out), a memory file with the command's
text, a pipe with everything the commands print, and a socket to the PID 1 that keeps the shell alive, which the agent does
not have: what comes from there is believed, what the shell's socket says may be the agent's own words. A command has ended when
its status arrives, never when a pipe closes: background jobs may hold those open for as long as they like. Between that
and the reading of the output PID 1 waits for quiet (`inner.agent.settle`).
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shlex
import socket
import struct
import time
from collections import deque
from dataclasses import dataclass, field

from rsi.sandbox.output import Capped
from rsi.sandbox.protocol import CommandResult, SandboxError, ShellLost

WIDTH = 8  # shells that work at the same time: more only adds switching on a small machine
TIMEOUT_CODE = 124  # as timeout(1)
PATIENCE_S = 60.0  # for an answer of PID 1, which gives up waiting for quiet long before
# Seconds after the time limit: Ctrl-C, then kill what the command started, then the shell too, then give up.
STAGES = ((0.0, b"I"), (0.5, b"KI"), (2.0, b"W"), (10.0, b""))
RUN, RUN_APART = b". /dev/fd/62 </dev/null\n", b"( . /dev/fd/62 ) </dev/null\n"
# An unclosed `$(` corrupts the memory of an interactive bash 5.2, which then dies at some later command. So text with
# one is parsed in another bash first; the alternative, a shell per command, would keep no state.
RUN_CHECKED = b"BASH_ENV= /bin/bash -O extglob -n /dev/fd/62 </dev/null && . /dev/fd/62 </dev/null\n"
SUBSTITUTION = re.compile(rb"[$<>]\(")
RUN_QUIETLY = b"( . /dev/fd/62 ) </dev/null >/dev/null 2>&1\n"
SYNC = b"builtin printf 'Y\\0' >&61\n"
CODE, LAST_PID = re.compile(rb"\d{1,3}"), re.compile(rb"(?:^| )(\d{1,9})$")
UNREAD = 65536  # bytes kept of a status message that does not end


def run_line(script: bytes) -> bytes:
    """The line that makes the shell run this text."""
    return RUN_CHECKED if SUBSTITUTION.search(script) else RUN


def init_line(cwd: str) -> bytes:
    """First line of every shell: errors to the output pipe, no prompt, no history, a status message for each prompt."""
    return (
        "exec 2>&1; set +o history +H; unset HISTFILE MAILCHECK; PS1= PS2=; "
        'readonly PROMPT_COMMAND=\'{ builtin printf "S%s %s\\0" "$?" "${PWD-}"; builtin read -r __; '
        'builtin printf "P%s\\0" "$__"; } 2>/dev/null >&61 </proc/loadavg\'; '
        'trap \'{ builtin printf "E%s\\0" "${PWD-}"; } 2>/dev/null >&61\' EXIT; '
        f"builtin cd -- {shlex.quote(cwd)} 2>/dev/null\n"
    ).encode(errors="surrogateescape")


@dataclass
class Wire:
    """Descriptors of one sandbox on the host, and what is known of its shell."""

    status: socket.socket
    output: int
    text: int
    control: socket.socket
    cwd: str = "/app"
    unread: bytes = b""
    last_pid: int = 0  # as of the last status: what is numbered above it, the running command started
    pending: int = 1  # status messages still to come before the next command's own (the first prompt's)
    unheard: bytes = b""  # of PID 1's socket, as `unread` of the shell's
    dead: str = ""
    lost: str = ""  # the shell cannot be spoken to any more

    def send(self, line: bytes) -> None:
        try:
            self.status.sendall(line)
        except OSError as error:
            raise ShellLost(f"the shell is gone: {error}") from error

    def close(self) -> None:
        for end in (self.status, self.control):
            end.close()
        for fd in (self.output, self.text):
            os.close(fd)


def _received(end: socket.socket) -> bytes | None:
    """What is there to read; nothing at all is None, an end b""."""
    try:
        return end.recv(65536, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return None
    except OSError:
        return b""


@dataclass
class Job:
    """One command on one wire. `result` is set when it is over: what it did, or why the sandbox died."""

    wire: Wire
    script: bytes
    timeout: float
    line: bytes
    result: CommandResult | SandboxError | None = None
    _out: Capped = field(default_factory=Capped)
    _code: int | None = None  # set when the shell itself ended (exit, exec, set -e)
    _status: int = 0
    _stage: int = 0
    _acks: int = 0
    _synced: bool = True
    _swept: bool = False
    _settling: bool = False
    _started: float = 0.0
    _last_pid: int = 0
    _limit: float = 0.0
    deadline: float = 0.0

    def start(self) -> None:
        """Hand the text and the line to the shell. Raises SandboxError when it is gone."""
        wire = self.wire
        if wire.dead:
            raise SandboxError(wire.dead)
        if wire.lost:
            raise ShellLost(wire.lost)
        self._started, self._last_pid = time.clock_gettime(time.CLOCK_BOOTTIME), wire.last_pid
        self._limit = self.deadline = time.monotonic() + self.timeout
        try:
            os.ftruncate(wire.text, 0)
            os.pwrite(wire.text, self.script.replace(b"\0", b""), 0)
        except OSError as error:
            raise SandboxError(f"the command could not be handed over: {error}") from error
        wire.send(self.line)
        wire.pending += 1

    def on_time(self) -> None:
        """The limit passed: one stage further. Raises SandboxError when nothing helped."""
        if self._settling:
            raise SandboxError("the sandbox's first process does not answer")
        orders = STAGES[self._stage][1]
        if not orders:
            raise SandboxError("the shell could not be stopped after a timeout")
        self._stage += 1
        self.deadline = self._limit + STAGES[self._stage][0]
        for i in range(len(orders)):
            self._order(orders[i : i + 1])

    def _order(self, letter: bytes) -> None:
        with contextlib.suppress(OSError):
            self.wire.control.sendall(letter + struct.pack("di", self._started, self._last_pid))
            self._acks += 1

    def on_output(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._out.add(os.read(self.wire.output, 65536))

    def on_control(self) -> None:
        """Read what PID 1 said, after what the shell said before. Raises SandboxError when PID 1 is gone."""
        data = _received(self.wire.control)
        if data is None:
            return
        if not data:
            raise SandboxError("the sandbox died")
        with contextlib.suppress(ShellLost):
            self.on_status()
        *messages, self.wire.unheard = (self.wire.unheard + data).split(b"\0")
        for message in messages:
            self._order_done(message[:1], message[1:])

    def on_status(self) -> None:
        """Read what the shell said, or somebody in its place. Raises ShellLost when nothing more can come."""
        data = _received(self.wire.status)
        if data is None:
            return
        if not data:
            raise ShellLost("the shell's line was cut")
        *messages, unread = (self.wire.unread + data).split(b"\0")
        self.wire.unread = unread[:UNREAD]
        for message in messages:
            self._message(message[:1], message[1:])

    def _order_done(self, kind: bytes, body: bytes) -> None:
        wire = self.wire
        if kind == b"F":
            raise SandboxError(f"the sandbox could not be built: {body.decode(errors='replace')}")
        if kind == b"A":
            self._acks -= 1
            if self._acks == 0 and self._settling:
                self._end(self._status)
            elif self._acks == 0 and not self._synced:
                wire.send(SYNC)
        elif kind == b"X":
            self._code = int(body)
            wire.pending = 1
            wire.send(init_line(wire.cwd))
            if not self._synced and self._acks == 0:  # the old shell may have taken the line with it
                wire.send(SYNC)

    def _message(self, kind: bytes, body: bytes) -> None:
        wire = self.wire
        if kind == b"Y":
            self._synced = True
            wire.pending = 1
        elif kind == b"E":
            wire.cwd = os.fsdecode(body) or wire.cwd
        elif kind == b"S":
            code, _, cwd = body.partition(b" ")
            wire.cwd = os.fsdecode(cwd) or wire.cwd
            self._status = int(code) if CODE.fullmatch(code) else 255
        elif kind == b"P":  # the end of a status: /proc/loadavg, whose last field is the last process id given out
            if found := LAST_PID.search(body):
                wire.last_pid = int(found[1])
            wire.pending -= 1
            if wire.pending > 0 or not self._synced or self._settling:
                return
            if self._stage and not self._swept:
                # Kill what the command left behind, then make sure that no late status passes for the next command's.
                self._swept, self._synced = True, False
                self._order(b"K")
            else:  # it is over, swept if it was late; what it left in the background may still have something to say
                self._settling, self.deadline = True, time.monotonic() + PATIENCE_S
                self._order(b"Q")

    def _end(self, code: int) -> None:
        """Drain what was printed before the status, but no more than a pipe holds: a background job may never stop."""
        for _ in range(16):
            try:
                chunk = os.read(self.wire.output, 65536)
            except BlockingIOError:
                break
            if not chunk:
                break
            self._out.add(chunk)
        code = TIMEOUT_CODE if self._stage else (code if self._code is None else self._code)
        self.result = CommandResult(code, self._out.text(), self._out.truncated, bool(self._stage))


def serve(jobs: list[Job]) -> None:
    """Run all jobs, WIDTH at a time, in one loop. Every job then has its result; a dead sandbox is marked dead."""
    waiting, handlers, running = deque(jobs), {}, {}
    with select.epoll() as poll:

        def finish(job: Job, error: SandboxError | None = None) -> None:
            if error is not None:
                job.result = error
                if isinstance(error, ShellLost):
                    job.wire.lost = str(error)
                else:
                    job.wire.dead = str(error)
            if running.pop(id(job), None) is not None:
                for fd in (job.wire.control.fileno(), job.wire.status.fileno(), job.wire.output):
                    del handlers[fd]
                    poll.unregister(fd)

        def guarded(job: Job, action) -> None:
            try:
                action()
            except SandboxError as error:
                finish(job, error)
            else:
                if job.result is not None:
                    finish(job)

        while waiting or running:
            while waiting and len(running) < WIDTH:
                job = waiting.popleft()
                try:
                    job.start()
                except SandboxError as error:
                    finish(job, error)
                    continue
                running[id(job)] = job
                wire = job.wire
                for fd, action in ((wire.control.fileno(), job.on_control), (wire.status.fileno(), job.on_status), (wire.output, job.on_output)):
                    handlers[fd] = (job, action)
                    poll.register(fd, select.EPOLLIN)
            if not running:
                continue
            patience = max(0.0, min(job.deadline for job in running.values()) - time.monotonic())
            for fd, _ in poll.poll(patience):
                if fd in handlers:
                    guarded(*handlers[fd])
            now = time.monotonic()
            for job in [job for job in running.values() if job.deadline <= now]:
                guarded(job, job.on_time)
