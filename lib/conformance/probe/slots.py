# SPDX-License-Identifier: Apache-2.0
"""Slots that limit simultaneous work of a run's processes: PowerShell starts per node, live agents.

Slots are locks on files in the run's folder: if a process dies, its slots become free.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from conformance.errors import ProbeBroken
from conformance.model.file_name import file_name
from conformance.model.probing import Interval
from conformance.timing import until


@dataclass
class Slot:
    """A slot that is held until :meth:`release`."""

    name: str
    number: int
    taken_at: float
    """The time in seconds on the machine's monotonic clock, which all processes of the machine
    share."""
    _descriptor: int = field(repr=False)
    _owner: Slots = field(repr=False)

    def release(self) -> None:
        descriptor = self._descriptor
        self._descriptor = -1
        if descriptor >= 0:
            given_back_at = time.monotonic()  # read before another process can take the slot
            os.close(descriptor)
            self._owner.note(self, given_back_at)


class Slots:
    """Slots of one run.  Thread-safe."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "slots"
        self._directory.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self.intervals: list[Interval] = []

    def take(self, name: str, count: int, purpose: str = "") -> Slot | None:
        """Take one of the ``count`` slots called ``name`` if any is free. Processes that wait for a
        slot can read the ``purpose``."""
        for number in range(count):
            descriptor = os.open(
                self._directory / f"{file_name(name)}.{number}", os.O_RDWR | os.O_CREAT, 0o600
            )
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
                continue
            os.truncate(descriptor, 0)
            os.write(descriptor, f"{time.monotonic()} {purpose}".encode())
            return Slot(name, number, time.monotonic(), descriptor, self)
        return None

    def holders(self, name: str, count: int) -> str:
        """Return the purposes of the slots in use, and for how long each is held: ``exec in ns/a
        for 62 s, exec in ns/b for 61 s``."""
        lines = []
        for number in range(count):
            since, _, purpose = (
                (self._directory / f"{file_name(name)}.{number}")
                .read_text(errors="replace")
                .partition(" ")
            )
            if purpose:
                lines.append(f"{purpose} for {time.monotonic() - float(since):.0f} s")
        return ", ".join(lines)

    def wait(
        self,
        name: str,
        count: int,
        within: float,
        *,
        every: float = 0.02,
        meanwhile: Callable[[], object] = lambda: None,
        purpose: str = "",
    ) -> Slot:
        """Wait for a slot; other processes can notice this by :meth:`wanted`. ``meanwhile`` is
        called at each failed attempt.

        Raise ProbeBroken if no slot becomes free in time.
        """

        def take() -> Slot | None:
            slot = self.take(name, count, purpose)
            if slot is None:
                meanwhile()
            return slot

        with self._wanting(name):
            settled = until(
                take,
                lambda slot: slot is not None,
                within=within,
                every=every,
                description=f"one of the slots {name} becomes free (limit {count})",
            )
        if settled.last is None:
            held = self.holders(name, count)
            why = f"; still in use: {held}" if held else ""
            raise ProbeBroken(
                f"no slot {name} became free within {within:.0f} s (limit {count}){why}",
                transport="no free slot",
            )
        return settled.last

    def wanted(self, name: str) -> bool:
        """Return whether any process waits for a slot of this name. Of two processes that call this
        at the same moment, both may get True."""
        with self._lock_file(name) as descriptor:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return True
        return False

    @contextlib.contextmanager
    def _wanting(self, name: str) -> Iterator[None]:
        with self._lock_file(name) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            yield

    @contextlib.contextmanager
    def _lock_file(self, name: str) -> Iterator[int]:
        """Yield the open file on which processes that wait for a slot hold shared locks. The kernel
        releases a dead process' lock.
        """
        descriptor = os.open(
            self._directory / f"{file_name(name)}.wanted", os.O_RDWR | os.O_CREAT, 0o600
        )
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def hold(self, name: str, count: int, within: float, purpose: str = "") -> Iterator[Slot]:
        """Hold a slot for the duration of the block.  Raise ProbeBroken."""
        slot = self.wait(name, count, within, purpose=purpose)
        try:
            yield slot
        finally:
            slot.release()

    def note(self, slot: Slot, given_back_at: float) -> None:
        """Record that the use of a slot has ended."""
        with self._lock:
            self.intervals.append(
                Interval(
                    name=slot.name,
                    number=slot.number,
                    taken_at=slot.taken_at,
                    given_back_at=given_back_at,
                )
            )
