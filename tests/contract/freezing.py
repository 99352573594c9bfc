# SPDX-License-Identifier: Apache-2.0
"""Stops single threads of a program while its other threads go on, as a machine without a free
processor does.

Stopping the whole process would not show what a starved thread pool does: the program's loop runs,
but is not notified of arrived data.
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
"""The thread of .NET on Linux that learns of every socket's events."""


def threads(pid: int, name: str) -> list[int]:
    """The ids of a process's threads of that name."""
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
    """Stop the threads of that name until the block ends, or until the function is called.

    One thread of ours has to make every call: the kernel lets only the thread that traces another
    let go of it.
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
