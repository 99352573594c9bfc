"""A line now and then about what a run waits for, past what captures output: pulling Windows images takes minutes."""

import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext


class Progress:
    """Called with ``what: state``; tells a state when ``what`` has been waited for since at least ``every`` seconds.

    An empty state ends the wait: the next one for the same begins anew.
    Thread-safe.  Goes to standard error, which xdist's workers share with the process that the user started.
    """

    def __init__(self, every: float, uncaptured: Callable[[], AbstractContextManager[object]] = nullcontext) -> None:
        """Within ``uncaptured()``, what is printed reaches the user."""
        self._every, self._uncaptured = every, uncaptured
        self._lock = threading.Lock()
        self._begin: dict[str, float] = {}
        self._told: dict[str, float] = {}

    def __call__(self, line: str) -> None:
        """Tell, unless it was told a moment ago; what goes quickly is not told at all."""
        what, _, state = line.partition(": ")
        with self._lock:
            if not state:
                self._begin.pop(what, None)
                self._told.pop(what, None)
                return
            now = time.monotonic()
            begin = self._begin.setdefault(what, now)
            if now - self._told.setdefault(what, now) < self._every:
                return
            self._told[what] = now
            self.tell(f"[{now - begin:.0f} s] {line}")

    def tell(self, line: str) -> None:
        with self._uncaptured():
            print(f"\n{line}", file=sys.stderr, flush=True)
