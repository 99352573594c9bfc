"""Before anything is said about the cluster: are the pods that it was seen with still the ones they were?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from conformance.errors import EnvironmentBroken
from conformance.model.endpoint import Workload
from conformance.settings import RunTimings
from conformance.timing import Clock, hold

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided


class Watcher(Protocol):
    """What the guard needs of probing."""

    def unchanged(self, workloads: Iterable[Workload]) -> None:
        """Raises EnvironmentBroken when one of these pods is gone, restarted, replaced or not running."""


def pods_unchanged(watcher: Watcher, workloads: Iterable[Workload], patience: RunTimings, clock: Clock) -> None:
    """Raises EnvironmentBroken when one of these pods is no longer the one it was.

    Asks for as long as the API may not know yet of a container that ended.
    """
    several = list(workloads)
    hold(
        lambda: watcher.unchanged(several), lambda _: True, seconds=patience.pod_status,
        every=patience.pod_status / 2, description="the pods are what they were", clock=clock,
    )  # fmt: skip


def unless_changed(
    watcher: Watcher, workloads: Iterable[Workload], patience: RunTimings, clock: Clock, verdict: Exception
) -> Exception:
    """``verdict``, or EnvironmentBroken when one of these pods is no longer the one it was: it explains more."""
    try:
        pods_unchanged(watcher, workloads, patience, clock)
    except EnvironmentBroken as broken:
        return EnvironmentBroken(f"{broken}, while this was seen: {verdict}")
    return verdict
