# SPDX-License-Identifier: Apache-2.0
"""A container's log: complete lines with the time at which each was complete, limited in size, and
readable while it grows."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator

MAX_LINES = 10_000
"""The maximum number of lines per container; older lines are dropped, as in a kubelet's log
rotation."""
MAX_BYTES = 2 << 20
"""The maximum number of bytes per container."""
MAX_LINE = 16 << 10
"""Lines of more bytes are split here, as containerd's CRI log writer does."""


class LogBuffer:
    """The lines of a container's log. Each output that ``stream()`` returns stores its own partial
    line."""

    def __init__(self) -> None:
        self._lines: deque[tuple[float, bytes]] = deque()
        self._bytes = 0
        self._dropped = 0
        self._closed = False
        self._changed = asyncio.Event()

    def append(self, line: bytes) -> None:
        """Add a line; a newline is added if the line has none."""
        if not line.endswith(b"\n"):
            line += b"\n"
        self._lines.append((time.time(), line))
        self._bytes += len(line)
        while len(self._lines) > MAX_LINES or (self._bytes > MAX_BYTES and len(self._lines) > 1):
            self._bytes -= len(self._lines.popleft()[1])
            self._dropped += 1
        self._wake()

    def close(self) -> None:
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def read(self, *, follow: bool) -> AsyncIterator[tuple[float, bytes]]:
        """Yield all lines from the start; with ``follow`` until the container ends."""
        position = 0
        while True:
            position = max(position, self._dropped)
            while position - self._dropped < len(self._lines):
                yield self._lines[position - self._dropped]
                position = max(position + 1, self._dropped)
            if self._closed or not follow:
                return
            await self._changed.wait()

    def stream(self) -> LogStream:
        """Return a new output (standard output or standard error) that writes into this log."""
        return LogStream(self)


class LogStream:
    """An ``applet.Output`` that cuts its input into lines."""

    def __init__(self, buffer: LogBuffer) -> None:
        self._buffer = buffer
        self._partial = b""

    async def write(self, data: bytes) -> None:
        """Append the complete lines in ``data`` and keep the rest."""
        self.feed(data)

    def feed(self, data: bytes) -> None:
        """Add data as ``write`` does, for callers outside a coroutine."""
        *lines, rest = (self._partial + data).split(b"\n")
        for line in lines:
            self._buffer.append(line)
        while len(rest) > MAX_LINE:
            self._buffer.append(rest[:MAX_LINE])
            rest = rest[MAX_LINE:]
        self._partial = rest

    def flush(self) -> None:
        """Write an unfinished line after the writer has ended."""
        if self._partial:
            self._buffer.append(self._partial)
            self._partial = b""
