"""The host's side of a room: one bubblewrap with one small process inside that forks episodes on request."""

from __future__ import annotations

import array
import contextlib
import marshal
import os
import resource
import select
import socket
import subprocess
import tempfile

from rsi.sandbox.environment import AGENT_ENV, VERIFIER_ENV
from rsi.sandbox.launch import DROPPED_ID, INNER, bwrap_command
from rsi.sandbox.protocol import SandboxError

START_TIMEOUT_S = 30.0
MAX_FILES = 4096
MARSHAL = 4  # a format that every Python from 3.4 on reads: the one inside may be another


def memfd(data: bytes) -> int:
    """An anonymous file with `data`, positioned at its start."""
    fd = os.memfd_create("text")
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


class Room:
    """Starting returns at once; `wait_ready` waits. The thread that makes it must outlive it (--die-with-parent).

    When this process ends in any way, SIGKILL included, the room's PID namespace and every episode in it end with it.
    """

    def __init__(self) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft < MAX_FILES:  # four descriptors a sandbox
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, MAX_FILES) if hard >= 0 else MAX_FILES, hard))
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the room)
        self._ready = False
        self._next_id = 0
        boot = {path.name: memfd(path.read_bytes()) for path in sorted(INNER.glob("*.py"))}
        drop = {"user": DROPPED_ID, "group": DROPPED_ID, "extra_groups": ()} if os.geteuid() == 0 else {}
        try:
            # An empty environment: what is not passed cannot leak.
            self._process = subprocess.Popen(
                bwrap_command(boot),
                env={"CONTROL": str(theirs.fileno())},
                pass_fds=(theirs.fileno(), *boot.values()),
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                cwd="/",
                **drop,
            )
        except OSError as error:
            raise SandboxError(f"cannot start bubblewrap: {error}") from error
        finally:
            theirs.close()
            for fd in boot.values():
                os.close(fd)

        with contextlib.suppress(OSError):  # a room that died at once says so when it is asked for something
            self.control.send(marshal.dumps({"spawn": AGENT_ENV, "verify": VERIFIER_ENV}, MARSHAL))

    def alive(self) -> bool:
        return self._process.poll() is None

    def wait_ready(self) -> None:
        """Raises SandboxError with bubblewrap's own words when the room could not be built."""
        if self._ready:
            return
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        said = self.control.recv(1024) if poll.poll(START_TIMEOUT_S * 1000) else b""
        if said != b"ready":
            self.close()
            raise SandboxError(f"the room did not start: {self.words() or 'no answer'}")
        self._ready = True

    def words(self) -> str:
        """What bubblewrap and the process inside wrote to stderr."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace").strip()

    def new_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def ask(self, request: dict, fds: list[int]) -> None:
        """Send a request with descriptors. Raises SandboxError when the room is dead."""
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self.control.sendmsg([marshal.dumps(request, MARSHAL)], ancillary)
        except OSError as error:
            raise SandboxError(f"the room is dead: {self.words() or error}") from error

    def close(self) -> None:
        """End the room and every episode in it, and wait until they are gone. Idempotent."""
        self.control.close()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
