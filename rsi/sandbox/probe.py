"""Can this machine isolate? Asked once, before anything runs; there is no silent fallback to no sandbox."""

from __future__ import annotations

import os
import platform
from functools import cache

from rsi.sandbox.launch import DROPPED_ID, bwrap_path, inner_python
from rsi.sandbox.protocol import SandboxError
from rsi.sandbox.room import Room

IN_DOCKER = (
    "inside Docker start the container with --security-opt seccomp=unconfined --security-opt systempaths=unconfined"
)
RAISE_LIMIT = "sysctl -w user.max_user_namespaces=15000 (and its siblings)"
APPARMOR = (
    "Ubuntu's AppArmor restricts user namespaces: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, "
    "or install bubblewrap with a profile for its path"
)
# What bubblewrap (or the kernel, through the room) says, why, and what helps. First match counts.
CAUSES = (
    (
        "No permissions to creat",
        "user namespaces are off, or a container's seccomp profile refuses them",
        f"sysctl -w kernel.unprivileged_userns_clone=1; {IN_DOCKER}",
    ),
    ("setting up uid map: Permission denied", "user namespaces have no rights here", APPARMOR),
    ("Failed RTM_NEWADDR", "user namespaces have no rights here", APPARMOR),
    ("Can't mount proc", "a container with masked /proc", IN_DOCKER),
    ("mount proc /proc: Operation not permitted", "a container with masked /proc", IN_DOCKER),
    ("pivot_root: Operation not permitted", "a container with SYS_ADMIN but the default seccomp profile", IN_DOCKER),
    ("_namespaces exceeded", "the limit on namespaces is 0", RAISE_LIMIT),
    ("No space left on device", "the limit on namespaces is reached", RAISE_LIMIT),
    ("clone: Operation not permitted", "a second level of user namespaces is refused", APPARMOR),
    ("No module named", "the Python inside the room lacks part of its standard library", "apt-get install python3"),
)


def explain(words: str) -> SandboxError:
    """The error for what bubblewrap said: its words, the cause and the remedy."""
    for said, cause, remedy in CAUSES:
        if said in words:
            return SandboxError(f"no sandbox on this machine: {cause} ({words.strip()}). Remedy: {remedy}")
    return SandboxError(f"no sandbox on this machine: {words.strip()}. Remedy: unknown; bubblewrap must start")


@cache
def probe() -> None:
    """Build a room and one sandbox in it. Raises SandboxError with cause and remedy; a success is remembered."""
    from rsi.sandbox.bubblewrap import BubblewrapSandbox, run_many

    if platform.system() != "Linux":
        raise SandboxError("no sandbox on this machine: namespaces need Linux. Remedy: run in a Linux virtual machine")
    room = Room()
    try:
        room.wait_ready()
        sandbox = BubblewrapSandbox(room)
        answer = run_many([sandbox], ["echo works"], 20)[0]
        sandbox.close()
        if isinstance(answer, SandboxError):
            raise answer
        if answer.output != "works\n":
            raise SandboxError(f"the shell answered {answer.output!r}")
    except SandboxError as error:
        raise explain(f"{error} {room.words()}") from error
    finally:
        room.close()


def describe() -> dict[str, str]:
    """What a doctor command shows. Never raises."""
    user = f"root, dropped to {DROPPED_ID}" if os.geteuid() == 0 else str(os.geteuid())
    facts = {"kernel": platform.release(), "user": user}
    for name, fact in (("bubblewrap", bwrap_path), ("inner python", lambda: inner_python()[0]), ("sandbox", probe)):
        try:
            facts[name] = str(fact() or "works")
        except SandboxError as error:
            facts[name] = f"FAILS: {error}"
    version = tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2] if part.isdigit())
    if version < (5, 14):
        facts["process limit"] = "shared by all sandboxes: it is one per sandbox since Linux 5.14"
    return facts
