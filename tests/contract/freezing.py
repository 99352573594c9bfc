# SPDX-License-Identifier: Apache-2.0
"""Stops single threads of a program, as on a machine without a free processor, while its other
threads go on.

Stopping the whole process cannot show the effect of a starved thread pool, in which the program's
loop runs but does not learn of data that has arrived.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
LIBC.ptrace.restype = ctypes.c_long
SOCKET_EVENTS = ".NET Sockets"
"""The thread of .NET on Linux that receives the events of all sockets."""


def threads(pid: int, name: str) -> list[int]:
    """Return the ids of a process's threads with this name."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            if (task / "comm").read_text().strip() == name:
                found.append(int(task.name))
    return found


def _ptrace(request: int, tid: int) -> None:
    if LIBC.ptrace(request, tid, None, None) == -1:
        raise OSError(ctypes.get_errno(), f"ptrace {request:#x} of thread {tid}")


@contextlib.contextmanager
def frozen(pid: int, name: str = SOCKET_EVENTS) -> Iterator[Callable[[], None]]:
    """Stop the threads with this name until the block ends, or until the yielded function is
    called.

    A single thread of this process makes all calls: the kernel lets only the thread that traces
    another thread release it.
    """
    stopped = threads(pid, name)
    assert stopped, f"process {pid} has no thread {name}"
    jobs: queue.SimpleQueue[str] = queue.SimpleQueue()
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def trace() -> None:
        try:
            for tid in stopped:
                _ptrace(SEIZE, tid)
                _ptrace(INTERRUPT, tid)
                os.waitpid(tid, WALL)
        except OSError as error:
            answers.put(error)
            return
        answers.put(None)
        jobs.get()
        for tid in stopped:
            with contextlib.suppress(OSError):  # the process may have ended
                _ptrace(DETACH, tid)
        answers.put(None)

    tracer = threading.Thread(target=trace, daemon=True)
    tracer.start()
    if isinstance(error := answers.get(timeout=10), OSError):
        pytest.skip(f"no thread can be stopped here: {error}")

    def go_on() -> None:
        if tracer.is_alive():
            jobs.put("go on")
            answers.get(timeout=10)
            tracer.join(10)

    try:
        yield go_on
    finally:
        go_on()
