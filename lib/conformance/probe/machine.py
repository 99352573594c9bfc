# SPDX-License-Identifier: Apache-2.0
"""How far behind this machine runs, so that what is only late is told from what is wrong.

What the suite asks late, or hears late, is late by its own machine; where the lab runs on the same one, so is all that
the lab does.  The kernel tells of that too: ``/proc/pressure/cpu`` has the time in which something waited for a core
(the kernel's documentation, "PSI - Pressure Stall Information").  Moments are seconds of ``time.monotonic``.
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
"""Share of a budget.  Of a machine that is behind by less nothing is excused: the budget has room for that."""
PRESSED = 0.95
"""Share of the time in which something waits for a core: from here on the machine has more to do than it can."""
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
    """Seconds since the machine's start in which something waited for a core; None: the kernel does not say."""
    found = _pressure(r"^some .*total=(\d+)")
    return None if found is None else found / 1e6


def lately() -> float | None:
    """Of the last 10 s, the share in which something waited for a core; None: the kernel does not say."""
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
    """What one process has measured of the machine that it runs on.  Thread-safe."""

    shared: bool = False
    """Whether the cluster is a lab on the same machine."""
    pressure: Callable[[], float | None] = waited
    worst: float = 0.0
    """s.  The most that something was late."""
    given: int = 0
    """Budgets that were given once more."""
    excused: int = 0
    """Paths that nothing was said of, since the machine was late all the time."""
    _late: deque[tuple[float, float]] = field(default_factory=deque)
    _waited: deque[tuple[float, float]] = field(default_factory=deque)
    """When it was looked, at least a second apart, and how long something had waited for a core by then."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def late(self, seconds: float, now: float) -> None:
        """Something was asked or heard so many seconds late, just now; below 0: it was in time."""
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
        """The most that something was late since then, in seconds."""
        with self._lock:
            return max((seconds for at, seconds in self._late if at >= since), default=0.0)

    def more(self, budget: float, since: float) -> float:
        """Seconds for which what has used up a budget since then is waited for once more; 0: not at all.

        That is the budget again, and as much as the machine was behind.
        """
        behind = self.behind(since)
        pressed = min(self._shares(since), default=0.0) >= PRESSED
        if behind < LATE * budget and not pressed:
            return 0.0
        self.given += 1
        return budget + behind

    def overwhelmed(self, since: float, now: float) -> bool:
        """Whether the lab shares it, and it was under pressure and late all the time, so that a lab tells nothing."""
        shares = list(self._shares(since))
        if not self.shared or not shares or min(shares) < PRESSED:
            return False
        with self._lock:
            felt = [at for at, seconds in self._late if at >= since and seconds >= FELT]
        moments = [since, *felt, now]
        return all(later - earlier < WINDOW for earlier, later in pairwise(moments))

    def _shares(self, since: float) -> Iterator[float]:
        """Between two looks each, the share of the time in which something waited for a core."""
        with self._lock:
            looks = list(self._waited)
        for (before, total), (after, later) in pairwise(looks):
            if after > since:
                yield (later - total) / (after - before)
