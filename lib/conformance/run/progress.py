# SPDX-License-Identifier: Apache-2.0
"""Progress lines about long waits of a run, printed around pytest's capturing: pulling Windows
images takes minutes."""

import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import UTC, datetime

from conformance import printing


class Progress:
    """A printer of waits: ``what: state`` is printed after ``what`` has lasted for ``every``
    seconds.

    An empty state ends the wait; the next state for the same ``what`` begins a new wait.
    Thread-safe. Prints to standard error, which xdist's workers share with the process that the
    user started.
    """

    def __init__(
        self,
        every: float,
        uncaptured: Callable[[], AbstractContextManager[object]] = nullcontext,
        printed: Callable[[], None] = lambda: None,
    ) -> None:
        """Set up the printer. Text printed within ``uncaptured()`` reaches the user; ``printed`` is
        called after each text."""
        self._every = every
        self._uncaptured = uncaptured
        self._note_output = printed
        self._lock = threading.Lock()
        self._begin: dict[str, float] = {}
        self._printed: dict[str, float] = {}

    def __call__(self, line: str) -> None:
        """Print the line, unless a line about the same wait was printed a moment ago. Short waits
        are not printed at all."""
        what, _, state = line.partition(": ")
        with self._lock:
            if not state:
                self._begin.pop(what, None)
                self._printed.pop(what, None)
                return
            now = time.monotonic()
            begin = self._begin.setdefault(what, now)
            if now - self._printed.setdefault(what, now) < self._every:
                return
            self._printed[what] = now
            self.tell(f"[{now - begin:.0f} s] {line}")

    def tell(self, line: str) -> None:
        with self._uncaptured():
            printing.say("", line, error=True)
        self._note_output()


class Alive:
    """A thread that prints the present activity if nothing was printed for a while.

    Writes to a file descriptor around pytest's capturing, which other threads must not suspend.
    """

    def __init__(self) -> None:
        self._doing = ""
        self._since = 0.0
        self._last = 0.0
        self._descriptor = 2
        self._ended = threading.Event()
        self._silent = float("inf")
        self._tests: dict[str, tuple[float, float]] = {}
        """Tests that run, with their start and the time of the newest news or line (``time.time``).
        """

    def begin(self, every: float, descriptor: int, silent: float = float("inf")) -> None:
        """Print from now on, until :meth:`end`.

        ``every``: the longest time in seconds without a line for the user; ``silent``: seconds
        without news of a test, after which the test is named.
        """
        self._ended.clear()
        self._silent = silent
        self._descriptor = os.dup(
            descriptor
        )  # pytest closes its own descriptor at Ctrl-C, and another file gets that number
        threading.Thread(
            target=self._watch, args=(every, self._descriptor), name="alive", daemon=True
        ).start()

    def end(self) -> None:
        self._ended.set()

    def note_output(self) -> None:
        """Record that something was printed just now."""
        self._last = time.monotonic()

    def doing(self, what: str) -> None:
        """Set the present activity; empty: tests run, or there is no long activity."""
        if what != self._doing:
            self._doing = what
            self._since = time.monotonic()

    def test_began(self, test: str) -> None:
        """Record that a test began. News of the test is expected until the test has ended."""
        self._tests[test] = time.time(), time.time()

    def note_news_of(self, test: str) -> None:
        """Record news of a test that runs."""
        if test in self._tests:
            self._tests[test] = self._tests[test][0], time.time()

    def test_ended(self, test: str) -> None:
        self._tests.pop(test, None)

    def say(self, *lines: str) -> None:
        """Print at once. This may be called anywhere, even by a signal's handler that interrupts
        printing."""
        text = "\n".join(map(printing.line, lines))
        with suppress(OSError):  # the output has no reader any more
            os.write(self._descriptor, f"\n{text}\n".encode())

    def _watch(self, every: float, descriptor: int) -> None:
        self.note_output()
        while not self._ended.wait(every / 10):
            self._name_silent(time.time())
            now = time.monotonic()
            lines = self._activities(now)
            if lines and now - self._last >= every:
                self.note_output()
                self.say(*lines)
        os.close(descriptor)

    def _activities(self, now: float) -> list[str]:
        """Return a line about the present activity; if there is none, a line for each test that
        runs, the oldest first."""
        if self._doing:
            return [f"[{now - self._since:.0f} s] {self._doing}"]
        running = list(self._tests.items())
        return [f"[{time.time() - began:.0f} s] {test} is running" for test, (began, _) in running]

    def _name_silent(self, now: float) -> None:
        """Print the name of each test without news for too long, and repeat the name at the same
        interval."""
        for test, (began, received) in list(self._tests.items()):
            if now - received >= self._silent:
                since = f"{datetime.fromtimestamp(began, UTC):%H:%M:%SZ}"
                self.say(
                    f"no report about {test} for {now - began:.0f} s: "
                    f"its worker has run it since {since}"
                )
                self.note_news_of(test)
