# SPDX-License-Identifier: Apache-2.0
"""Every implemented plane, by its name in profiles; only the code that puts a lab together reads
this registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hybridlab.networks.contract.plane import Plane
from hybridlab.networks.flannel.plane import FlannelVxlan
from hybridlab.networks.l2bridge.plane import L2Bridge
from hybridlab.networks.routed.plane import Routed
from hybridlab.networks.vxlan.plane import Vxlan
from hybridlab.profiles.model import Profile

if TYPE_CHECKING:  # profiles are loaded before anything else of a lab
    from hybridlab.faults.model import FaultType

PLANES: Mapping[str, type[Plane]] = {
    plane.kind: plane for plane in (Vxlan, L2Bridge, Routed, FlannelVxlan)
}
DEFAULT = "vxlan"
"""The plane of a profile that names no plane."""


def plane_of(profile: Profile) -> Plane:
    """Return the plane of a cluster."""
    return PLANES[profile.network.plane.kind](profile)


def fault_types(kind: str | None = None) -> dict[str, FaultType]:
    """Return all faults by name; with ``kind``, only the faults that a lab with this plane can
    have. A plane's own faults are in its folder."""
    from hybridlab.faults.registry import (
        TYPES,  # only a lab and the list of faults need them
    )

    planes = PLANES.values() if kind is None else (PLANES[kind],)
    return {
        found.name: found
        for found in (*(fault for plane in planes for fault in plane.fault_types()), *TYPES)
    }
