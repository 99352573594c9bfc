"""Before anything is said about the cluster: are the pods that it was seen with still the ones they were?"""

from __future__ import annotations

from collections.abc import Iterable

from conformance.errors import EnvironmentBroken
from conformance.expect.traffic import Expect
from conformance.model.endpoint import Workload
from conformance.timing import hold

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided


def unless_changed(expect: Expect, workloads: Iterable[Workload], verdict: Exception) -> Exception:
    """``verdict``, or EnvironmentBroken when one of these pods is gone, was replaced or restarted: it explains more.

    Asks for as long as the API may not know yet of a container that ended.
    """
    several = list(workloads)
    run = expect.timings.run
    try:
        hold(
            lambda: expect.prober.unchanged(several), lambda _: True, seconds=run.pod_status,
            every=run.pod_status / 2, what="the pods are what they were", clock=expect.clock,
        )  # fmt: skip
    except EnvironmentBroken as broken:
        return EnvironmentBroken(f"{broken}, while this was seen: {verdict}")
    return verdict
