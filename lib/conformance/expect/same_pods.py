"""Before anything is said about the cluster: are the pods that it was seen with still the ones they were?"""

from __future__ import annotations

from collections.abc import Iterable

from conformance.expect import guard
from conformance.expect.traffic import Expect
from conformance.model.endpoint import Workload


def unless_changed(expect: Expect, workloads: Iterable[Workload], verdict: Exception) -> Exception:
    """As :func:`conformance.expect.guard.unless_changed`, with the expectation's patience."""
    return guard.unless_changed(expect.prober, workloads, expect.timings.run, expect.clock, verdict)
