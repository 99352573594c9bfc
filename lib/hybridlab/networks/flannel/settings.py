# SPDX-License-Identifier: Apache-2.0
"""A profile's settings of flannel's VXLAN."""

from dataclasses import dataclass
from typing import Literal

from hybridlab.networks.vxlan.settings import LARGEST_VNI
from hybridlab.profiles.model import PlaneSettings, Profile

SMALLEST_VNI = 4096
"""The smallest VNI on Windows. flannel's default on Linux is 1, so a hybrid cluster must set the
VNI."""


@dataclass(frozen=True, kw_only=True)
class FlannelSettings(PlaneSettings):
    """flannel's backend ``vxlan``, as its ConfigMap sets it for a hybrid cluster."""

    kind: Literal["flannel"] = "flannel"
    vni: int = SMALLEST_VNI

    def problem(self, profile: Profile) -> tuple[str, str] | None:
        if not SMALLEST_VNI <= self.vni <= LARGEST_VNI:
            return "vni", f"is {self.vni}, expected {SMALLEST_VNI} to {LARGEST_VNI}"
        if profile.network.ipam != "host-local":
            return "", "is flannel, which needs network.ipam=host-local"
        if profile.calico.install == "operator":
            return "", "is flannel, which Calico's operator does not support"
        return None
