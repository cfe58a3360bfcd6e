"""The host's side of verifying and of moving files: hand the work to the room, gather what comes back, judge it."""

from __future__ import annotations

import marshal
import os
import select
import stat
import struct
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from rsi.sandbox.protocol import SandboxError
from rsi.sandbox.room import MARSHAL

GRACE_S = 10.0  # beyond the time limit that the room itself keeps


def pack_tree(root: Path) -> bytes:
    """All regular files below `root` as (relative path, mode, bytes), in a fixed order. Raises OSError."""
    files = []

    def walk(folder: str, prefix: str) -> None:
        for entry in sorted(os.scandir(folder), key=lambda e: e.name):
            if entry.is_dir():
                walk(entry.path, f"{prefix}{entry.name}/")
            elif entry.is_file():
                with open(entry.path, "rb") as f:
                    mode = stat.S_IMODE(os.fstat(f.fileno()).st_mode) & 0o755 | 0o444
                    files.append((prefix + entry.name, mode, f.read()))

    walk(str(root), "")
    return marshal.dumps(files, MARSHAL)


def unpack(data: bytes) -> list[bytes | None]:
    """The room's length-prefixed fields. Raises SandboxError when they end early: the helper was killed."""
    fields, at = [], 0
    while at < len(data):
        if at + 4 > len(data):
            raise SandboxError("the answer was cut off")
        (length,) = struct.unpack_from("i", data, at)
        at += 4
        if length < 0:
            fields.append(None)
            continue
        if at + length > len(data):
            raise SandboxError("the answer was cut off")
        fields.append(data[at : at + length])
        at += length
    if not fields:
        raise SandboxError("no answer: the sandbox is gone")
    if fields[0] == b"F":
        raise SandboxError((fields[1] or b"").decode(errors="replace"))
    return fields


def gather(starts: list[Callable[[], tuple[int, float]]], width: int) -> list[list[bytes | None] | SandboxError]:
    """Start each (giving a pipe to read to its end, and a time limit), `width` at a time; the answers in order."""
    answers: list[list[bytes | None] | SandboxError | None] = [None] * len(starts)
    waiting, running = deque(enumerate(starts)), {}
    with select.epoll() as poll:
        while waiting or running:
            while waiting and len(running) < width:
                index, start = waiting.popleft()
                try:
                    fd, limit = start()
                except SandboxError as error:
                    answers[index] = error
                    continue
                running[fd] = (index, [], time.monotonic() + limit + GRACE_S)
                poll.register(fd, select.EPOLLIN)
            if not running:
                continue
            patience = max(0.0, min(deadline for _, _, deadline in running.values()) - time.monotonic())
            ended = []
            for fd, _ in poll.poll(patience):
                chunk = os.read(fd, 1 << 20)
                running[fd][1].append(chunk)
                if not chunk:
                    ended.append(fd)
            now = time.monotonic()
            for fd in [*ended, *(fd for fd, job in running.items() if job[2] <= now and fd not in ended)]:
                index, chunks, _ = running.pop(fd)
                poll.unregister(fd)
                os.close(fd)
                try:
                    answers[index] = unpack(b"".join(chunks))
                except SandboxError as error:
                    answers[index] = error
    return answers
