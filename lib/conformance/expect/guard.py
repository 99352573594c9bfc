"""Before anything is said about the cluster: are the pods that it was seen with still the ones they were?"""

from __future__ import annotations

from collections.abc import Iterable

from conformance.errors import EnvironmentBroken
from conformance.expect.explain import message
from conformance.expect.session import Session
from conformance.model.endpoint import Workload
from conformance.timing import hold

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided


def pods_unchanged(expect: Session, workloads: Iterable[Workload], *, doubtful: bool) -> None:
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


def unless_changed(expect: Session, workloads: Iterable[Workload], verdict: Exception) -> Exception:
    """``verdict``, or EnvironmentBroken when one of these pods is no longer the one it was: it explains more."""
    try:
        pods_unchanged(expect, workloads, doubtful=True)
    except EnvironmentBroken as broken:
        told = getattr(verdict, "explanation", None) or str(verdict)
        return EnvironmentBroken(message.explained(told, by=str(broken)))
    return verdict
