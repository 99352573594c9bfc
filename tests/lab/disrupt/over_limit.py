# SPDX-License-Identifier: Apache-2.0
"""A plugin that makes a test exceed its time limit just after a phase of a disruption has begun.

``OVER_LIMIT`` has the module, class and method that begin the phase, and the number of calls that
pass before. If ``now`` follows, the limit is exceeded before the method does anything.
"""

from __future__ import annotations

import functools
import importlib
import os
import signal
from typing import Any

SOON = 0.05
"""s. After this time every phase is under way, and none is over."""


def pytest_configure() -> None:
    """Replace the method."""
    module, owner, name, passes, *now = os.environ["OVER_LIMIT"].split()
    place = getattr(importlib.import_module(module), owner)
    real = getattr(place, name)
    calls = 0

    @functools.wraps(real)
    def begins(*words: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == int(passes) + 1 and signal.getitimer(signal.ITIMER_REAL)[0]:
            if now:
                signal.raise_signal(signal.SIGALRM)
            signal.setitimer(signal.ITIMER_REAL, SOON)
        return real(*words, **more)

    setattr(place, name, begins)
