"""What this machine has to do, for the header, ``-n auto`` and the notes: a machine that runs late delays verdicts."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from conformance.model.counted import counted
from conformance.probe.machine import FELT

BUSY = 2.0
"""Processes that want each core, from which on one worker is enough: more of them would only wait for each other."""


def busy(load: Callable[[], tuple[float, float, float]] = os.getloadavg, cores: int | None = os.cpu_count()) -> str:
    """``a load of 9.3 on 2 cores``, where something else keeps the machine busy; empty: nothing does."""
    newest, cores = load()[0], cores or 1
    return f"a load of {newest:.1f} on {counted(cores, 'core')}" if newest >= BUSY * cores else ""


def note(measured: Sequence[Mapping[str, float]]) -> str:
    """How far behind the machine was, by what each worker measured; empty: it was in time."""
    behind = max((one["behind"] for one in measured), default=0.0)
    given, excused = (int(sum(one[name] for one in measured)) for name in ("given", "excused"))
    if behind < FELT and not given:
        return ""
    parts = [f"this machine was behind by up to {behind:.1f} s"]
    parts += [f"{counted(given, 'wait')} got more time for it"] if given else []
    parts += [f"{counted(excused, 'path')} could not be decided for it"] if excused else []
    return "; ".join(parts)
