# SPDX-License-Identifier: Apache-2.0
"""The time that disruptions may take on each operating system, from the run's timings."""

from collections.abc import Callable
from dataclasses import dataclass

from conformance.model.endpoint import OS
from conformance.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Patience:
    """Time limits in seconds; ``settings.timings`` explains each of them."""

    felix_restart: float
    drain: float
    vni_delivery: float
    evict_again: float
    pod_ready: float
    poll_every: float


PatienceOf = Callable[[OS], Patience]


def patience_of(settings: Settings) -> PatienceOf:
    """Return the run's time limits for disruptions."""

    def patience(os: OS) -> Patience:
        own = settings.timings.of(os)
        run = settings.timings.run
        return Patience(
            felix_restart=own.felix_restart,
            drain=own.drain,
            vni_delivery=run.vni_delivery,
            evict_again=run.evict_again,
            pod_ready=own.pod_ready,
            poll_every=own.agree_every,
        )

    return patience
