"""A command's output while it arrives: the head and the tail are kept, memory stays flat."""

from __future__ import annotations

LIMIT = 8192
MARKER = "\n[... output truncated ...]\n"


class Capped:
    """Keeps at most LIMIT bytes: half from the head, half from the tail."""

    def __init__(self) -> None:
        self._head, self._tail, self._total = bytearray(), bytearray(), 0

    def add(self, chunk: bytes) -> None:
        self._total += len(chunk)
        room = LIMIT // 2 - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        if len(self._tail) > LIMIT // 2:
            del self._tail[: -(LIMIT // 2)]

    @property
    def truncated(self) -> bool:
        return self._total > LIMIT

    def text(self) -> str:
        """Decoded after the cap, undecodable bytes replaced. Cut at line ends where there are any, so that a flood of
        equal lines always reads the same."""
        head, tail = bytes(self._head), bytes(self._tail)
        if not self.truncated:
            return (head + tail).decode(errors="replace")
        if b"\n" in head:
            head = head[: head.rindex(b"\n")]
        if b"\n" in tail[:-1]:
            tail = tail[tail.index(b"\n") + 1 :]
        return head.decode(errors="replace") + MARKER + tail.decode(errors="replace")
