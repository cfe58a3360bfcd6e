"""The room's only lasting process: PID 1 behind bubblewrap, forks the episodes' processes on request.

One bubblewrap per room builds the read-only root; an episode is a fork of this small process into namespaces of its
own, which costs a tenth of a bubblewrap start. Requests arrive as datagrams (marshal) with their descriptors.
"""

import array
import gc
import marshal
import os
import resource
import signal
import socket
from contextlib import suppress

from . import agent, kernel, verifier

EPISODE = kernel.NEWUSER | kernel.NEWPID | kernel.NEWNS | kernel.NEWNET | kernel.NEWIPC
PASSWD = "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
ETC = {
    "passwd": PASSWD,
    "group": "root:x:0:\nnogroup:x:65534:\n",
    "hostname": "sandbox\n",
    "hosts": "127.0.0.1 localhost sandbox\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
# What stands in the place of the host's clock and load. `ps` computes with these: everything started in 2024. /proc/loadavg
# stays what it is, as the shell reads the last process id from it after each command.
FIXED_PROC = {
    "uptime": "31536000.00 0.00\n",
    "stat": "cpu  0 0 0 0 0 0 0 0 0 0\n"
    + "".join(f"cpu{k} 0 0 0 0 0 0 0 0 0 0\n" for k in range(os.cpu_count() or 1))
    + "intr 0\nctxt 0\nbtime 1704067200\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n",
}
DIRECTORIES = ("/app", "/tmp", "/root", "/var", "/var/tmp", "/run", "/tests", "/logs", "/etc")


def furnish() -> None:
    """Finish the root that every episode shares, take away what started this process, and make it all read-only."""
    for path in DIRECTORIES:
        os.makedirs(path, exist_ok=True)
        os.chmod(path, 0o755)
    for name, text in ETC.items():
        with open("/etc/" + name, "w") as f:
            f.write(text)
    for name, text in FIXED_PROC.items():
        with open(agent.FIXED + name, "w") as f:
            f.write(text)
    for name in os.listdir("/.boot/inner"):
        os.unlink("/.boot/inner/" + name)
    os.removedirs("/.boot/inner")
    if os.path.isdir("/.python"):
        kernel.umount("/.python")
        os.rmdir("/.python")
    for path, flags in (("/dev", kernel.MS_NOSUID), ("/", kernel.MS_NOSUID | kernel.MS_NODEV)):
        kernel.mount("", path, "", kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | flags)


def read_fd(fd: int) -> bytes:
    """All bytes of a memfd, whatever its offset."""
    return os.pread(fd, os.fstat(fd).st_size, 0)


def in_episode(pidfd: int, request: dict, fds: list) -> None:
    """Child of this process: join the episode; the verifier goes one step further into namespaces of its own."""
    try:
        kernel.setns(pidfd, verifier.JOIN)
        if request["op"] != "verify":
            verifier.transfer(request, read_fd(fds[1]), fds[0])
        elif kernel.clone(kernel.NEWPID | kernel.NEWNS) == 0:
            verifier.verify(request, marshal.loads(read_fd(fds[1])), fds[0])
    except OSError as error:
        verifier.write_all(fds[0], verifier.pack([b"F", str(error).encode()]))


def handle(request: dict, fds: list, episodes: dict, control: socket.socket) -> None:
    op, key = request["op"], request["id"]
    if op == "close":
        pidfd = episodes.pop(key, None)
        if pidfd is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.close(pidfd)
        return
    if op != "spawn" and key not in episodes:
        verifier.write_all(fds[0], verifier.pack([b"F", b"the sandbox is gone"]))
        return
    pid = kernel.clone(EPISODE if op == "spawn" else 0)
    if pid == 0:
        try:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            if op == "spawn":
                agent.main(request, *fds)
            else:
                in_episode(episodes[key], request, fds)
        finally:
            os._exit(0)
    if op == "spawn":
        episodes[key] = os.pidfd_open(pid)


def main() -> None:
    control = socket.socket(fileno=int(os.environ["CONTROL"]))
    control.set_inheritable(False)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    kernel.write_file("/proc/self/oom_score_adj", b"1000")  # before anything else on the host
    os.umask(0o022)
    furnish()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended episodes need no reaping
    gc.disable()
    gc.freeze()
    control.send(b"ready")
    environments = marshal.loads(control.recv(1 << 16))  # {op: environment}; sent once, so that requests stay small
    episodes: dict = {}
    while True:
        data, ancillary, _, _ = control.recvmsg(1 << 16, socket.CMSG_SPACE(16), socket.MSG_CMSG_CLOEXEC)
        if not data:  # the host is gone
            return
        fds = array.array("i")
        for _, _, raw in ancillary:
            fds.frombytes(raw)
        try:
            request = marshal.loads(data)
            request["env"] = environments.get(request["op"])
            handle(request, list(fds), episodes, control)
        except OSError as error:  # no more processes or descriptors: the asker sees end of file and this text
            control.send(str(error).encode())
        for fd in fds:
            os.close(fd)
