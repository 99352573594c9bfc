# SPDX-License-Identifier: Apache-2.0
"""Two clocks: the suite's clock, and the clock of an agent process, converted to the suite's.

An agent reports all its times in milliseconds since its own start. Two facts limit when this start
can have been on the suite's clock: a line was written before it was received, and an attempt began
after it was requested.
"""

import math
import threading
import time

DRIFT = 200e-6
"""The drift of an agent's clock from the suite's, in seconds per second. Oscillators differ by up
to 100 ppm (chrony's documentation names 100 as a usual bound), and a virtual machine's clock may be
adjusted by as much again."""

_EPOCH = time.time() - time.monotonic()


def unix(monotonic: float) -> float:
    """Convert a moment of ``time.monotonic`` to Unix seconds.

    These seconds never jump, even if the machine's clock is set.
    """
    return _EPOCH + monotonic


class AgentClock:
    """The clock of an agent process, which starts at zero when the process starts. Thread-safe.

    All moments here are of ``time.monotonic``, unless a docstring names the agent's clock.
    """

    def __init__(self, name: str, asked: float) -> None:
        """Begin an estimate. ``asked``: the moment when the exec that started the agent was
        requested."""
        self.name = name
        self._lock = threading.Lock()
        self._seen = asked
        self._earliest = asked
        self._latest = math.inf

    def record_line(self, up: float, received: float) -> None:
        """Record that a line arrived which the agent wrote ``up`` seconds after its start. The
        agent therefore started at least ``up`` seconds before ``received``."""
        with self._lock:
            self._age(received)
            self._latest = min(self._latest, received - up)
            self._earliest = min(
                self._earliest, self._latest
            )  # a clock has stepped: the newest bounds count

    def record_begin(self, own: float, asked: float) -> None:
        """Record that an attempt requested at ``asked`` began ``own`` seconds after the agent's
        start.
        """
        with self._lock:
            self._age(asked)
            self._earliest = max(self._earliest, asked - own)
            self._latest = max(self._earliest, self._latest)

    def start(self) -> tuple[float, float]:
        """Return when the agent started, and the maximum error of that time, in seconds."""
        with self._lock:
            if math.isinf(self._latest):
                return self._earliest, math.inf
            return (self._earliest + self._latest) / 2, (self._latest - self._earliest) / 2

    def place(self, own: float) -> tuple[float, float]:
        """Convert a moment of the agent's clock to the suite's clock. Return it with its maximum
        error in seconds."""
        started, error = self.start()
        return started + own, error

    def _age(self, now: float) -> None:
        """Widen the error of the estimate with time, since the clocks drift."""
        apart = max(0.0, now - self._seen) * DRIFT
        self._seen = max(self._seen, now)
        self._earliest = self._earliest - apart
        self._latest = self._latest + apart
