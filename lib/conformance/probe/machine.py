# SPDX-License-Identifier: Apache-2.0
"""The lag of this machine, so that a late result can be distinguished from a wrong result.

If the suite sends or receives late, its own machine is late; if the lab runs on the same machine,
the whole lab is late, too.  The kernel shows that as well: ``/proc/pressure/cpu`` has the time in
which any task waited for a core (the kernel's documentation, "PSI - Pressure Stall Information").
Moments are seconds of ``time.monotonic``.
"""

import re
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

PRESSURE = Path("/proc/pressure/cpu")
LATE = 0.05
"""Share of a budget.  Of a machine that is behind by less nothing is excused: the budget has room
for that."""
PRESSED = 0.95
"""Share of the time in which something waits for a core: from here on the machine has more to do
than it can."""
FELT = 0.5
"""s.  Behind by so much, a machine is late.  Pressure alone does not show that: beside a few processes that compute it
is complete, while the kernel soon gives a core to whoever has slept, and things are late by milliseconds."""
TICK = 0.005
"""s.  What is late by less is not kept."""
WINDOW = 2.0
"""s.  A machine that is not late for so long is at rest."""
KEPT = 900.0
"""s.  Of what was measured, longer than any wait that asks for it."""


def waited() -> float | None:
    """Return the seconds since the machine's start in which some task waited for a core; None if
    the kernel does not report it.
    """
    found = _pressure(r"^some .*total=(\d+)")
    return None if found is None else found / 1e6


def lately() -> float | None:
    """Return the share of the last 10 s in which something waited for a core; None: not known."""
    found = _pressure(r"^some avg10=([\d.]+)")
    return None if found is None else found / 100


def _pressure(field: str) -> float | None:
    try:
        found = re.search(field, PRESSURE.read_text(encoding="ascii"))
    except OSError:
        return None
    return float(found[1]) if found else None


@dataclass
class Machine:
    """The measurements that a process made of its machine.  Thread-safe."""

    shared: bool = False
    """The cluster is a lab on the same machine."""
    pressure: Callable[[], float | None] = waited
    worst: float = 0.0
    """s.  The most that something was late."""
    given: int = 0
    """Budgets that were given once more."""
    excused: int = 0
    """Paths that were left undecided, since the machine was late all the time."""
    _late: deque[tuple[float, float]] = field(default_factory=deque)
    _waited: deque[tuple[float, float]] = field(default_factory=deque)
    """When it was looked, at least a second apart, and how long something had waited for a core by
    then."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def record_lateness(self, seconds: float, now: float) -> None:
        """Record that something was sent or received so many seconds late, just now; below 0: in
        time."""
        with self._lock:
            is_due = self.shared and (not self._waited or now - self._waited[-1][0] >= 1.0)
            if is_due and (total := self.pressure()) is not None:
                self._waited.append((now, total))
            self.worst = max(self.worst, seconds)
            if seconds > TICK:
                self._late.append((now, seconds))
            for kept in (self._late, self._waited):
                while kept and kept[0][0] < now - KEPT:
                    kept.popleft()

    def behind(self, since: float) -> float:
        """Return the most that something was late since then, in seconds."""
        with self._lock:
            return max((seconds for at, seconds in self._late if at >= since), default=0.0)

    def more(self, budget: float, since: float) -> float:
        """Return the seconds by which a used-up budget is extended once; 0: not at all.

        That is the budget again, plus the time that the machine was behind.
        """
        behind = self.behind(since)
        pressed = min(self._shares(since), default=0.0) >= PRESSED
        if behind < LATE * budget and not pressed:
            return 0.0
        self.given += 1
        return budget + behind

    def overwhelmed(self, since: float, now: float) -> bool:
        """Return whether the lab shares the machine, and it was late and under pressure all the
        time."""
        shares = list(self._shares(since))
        if not self.shared or not shares or min(shares) < PRESSED:
            return False
        with self._lock:
            felt = [at for at, seconds in self._late if at >= since and seconds >= FELT]
        moments = [since, *felt, now]
        return all(later - earlier < WINDOW for earlier, later in pairwise(moments))

    def _shares(self, since: float) -> Iterator[float]:
        """Return, between each two looks, the share of the time in which something waited for a
        core."""
        with self._lock:
            looks = list(self._waited)
        for (before, total), (after, later) in pairwise(looks):
            if after > since:
                yield (later - total) / (after - before)
