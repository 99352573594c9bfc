# SPDX-License-Identifier: Apache-2.0
"""A line now and then about what a run waits for, past what captures output: pulling Windows images
takes minutes."""

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress


class Progress:
    """Called with ``what: state``; tells a state when ``what`` has been waited for since at least
    ``every`` seconds.

    An empty state ends the wait: the next one for the same begins anew. Thread-safe.  Goes to
    standard error, which xdist's workers share with the process that the user started."""

    def __init__(
        self,
        every: float,
        uncaptured: Callable[[], AbstractContextManager[object]] = nullcontext,
        told: Callable[[], None] = lambda: None,
    ) -> None:
        """Within ``uncaptured()``, what is printed reaches the user; ``told`` is called when
        something was."""
        self._every = every
        self._uncaptured = uncaptured
        self._heard = told
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
        self._heard()


class Alive:
    """Tells what goes on whenever the user has heard nothing for a while, from a thread of its own.

    Writes to a file descriptor past what captures output: a test's capturing is not for other
    threads to suspend."""

    def __init__(self) -> None:
        self._doing = ""
        self._since = 0.0
        self._last = 0.0
        self._descriptor = 2
        self._ended = threading.Event()

    def begin(self, every: float, descriptor: int) -> None:
        """From now on, until :meth:`end`.  ``every``: s of silence that a user is left with at
        most."""
        self._ended.clear()
        self._descriptor = os.dup(
            descriptor
        )  # pytest closes its own at Ctrl-C, and another file gets that number
        threading.Thread(
            target=self._watch, args=(every, self._descriptor), name="alive", daemon=True
        ).start()

    def end(self) -> None:
        self._ended.set()

    def heard(self) -> None:
        """The user has heard something just now."""
        self._last = time.monotonic()

    def doing(self, what: str) -> None:
        """This goes on from now on; empty: nothing that takes its time."""
        if what != self._doing:
            self._doing = what
            self._since = time.monotonic()

    def say(self, line: str) -> None:
        """At once, from wherever: a handler of a signal may be called in the midst of printing."""
        with suppress(OSError):  # nobody reads any more
            os.write(self._descriptor, f"\n{line}\n".encode())

    def _watch(self, every: float, descriptor: int) -> None:
        self.heard()
        while not self._ended.wait(every / 10):
            now = time.monotonic()
            what = self._doing
            if what and now - self._last >= every:
                self.heard()
                self.say(f"[{now - self._since:.0f} s] {what}")
        os.close(descriptor)
