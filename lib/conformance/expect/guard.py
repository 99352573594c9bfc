"""Before anything is said about the cluster: are the pods that it was seen with still the ones they were?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from conformance.errors import EnvironmentBroken, Nonconformance
from conformance.expect.explain import message
from conformance.model.attempt import Attempt
from conformance.model.endpoint import Workload
from conformance.model.observation import Observation
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

    def excused(
        self, text: str, attempt: Attempt, seen: Sequence[Observation], *, want: bool
    ) -> EnvironmentBroken | None:
        """What takes the place of a message where a policy of others could give what was seen."""


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


def unless_changed(
    expect: Guarded, workloads: Iterable[Workload], verdict: Exception, *, want: bool = True
) -> Exception:
    """``verdict``, or EnvironmentBroken when one of these pods is no longer the one it was: it explains more.

    So does a policy of others, where a way that is to be open (``want``) is closed, or the other way round.
    """
    try:
        pods_unchanged(expect, workloads, doubtful=True)
    except EnvironmentBroken as broken:
        return EnvironmentBroken(message.explained(str(verdict), by=str(broken)))
    seen = verdict.seen if isinstance(verdict, Nonconformance) else ()
    return (expect.excused(str(verdict), seen[-1].attempt, seen, want=want) if seen else None) or verdict
