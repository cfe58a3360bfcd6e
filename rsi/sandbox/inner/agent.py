"""PID 1 of an agent's namespace: builds the episode's private machine, keeps its shell alive, kills what must end."""

import os
import select
import signal
import socket
import struct
from contextlib import suppress
from fcntl import ioctl
from termios import FIONREAD
from time import monotonic, sleep

from . import kernel

STATUS_FD, COMMAND_FD = 61, 62  # out of the way of what scripts open by number
SHELL = ["bash", "--noprofile", "--norc", "--noediting", "-i"]
DEFAULTS = [signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGCHLD, signal.SIGUSR1]
FIXED = "/root/"  # in the room: an episode mounts its own home over it, so that nobody sees where these files come from
ORDER = 1 + struct.calcsize("di")
TICKS = os.sysconf("SC_CLK_TCK")
SETTLE_S, SETTLE_TICKS = 3.0, TICKS // 5


def loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        ioctl(sock, 0x8914, struct.pack("16sH14x", b"lo", 0x49))  # SIOCSIFFLAGS: UP | LOOPBACK | RUNNING


def build(request: dict) -> None:
    """One sized tmpfs carries everything writable; /app hides its root by being mounted over it last."""
    safe = kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.map_root()
    loopback_up()
    private_proc()
    for name in os.listdir(FIXED):
        kernel.mount(FIXED + name, "/proc/" + name, "", kernel.MS_BIND)
    size = f"size={request['storage']},nr_inodes={request['inodes']},mode=755"
    kernel.mount("tmpfs", "/app", "tmpfs", safe, size)
    umask = os.umask(0)
    for part, target, mode in (
        ("tmp", "/tmp", 0o1777),
        ("home", "/root", 0o700),
        ("vartmp", "/var/tmp", 0o1777),
        ("shm", "/dev/shm", 0o1777),
        ("run", "/run", 0o755),
        ("app", "/app", 0o755),
    ):
        os.mkdir("/app/" + part, mode)
        kernel.mount("/app/" + part, target, "", kernel.MS_BIND)
    os.umask(umask)
    terminals = kernel.MS_NOSUID | kernel.MS_NOEXEC
    kernel.mount("devpts", "/dev/pts", "devpts", terminals, "newinstance,ptmxmode=0666,mode=620")
    os.chdir("/app")


def private_proc() -> None:
    kernel.mount("proc", "/proc", "proc", kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)


def spawn_shell(sock: int, out: int, text: int, env: dict) -> int:
    actions = [
        (os.POSIX_SPAWN_DUP2, sock, 0),
        (os.POSIX_SPAWN_DUP2, out, 1),
        (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0),  # it complains about having no terminal
        (os.POSIX_SPAWN_DUP2, sock, STATUS_FD),
        (os.POSIX_SPAWN_DUP2, text, COMMAND_FD),
    ]
    return os.posix_spawn("/bin/bash", SHELL, env, file_actions=actions, setsid=True, setsigdef=DEFAULTS, setsigmask=[])


def new_processes(shell: int, since: float, last_pid: int) -> list:
    """Processes that the running command started: younger than it, and not below an older background job.

    The kernel tells start times in ticks of 10 ms only; within the command's first tick the process ids decide.
    """
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", errors="replace") as f:  # names are bytes, cut at 15
                    fields = f.read().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] in "ZX":  # dead already
                continue
            table[int(name)] = (int(fields[1]), (int(fields[19]), int(name)) > (int(since * TICKS), last_pid))

    def started_by_command(pid: int) -> bool:
        while pid not in (0, 1, shell):
            parent, young = table.get(pid, (1, True))
            if not young:
                return False
            pid = parent
        return True

    return [pid for pid in table if pid not in (1, shell) and started_by_command(pid)]


def others(shell: int) -> dict:
    """{pid: (state, context switches, CPU ticks)} of everything but this process and the shell; the dead are left out."""
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in (1, shell):
            try:
                with open(f"/proc/{name}/stat", errors="replace") as stat, open(f"/proc/{name}/status", errors="replace") as status:
                    fields = stat.read().rpartition(")")[2].split()
                    switches = [line.split()[1] for line in status if "ctxt_switches" in line]
            except (OSError, IndexError):  # it ended meanwhile
                continue
            if fields[0] not in "ZX":
                table[int(name)] = (fields[0], switches, int(fields[11]) + int(fields[12]))
    return table


def settle(shell: int, out: int) -> None:
    """Wait until what the command left in the background has said what it says now: nothing runs, or wants to, and nothing ran
    between two looks, and all that was printed has been read (else a job may wait for room in the pipe). So an observation
    does not depend on who was faster. Given up after 0.2 s of CPU, or 3 s."""
    before, first, end = None, None, monotonic() + SETTLE_S
    while monotonic() < end:
        table = others(shell)
        if not table:
            return
        unread = struct.unpack("i", ioctl(out, FIONREAD, bytes(4)))[0]
        if table == before and not unread and not any(state in "RD" for state, _, _ in table.values()):
            return
        used = sum(ticks for _, _, ticks in table.values())
        first = used if first is None else first
        if used - first > SETTLE_TICKS:
            return
        before = table
        sleep(0.001)


def kill(pid: int, sig: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, sig)


def kill_all() -> None:
    """Everything in this namespace but this process."""
    kill(-1, signal.SIGKILL)


def obey(order: bytes, shell: int, out: int) -> None:
    """An order is a letter, the command's start and the last process id before it: I interrupt, K kill what the command
    started, W kill its shell as well, Q wait for quiet."""
    stage, (since, last_pid) = order[:1], struct.unpack("di", order[1:])
    if stage == b"Q":
        settle(shell, out)
    if stage in b"KW":
        for _ in range(500):  # a fork bomb needs several sweeps, and a busy machine lets the killed linger
            victims = new_processes(shell, since, last_pid)
            for pid in victims:
                kill(pid, signal.SIGKILL)
            if not victims or stage == b"W":
                break
            sleep(0.002)
    if stage == b"I":
        kill(-shell, signal.SIGINT)
    if stage == b"W":
        kill_all()


def supervise(control: int, sock: int, out: int, text: int, env: dict) -> None:
    events = kernel.child_events()
    shell = spawn_shell(sock, out, text, env)
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(events, select.POLLIN)
    while True:
        ready = {fd for fd, _ in poll.poll()}
        if control in ready:
            order = os.read(control, ORDER)
            if len(order) < ORDER:  # the host closed the episode
                return
            obey(order, shell, out)
        if events in ready:
            os.read(events, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid == shell:
                code = os.waitstatus_to_exitcode(status)
                os.write(control, b"X%d\0" % (code if code >= 0 else 128 - code))
                shell = spawn_shell(sock, out, text, env)
        if control in ready:  # after the reaping: a shell that died meanwhile is the old command's news, not the next one's
            os.write(control, b"A\0")


def main(request: dict, sock: int, out: int, text: int, control: int) -> None:
    try:
        build(request)
        kernel.limit(request["processes"], request["memory"], request["file_size"])
        kernel.drop_everything()
    except OSError as error:
        os.write(control, b"F%s\0" % str(error).encode())
        return
    supervise(control, sock, out, text, request["env"])
