"""System calls that the standard library does not offer: namespaces, mounts, capabilities, seccomp.

Runs inside the room on any Python from 3.9 on, with nothing but the standard library. Every call raises OSError with
the kernel's errno. Sources: clone(2), setns(2), mount(2), capabilities(7), seccomp(2), linux/audit.h.
"""

import ctypes
import errno
import os
import platform
import resource
import signal
import struct

NEWNS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND = 1, 2, 4, 8, 32, 4096
MNT_DETACH = 2
# clone, clone3 and the audit name of the architecture; then the calls that are refused with EPERM, by number.
_ARCH = {
    "x86_64": (
        56,
        435,
        0xC000003E,
        dict(
            unshare=272,
            setns=308,
            mount=165,
            umount2=166,
            pivot_root=155,
            chroot=161,
            add_key=248,
            request_key=249,
            keyctl=250,
            bpf=321,
            perf_event_open=298,
            userfaultfd=323,
            io_uring_setup=425,
            open_tree=428,
            move_mount=429,
            fsopen=430,
            fsmount=432,
            mount_setattr=442,
            kexec_load=246,
            init_module=175,
            finit_module=313,
            open_by_handle_at=304,
            quotactl=179,
            swapon=167,
        ),
    ),
    "aarch64": (
        220,
        435,
        0xC00000B7,
        dict(
            unshare=97,
            setns=268,
            mount=40,
            umount2=39,
            pivot_root=41,
            chroot=51,
            add_key=217,
            request_key=218,
            keyctl=219,
            bpf=280,
            perf_event_open=241,
            userfaultfd=282,
            io_uring_setup=425,
            open_tree=428,
            move_mount=429,
            fsopen=430,
            fsmount=432,
            mount_setattr=442,
            kexec_load=104,
            init_module=105,
            finit_module=273,
            open_by_handle_at=265,
            quotactl=60,
            swapon=224,
        ),
    ),
}
if platform.machine() not in _ARCH:
    raise OSError(errno.ENOSYS, f"no seccomp table for {platform.machine()}")
_CLONE, _CLONE3, _AUDIT_ARCH, _REFUSED = _ARCH[platform.machine()]
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _check(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def clone(flags: int) -> int:
    """fork() into new namespaces: 0 in the child, the child's pid in the parent."""
    return _check(_libc.syscall(_CLONE, ctypes.c_ulong(flags | signal.SIGCHLD), 0, 0, 0, 0), "clone")


def setns(fd: int, flags: int) -> None:
    """Join several namespaces of the process behind a pidfd at once."""
    _check(_libc.setns(fd, flags), "setns")


def mount(source: str, target: str, kind: str, flags: int = 0, data: str = "") -> None:
    args = (source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), data.encode() or None)
    _check(_libc.mount(*args), f"mount {kind or 'bind'} {target}")


def umount(target: str) -> None:
    _check(_libc.umount2(target.encode(), MNT_DETACH), f"umount {target}")


def write_file(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def map_root() -> None:
    """Give a fresh user namespace its only user: 0 inside, whoever started the room outside."""
    write_file("/proc/self/setgroups", b"deny")
    write_file("/proc/self/uid_map", b"0 0 1")
    write_file("/proc/self/gid_map", b"0 0 1")


def child_events() -> int:
    """A descriptor that becomes readable when a child ends (SIGCHLD is blocked and queued there instead)."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    mask = (ctypes.c_ulong * 16)(1 << (signal.SIGCHLD - 1))
    return _check(_libc.signalfd(-1, mask, os.O_CLOEXEC | os.O_NONBLOCK), "signalfd")


def limit(processes: int, memory: int, file_size: int) -> None:
    """Hard limits. Since Linux 5.14 the process count is one per user namespace, so one per sandbox."""
    for kind, value in (
        (resource.RLIMIT_NPROC, processes),
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_FSIZE, file_size),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 256),
        (resource.RLIMIT_MEMLOCK, 65536),
        (resource.RLIMIT_SIGPENDING, 1024),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def _filter() -> bytes:
    """The seccomp program: other architectures and clone3 do not exist, namespaces and mounts are refused."""

    def op(code: int, jt: int, jf: int, k: int) -> bytes:
        return struct.pack("HBBI", code, jt, jf, k)

    load, equal, above, bits, ret = 0x20, 0x15, 0x35, 0x45, 0x06
    allow = op(ret, 0, 0, 0x7FFF0000)
    refuse, missing = op(ret, 0, 0, 0x50000 | errno.EPERM), op(ret, 0, 0, 0x50000 | errno.ENOSYS)
    program = [op(load, 0, 0, 4), op(equal, 1, 0, _AUDIT_ARCH), missing, op(load, 0, 0, 0)]
    if _AUDIT_ARCH == 0xC000003E:  # the x32 numbers of x86_64
        program += [op(above, 0, 1, 0x40000000), missing]
    program += [op(equal, 0, 1, _CLONE3), missing]  # glibc then falls back to clone, whose flags can be read below
    for number in _REFUSED.values():
        program += [op(equal, 0, 1, number), refuse]
    ioctl = 16 if _AUDIT_ARCH == 0xC000003E else 29
    # ioctl(TIOCSTI | TIOCLINUX) types into a terminal; clone with any namespace flag
    program += [
        op(equal, 0, 4, ioctl),
        op(load, 0, 0, 24),
        op(equal, 1, 0, 0x5412),
        op(equal, 0, 1, 0x541C),
        refuse,
        op(load, 0, 0, 0),
        op(equal, 0, 3, _CLONE),
        op(load, 0, 0, 16),
        op(bits, 0, 1, 0x7E020000),
        refuse,
        allow,
    ]
    return b"".join(program)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


_CODE = _filter()
_PROGRAM = _Program(len(_CODE) // 8, _CODE)


def drop_everything() -> None:
    """No capability now or ever again, no new privileges, the filter on, not traceable.

    The bounding set is left alone: dropping it takes one call a capability (half a millisecond in all) and forbids
    nothing that the locked securebits and no_new_privs leave open.
    """

    def prctl(what: int, *args: int) -> None:
        _check(_libc.prctl(what, *map(ctypes.c_ulong, args), *[ctypes.c_ulong(0)] * (4 - len(args))), f"prctl {what}")

    prctl(28, 0x2F)  # PR_SET_SECUREBITS: uid 0 is nobody special, locked
    header, nothing = struct.pack("Ii", 0x20080522, 0), bytes(24)
    _check(_libc.capset(header, nothing), "capset")
    prctl(38, 1)  # PR_SET_NO_NEW_PRIVS
    prctl(4, 0)  # PR_SET_DUMPABLE: the agent, though the same user, may neither trace nor read this process
    _check(_libc.prctl(22, ctypes.c_ulong(2), ctypes.byref(_PROGRAM), 0, 0), "seccomp")
