# SPDX-License-Identifier: Apache-2.0
"""The duty of pid 1: collect every process that ends, the lab's own children as well as orphans.

Code that starts a process inside labd uses :meth:`Reaper.spawn`, because this loop collects all children and a
``waitpid`` elsewhere would find nothing::

    child = reaper.spawn(lambda: os.posix_spawn(path, argv, env))   # any function that starts one and returns its pid
    status = await child.wait()              # exit status; negative signal number when it was killed
    child.kill(signal.SIGTERM)               # nothing when it has ended already

asyncio's and subprocess's own ways of waiting must not be used in labd.
"""

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable


class Child:
    """A process that labd started."""

    def __init__(self, pid: int, ended: asyncio.Future[int]) -> None:
        self.pid = pid
        """The process id inside labd's pid namespace."""
        self._ended = ended

    async def wait(self) -> int:
        """Return the exit status, or the negative signal number."""
        return await asyncio.shield(self._ended)

    @property
    def running(self) -> bool:
        """Return whether the process has not been collected yet."""
        return not self._ended.done()

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send the process a signal, unless it was collected (its number may belong to another
        process by then)."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


class Reaper:
    """Collects children on SIGCHLD; one per process, in its event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._children: dict[int, asyncio.Future[int]] = {}
        self._lock = threading.Lock()
        self._loop.add_signal_handler(signal.SIGCHLD, self._collect)

    def spawn(self, start: Callable[[], int]) -> Child:
        """Start a process and own it; ``start`` returns its pid. May be called from any thread.

        The lock stops the collector until the pid is known, so that a process that ends at once is
        not missed.
        """
        ended: asyncio.Future[int] = self._loop.create_future()
        with self._lock:
            pid = start()
            self._children[pid] = ended
        return Child(pid, ended)

    def _collect(self) -> None:
        with self._lock:
            while True:
                try:
                    pid, status = os.waitpid(-1, os.WNOHANG)
                except ChildProcessError:
                    return
                if pid == 0:
                    return
                ended = self._children.pop(pid, None)
                if ended is not None and not ended.done():
                    ended.set_result(os.waitstatus_to_exitcode(status))
