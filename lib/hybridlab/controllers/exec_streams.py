# SPDX-License-Identifier: Apache-2.0
"""A command's three streams: pipes whose other ends are in the runtime; their data are copied to
and from the API server's channels."""

import asyncio
import os
from contextlib import suppress

from hybridlab.api.contract import ChannelWriter, Input

CHUNK = 65536


class Pipe:
    """A pipe; this process has both ends until :meth:`close_far`."""

    def __init__(self, *, outwards: bool) -> None:
        """Make a pipe. ``outwards``: the command writes, and this process reads; otherwise the
        reverse."""
        read, write = os.pipe()
        self.near, self.far = (read, write) if outwards else (write, read)
        os.set_blocking(self.near, False)

    def close_far(self) -> None:
        """Close this process' copy of the end that the command has."""
        if self.far >= 0:
            os.close(self.far)
            self.far = -1

    def close(self) -> None:
        self.close_far()
        if self.near >= 0:
            os.close(self.near)
            self.near = -1


async def _ready(fd: int, *, writing: bool) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    (loop.add_writer if writing else loop.add_reader)(fd, ready.set)
    try:
        await ready.wait()
    finally:
        (loop.remove_writer if writing else loop.remove_reader)(fd)


async def pump_out(pipe: Pipe, writer: ChannelWriter) -> None:
    """Send everything the command writes until all its copies of the pipe are closed."""
    while True:
        try:
            data = os.read(pipe.near, CHUNK)
        except BlockingIOError:
            await _ready(pipe.near, writing=False)
            continue
        if not data:
            return
        await writer.send(data)


async def pump_in(stdin: Input, pipe: Pipe) -> None:
    """Pass the command everything that arrives, then end-of-file; stop when the command reads no
    more."""
    try:
        while data := await stdin.read(CHUNK):
            view = memoryview(data)
            while view:
                try:
                    view = view[os.write(pipe.near, view) :]
                except BlockingIOError:
                    await _ready(pipe.near, writing=True)
    except BrokenPipeError:
        return
    with suppress(OSError):
        os.close(pipe.near)
    pipe.near = -1
