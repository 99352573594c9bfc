# SPDX-License-Identifier: Apache-2.0
"""Ends a measurement at SIGTERM, as a cancelled CI job gets it, without leaving a process or a
folder."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

ENDS_WITHIN = 20.0
"""s. The time that labs have to remove their namespaces and folders."""
FOLDERS: set[Path] = set()


@contextmanager
def scratch(prefix: str) -> Iterator[Path]:
    """Provide a folder that is removed at the end, also if a signal causes the end."""
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as name:
        FOLDERS.add(Path(name))
        try:
            yield Path(name)
        finally:
            FOLDERS.discard(Path(name))


def end_on_sigterm() -> None:
    """Let SIGTERM end this process together with everything that it has started."""
    signal.signal(signal.SIGTERM, lambda number, frame: _end(number))


def _end(number: int) -> None:
    """End all started processes: labs as their user would, all others at once. Threads may start
    new processes meanwhile."""
    while started := [one for one in psutil.Process().children(recursive=True) if _lives(one)]:
        for process in started:
            _signal(process, signal.SIGTERM if _is_lab(process) else signal.SIGKILL)
        _, alive = psutil.wait_procs(started, ENDS_WITHIN)
        for process in alive:
            _signal(process, signal.SIGKILL)
    for folder in list(FOLDERS):
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(128 + number)  # threads wait for processes that are gone


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _is_lab(process: psutil.Process) -> bool:
    try:
        return "hybridlab" in process.cmdline()
    except psutil.Error:
        return False


def _signal(process: psutil.Process, number: int) -> None:
    with suppress(psutil.NoSuchProcess):
        process.send_signal(number)
