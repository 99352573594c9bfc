# SPDX-License-Identifier: Apache-2.0
"""The lag of this machine, so that a late result can be distinguished from a wrong result.

If the suite sends or receives late, its own machine is late. If the lab runs on the same machine,
the whole lab is late, too.

The kernel also reports overload. ``/proc/pressure/cpu`` has the time in which any task waited for a
core (the kernel's documentation, "PSI - Pressure Stall Information"). ``/proc/self/schedstat`` has
that time for this process ("Scheduler Statistics"), and ``/proc/stat`` the number of tasks that
want a core. Moments are seconds of ``time.monotonic``.
"""

import os
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

PRESSURE = Path("/proc/pressure/cpu")
SCHEDULED = Path("/proc/self/schedstat")
TASKS = Path("/proc/stat")
LATE = 0.05
"""The share of a budget from which a lag counts. A smaller lag excuses nothing, since the budget
has room for it."""
PRESSED = 0.95
"""The share of the time in which some task waits for a core. From this value on, the machine counts
as overloaded.
"""
FELT = 0.5
"""The lag, in seconds, from which a machine counts as late. Pressure alone does not show this. With
a few computing processes the pressure is 100 %, but the kernel soon gives a core to a process that
has slept, and the lag is only milliseconds."""
STARVED = 0.9
"""The share of the time in which this process wanted a core and had none. From this value on, the
lab's processes get less than a tenth of the time that they need, although a process that mostly
sleeps may hardly be late."""
CROWD = 12
"""The number of tasks per core from which processes that compute get less than a tenth of the time
that they need. This process may get more, because it mostly sleeps."""
TICK = 0.005
"""A lag of fewer seconds is not recorded."""
WINDOW = 2.0
"""A machine without a lag for this many seconds is at rest."""
KEPT = 900.0
"""Seconds for which measurements are kept: longer than any wait that uses them."""


def waited() -> float | None:
    """Return the seconds since the machine's start in which some task waited for a core; None if
    the kernel does not report it."""
    found = _pressure(r"^some .*total=(\d+)")
    return None if found is None else found / 1e6


def lately() -> float | None:
    """Return the share of the last 10 s in which some task waited for a core; None if the kernel
    does not report it."""
    found = _pressure(r"^some avg10=([\d.]+)")
    return None if found is None else found / 100


def _pressure(field: str) -> float | None:
    try:
        found = re.search(field, PRESSURE.read_text(encoding="ascii"))
    except OSError:
        return None
    return float(found[1]) if found else None


def demand() -> tuple[float, float, float]:
    """Return the seconds in which this process had a core, the seconds in which it waited for a
    core, and the number of tasks that want each core. Return zeros if the kernel does not report
    them.
    """
    try:
        ran, delayed = map(int, SCHEDULED.read_text(encoding="ascii").split()[:2])
        found = re.search(r"^procs_running (\d+)", TASKS.read_text(encoding="ascii"), re.MULTILINE)
    except (OSError, ValueError):
        return 0.0, 0.0, 0.0
    wanted = int(found[1]) / len(os.sched_getaffinity(0)) if found else 0.0
    return ran / 1e9, delayed / 1e9, wanted


@dataclass
class Machine:
    """The measurements that a process made of its machine.  Thread-safe."""

    shared: bool = False
    """True if the cluster is a lab on the same machine."""
    pressure: Callable[[], float | None] = waited
    demand: Callable[[], tuple[float, float, float]] = demand
    worst: float = 0.0
    """The longest lag, in seconds, of this machine."""
    given: int = 0
    """The number of budgets that were extended."""
    excused: int = 0
    """The number of paths that were left undecided because the machine was late all the time."""
    _late: deque[tuple[float, float]] = field(default_factory=deque)
    _waited: deque[tuple[float, float, float, float, float]] = field(default_factory=deque)
    """Samples at least a second apart: the time, the seconds in which some task had waited for a
    core by then, and the values of :func:`demand`."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def record_lateness(self, seconds: float, now: float) -> None:
        """Record that data was sent or received this many seconds late, just now. A value below 0
        means in time."""
        with self._lock:
            is_due = self.shared and (not self._waited or now - self._waited[-1][0] >= 1.0)
            if is_due and (total := self.pressure()) is not None:
                self._waited.append((now, total, *self.demand()))
            self.worst = max(self.worst, seconds)
            if seconds > TICK:
                self._late.append((now, seconds))
            for kept in list[deque[Any]]([self._late, self._waited]):
                while kept and kept[0][0] < now - KEPT:
                    kept.popleft()

    def behind(self, since: float) -> float:
        """Return the longest lag after ``since``, in seconds."""
        with self._lock:
            return max((seconds for at, seconds in self._late if at >= since), default=0.0)

    def more(self, budget: float, since: float) -> float:
        """Return the seconds by which a used-up budget is extended once; 0: it is not extended.

        The extension is the budget itself, plus the time that the machine was late.
        """
        behind = self.behind(since)
        pressed = min(self._shares(since), default=0.0) >= PRESSED
        if behind < LATE * budget and not pressed:
            return 0.0
        self.given += 1
        return budget + behind

    def overwhelmed(self, since: float, now: float, *, computes: bool = True) -> bool:
        """Return whether a lab runs on this machine, and the machine was overloaded from ``since``
        to ``now`` without a break.

        The machine must also have been late all this time or, if the lab ``computes`` meanwhile,
        the lab's processes must have been starved.
        """
        shares = list(self._shares(since))
        if not self.shared or not shares or min(shares) < PRESSED:
            return False
        if computes and self._is_starved(since):
            return True
        with self._lock:
            felt = [at for at, seconds in self._late if at >= since and seconds >= FELT]
        return all(later - earlier < WINDOW for earlier, later in pairwise([since, *felt, now]))

    def _is_starved(self, since: float) -> bool:
        """Return whether processes that compute have got less than a tenth of the time that they
        need."""
        with self._lock:
            looks = [look[2:] for look in self._waited if look[0] >= since]
        if len(looks) < 2:
            return False
        ran, delayed = (looks[-1][place] - looks[0][place] for place in (0, 1))
        return sum(wanted for _, _, wanted in looks) >= CROWD * len(looks) or delayed > STARVED * (
            ran + delayed
        )

    def _shares(self, since: float) -> Iterator[float]:
        """Yield the share of time in which some task waited for a core, for each interval between
        two samples."""
        with self._lock:
            looks = list(self._waited)
        yield from (
            (later - total) / (after - before)
            for (before, total, *_), (after, later, *_) in pairwise(looks)
            if after > since
        )
