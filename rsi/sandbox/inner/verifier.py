"""The verifier's own PID namespace and mounts on top of the agent's files, and the file helper. Both end alone."""

import os
import select
import stat
import struct
from time import monotonic as now

from . import agent, kernel

REPORTS = ("reward.json", "reward.txt", "ctrf.json")
MAX_REPORT, TAIL = 1 << 22, 2048
JOIN = kernel.NEWUSER | kernel.NEWNS | kernel.NEWNET | kernel.NEWIPC


def pack(fields: list) -> bytes:
    """Length-prefixed fields; a missing one has length -1."""
    return b"".join(struct.pack("i", -1) if f is None else struct.pack("i", len(f)) + f for f in fields)


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def read_report(path: str):
    """A regular file's bytes, None where there is none. Never follows a link, never blocks on a pipe."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        return os.read(fd, MAX_REPORT)
    finally:
        os.close(fd)


def build(files: list) -> None:
    safe = kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.mount("tmpfs", "/logs", "tmpfs", safe, "size=16m,nr_inodes=4096,mode=700")
    for name in ("verifier", "home", "tmp"):
        os.mkdir("/logs/" + name)
    kernel.mount("tmpfs", "/tests", "tmpfs", safe, "size=64m,mode=755")
    for path, mode, data in files:
        path = "/tests/" + path
        os.makedirs(os.path.dirname(path), exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        write_all(fd, data)
        os.close(fd)
    kernel.mount("", "/tests", "", kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | safe)
    agent.private_proc()
    os.chdir("/app")


def run_tests(env: dict, timeout: float):
    """(exit code, timed out, the tail of the output). Everything in the namespace is dead afterwards."""
    reader, writer = os.pipe()
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, writer, 1),
        (os.POSIX_SPAWN_DUP2, writer, 2),
    ]
    pid = os.posix_spawn(
        "/bin/bash",
        ["bash", "/tests/test.sh"],
        env,
        file_actions=actions,
        setsid=True,
        setsigdef=agent.DEFAULTS,
        setsigmask=[],
    )
    os.close(writer)
    ended, tail, deadline = os.pidfd_open(pid), b"", now() + timeout
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    poll.register(ended, select.POLLIN)
    while True:
        ready = [fd for fd, _ in poll.poll(max(0.0, deadline - now()) * 1000)]
        if reader in ready:
            chunk = os.read(reader, 65536)
            tail = (tail + chunk)[-TAIL:]
            if not chunk:
                poll.unregister(reader)
        elif ended in ready:
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            break
        if now() >= deadline:
            code = None
            break
    agent.kill_all()
    return (code if code is None or code >= 0 else 128 - code), code is None, tail


def verify(request: dict, files: list, result: int) -> None:
    """PID 1 of the verifier: sends exit code, timed out, output tail and the three reports; or F and why."""
    try:
        build(files)
        kernel.limit(request["processes"], request["memory"], request["file_size"])
        kernel.drop_everything()
        code, timed_out, tail = run_tests(request["env"], request["timeout"])
        reports = [read_report("/logs/verifier/" + name) for name in REPORTS]
        answer = [b"%d" % (-1 if code is None else code), b"%d" % timed_out, tail, *reports]
    except OSError as error:
        answer = [b"F", str(error).encode()]
    write_all(result, pack(answer))


def transfer(request: dict, data: bytes, result: int) -> None:
    """Write or read one file of the agent's machine with the agent's rights, from outside its PID namespace."""
    try:
        kernel.drop_everything()
        os.chdir("/app")
        path = request["path"]
        if request["op"] == "put":
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
            write_all(fd, data)
            answer = [b"0"]
        else:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(22, "not a regular file")
            chunks = iter(lambda: os.read(fd, 1 << 20), b"")
            answer = [b"0", b"".join(chunks)]
    except OSError as error:
        answer = [b"E", b"%d" % (error.errno or 5), (error.strerror or "").encode()]
    write_all(result, pack(answer))
