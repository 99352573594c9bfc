# SPDX-License-Identifier: Apache-2.0
"""All taps of the detection table by their names in rows, and the faults that only its rows
need."""

from __future__ import annotations

from hybridlab.faults.model import Taps
from tests.detection.taps import (
    denials,
    full_nodes,
    hns_state,
    others,
    over_time,
    overlay,
    policy_edits,
    policy_lost,
    policy_misread,
    readings,
    routes,
    service_tables,
    updates,
    windows_hosts,
)
from tests.detection.taps.clocks import ALL_BEHIND
from tests.detection.taps.seams import Put
from tests.detection.taps.words import WAYS

FAULTS = {
    fault.name: fault
    for module in (
        policy_misread,
        policy_lost,
        policy_edits,
        denials,
        service_tables,
        hns_state,
        windows_hosts,
        readings,
        full_nodes,
        overlay,
    )
    for fault in module.TYPES
}
"""Faults that only rows need, by name."""

PUTS: dict[str, Put] = {
    **{f"written {name}": updates.written(way) for name, way in WAYS.items()},
    **updates.PUTS,
    **over_time.PUTS,
    **routes.PUTS,
    **others.PUTS,
    ALL_BEHIND: lambda lab: None,
}
"""Map each tap's name (and way, if it has several) to the function that puts it at a lab's
seams."""


def taps(name: str) -> Taps:
    """Return the additions with which a lab with one tap starts; an empty name means no tap."""
    return Taps(FAULTS, PUTS[name]) if name else Taps(FAULTS)
