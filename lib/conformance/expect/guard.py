"""Before anything is said about the cluster: are the pods that it was seen with still the ones they were?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from conformance.errors import EnvironmentBroken
from conformance.expect.explain import message
from conformance.model.endpoint import Workload
from conformance.settings import Timings
from conformance.timing import Clock, hold

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided


class Watcher(Protocol):
    """What the guard needs of probing."""

    def unchanged(self, workloads: Iterable[Workload]) -> None:
        """Raises EnvironmentBroken when one of these pods is gone, restarted, replaced or not running."""


class Guarded(Protocol):
    """What the guard needs of a test's expectations."""

    @property
    def prober(self) -> Watcher: ...

    @property
    def timings(self) -> Timings: ...

    @property
    def clock(self) -> Clock: ...


def pods_unchanged(expect: Guarded, workloads: Iterable[Workload], *, doubtful: bool) -> None:
    """Raises EnvironmentBroken when one of these pods is no longer the one it was.

    ``doubtful``: what was seen could come from a pod that ended just now; then it asks for as long as the API may not
    know of that yet.
    """
    several = list(workloads)
    if not doubtful:
        expect.prober.unchanged(several)
        return
    patience = expect.timings.run.pod_status
    hold(
        lambda: expect.prober.unchanged(several), lambda _: True, seconds=patience, every=patience / 2,
        description="the pods are what they were", clock=expect.clock,
    )  # fmt: skip


def unless_changed(expect: Guarded, workloads: Iterable[Workload], verdict: Exception) -> Exception:
    """``verdict``, or EnvironmentBroken when one of these pods is no longer the one it was: it explains more."""
    try:
        pods_unchanged(expect, workloads, doubtful=True)
    except EnvironmentBroken as broken:
        return EnvironmentBroken(message.explained(str(verdict), by=str(broken)))
    return verdict
