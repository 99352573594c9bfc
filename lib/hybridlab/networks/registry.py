# SPDX-License-Identifier: Apache-2.0
"""Every plane that is built, by the name that profiles call it; the assembly asks here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hybridlab.networks.contract.plane import Plane
from hybridlab.networks.l2bridge.plane import L2Bridge
from hybridlab.networks.vxlan.plane import Vxlan
from hybridlab.profiles.model import Profile

if TYPE_CHECKING:  # a profile is loaded before anything else of a lab is
    from hybridlab.faults.model import FaultType

PLANES: Mapping[str, type[Plane]] = {"vxlan": Vxlan, "l2bridge": L2Bridge}
DEFAULT = "vxlan"
"""The plane of a profile that names none."""


def plane_of(profile: Profile) -> Plane:
    """The plane of a cluster."""
    return PLANES[profile.network.plane.kind](profile)


def fault_types(kind: str | None = None) -> dict[str, FaultType]:
    """Every fault by name, or those that exist on one plane; a fault of one plane is in that plane's folder."""
    from hybridlab.faults.registry import (
        TYPES,  # nothing but a lab and the list of faults needs them
    )

    planes = PLANES.values() if kind is None else (PLANES[kind],)
    return {
        found.name: found
        for found in (*(fault for plane in planes for fault in plane.fault_types()), *TYPES)
    }
