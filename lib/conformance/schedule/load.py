# SPDX-License-Identifier: Apache-2.0
"""The load of this machine, used by the header, ``-n auto`` and the notes: a slow machine delays
verdicts."""

import os
from collections.abc import Callable, Mapping, Sequence

from conformance.model.counted import counted
from conformance.probe.machine import FELT, PRESSED, lately

BUSY = 2.0
"""From this load average per core on, few workers are enough, since more workers would only wait
for each other."""


def busy(
    load: Callable[[], tuple[float, float, float]] = os.getloadavg,
    cores: int | None = os.cpu_count(),
    pressure: Callable[[], float | None] = lately,
) -> str:
    """Return ``a load of 9.3 on 2 cores`` if the machine is overloaded; empty if it is not.

    The load is an average over a minute. The pressure shows whether the overload has already ended.
    """
    newest = load()[0]
    cores = cores or 1
    pressed = pressure()
    if newest < BUSY * cores or (pressed is not None and pressed < PRESSED):
        return ""
    return f"a load of {newest:.1f} on {counted(cores, 'core')}"


def note(measured: Sequence[Mapping[str, float]]) -> str:
    """Return how late the machine was, by the measurements of each worker; empty if it was in
    time."""
    behind = max((figures["behind"] for figures in measured), default=0.0)
    given, excused = (
        int(sum(figures[name] for figures in measured)) for name in ("given", "excused")
    )
    if behind < FELT and not given:
        return ""
    parts = [f"this machine was behind by up to {behind:.1f} s"]
    parts += [f"{counted(given, 'wait')} got more time because of that"] if given else []
    parts += [f"{counted(excused, 'path')} could not be decided because of that"] if excused else []
    return "; ".join(parts)
