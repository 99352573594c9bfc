"""How long disruptions may take, for one operating system; made from the run's timings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from conformance.model.endpoint import OS


@dataclass(frozen=True, kw_only=True)
class Patience:
    """Seconds; what each means, and why: ``settings.timings``."""

    felix_restart: float
    drain: float
    vni_delivery: float
    evict_again: float
    poll_every: float


PatienceOf = Callable[[OS], Patience]
