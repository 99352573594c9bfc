# SPDX-License-Identifier: Apache-2.0
"""A pseudo-terminal between a command and the descriptors of ``exec -t``: echo, line endings and
Ctrl-C.

The command does not get the window's size: the API server ignores exec's resize messages.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable

from hybridlab.runtime.streams import FdOutput, LazyReader

_INTERRUPT = b"\x03"


class Terminal:
    """Copies between the caller's descriptors and the master side until the command has ended."""

    def __init__(
        self, stdin: int | None, stdout: int, on_interrupt: Callable[[], object] | None
    ) -> None:
        """Open the terminal; ``on_interrupt`` handles Ctrl-C for a command that is no process and
        gets no signal.
        """
        self._master, self.slave = os.openpty()
        self._stdin = LazyReader(stdin) if stdin is not None else None
        self._output = LazyReader(self._master)
        self._on_interrupt = on_interrupt
        self._copying_out = asyncio.create_task(self._copy_out(FdOutput(stdout)))
        self._copying_in = asyncio.create_task(self._copy_in()) if self._stdin is not None else None

    async def _copy_out(self, output: FdOutput) -> None:
        with contextlib.suppress(BrokenPipeError):
            while data := await self._output.read(65536):
                await output.write(data)

    async def _copy_in(self) -> None:
        assert self._stdin is not None
        master = FdOutput(self._master)
        while data := await self._stdin.read(4096):
            if self._on_interrupt is not None and _INTERRUPT in data:
                self._on_interrupt()
            await master.write(data)
        await master.write(b"\x04")  # end of input: what Ctrl-D types

    async def close(self) -> None:
        """Copy the terminal's remaining output, then close it."""
        os.close(self.slave)
        if self._copying_in is not None and self._stdin is not None:
            self._copying_in.cancel()
            await asyncio.gather(self._copying_in, return_exceptions=True)
            self._stdin.stop()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(
                self._copying_out, 0.2
            )  # a process left behind may hold the terminal open
        self._output.stop()
        os.close(self._master)
