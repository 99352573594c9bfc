# SPDX-License-Identifier: Apache-2.0
"""Inherited descriptors as an applet's three streams.

Descriptors may be shared with real processes (a shell's pipeline). Therefore this module never sets
``O_NONBLOCK``, which belongs to the open file and not to the descriptor. Instead it waits with
poll, and then writes at most ``PIPE_BUF`` bytes, which a ready pipe accepts completely. Standard
input is read only after the applet requests it: ``nc -z`` in a shell loop must not consume the
loop's input.
"""

import asyncio
import os
import select

PIPE_BUF = 4096
"""The number of bytes that a pipe accepts without blocking if poll reports it as writable (POSIX,
Linux value)."""

_READ_SIZE = 65536


def _ready(fd: int, event: int) -> bool:
    poll = select.poll()
    poll.register(fd, event)
    return bool(poll.poll(0))


class FdOutput:
    """Standard output or error over a descriptor that the caller owns."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    async def write(self, data: bytes) -> None:
        """Write all data. Raise BrokenPipeError if no reader is left."""
        view = memoryview(data)
        while view:
            if not _ready(self._fd, select.POLLOUT):
                await self._writable()
            view = view[os.write(self._fd, view[:PIPE_BUF]) :]

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_writer(self._fd, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_writer(self._fd)


class NullOutput:
    """An output that discards everything."""

    async def write(self, data: bytes) -> None:
        """Discard ``data``."""


class LazyReader(asyncio.StreamReader):
    """Standard input over a descriptor that the caller owns: nothing is taken from it before the first read."""

    def __init__(self, fd: int) -> None:
        super().__init__(limit=1 << 20)
        self._fd = fd
        self._watching = False

    def _watch(self) -> None:
        if self._watching or self.at_eof():
            return
        self._watching = True
        try:
            asyncio.get_running_loop().add_reader(self._fd, self._pump)
        except PermissionError:  # epoll refuses regular files: they are always ready
            self._watching = False
            while chunk := os.read(self._fd, _READ_SIZE):
                self.feed_data(chunk)
            self.feed_eof()

    def _pump(self) -> None:
        try:
            chunk = os.read(self._fd, _READ_SIZE) if _ready(self._fd, select.POLLIN) else None
        except OSError:
            chunk = b""
        if chunk:
            self.feed_data(chunk)
        elif chunk is not None:
            self.feed_eof()
            self.stop()

    def stop(self) -> None:
        """Stop watching the descriptor; must be called before it is closed."""
        if self._watching:
            asyncio.get_running_loop().remove_reader(self._fd)
            self._watching = False

    async def read(self, n: int = -1) -> bytes:
        self._watch()
        return await super().read(n)

    async def readuntil(self, separator: bytes = b"\n") -> bytes:  # type: ignore[override]
        """Read as StreamReader does; ``readline`` calls this, too."""
        self._watch()
        return await super().readuntil(separator)

    async def readexactly(self, n: int) -> bytes:
        self._watch()
        return await super().readexactly(n)


def empty_stdin() -> asyncio.StreamReader:
    """Return a standard input at end-of-file."""
    reader = asyncio.StreamReader()
    reader.feed_eof()
    return reader
