"""A line now and then about what a run waits for, past pytest's capturing: pulling Windows images takes minutes."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import nullcontext
from typing import Any

import pytest


class Progress:
    """Called with ``what: state``; tells a state when ``what`` has been waited for since at least ``every`` seconds.

    An empty state ends the wait: the next one for the same begins anew.
    Thread-safe.  Goes to standard error, which xdist's workers share with the process that the user started.
    """

    def __init__(self, config: pytest.Config, every: float) -> None:
        self._capture: Any = config.pluginmanager.getplugin("capturemanager")
        self._every = every
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
        """Tell at once."""
        with self._capture.global_and_fixture_disabled() if self._capture else nullcontext():
            print(f"\n{line}", file=sys.stderr, flush=True)
