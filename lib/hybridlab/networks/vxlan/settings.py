# SPDX-License-Identifier: Apache-2.0
"""A profile's settings of VXLAN."""

from dataclasses import dataclass
from typing import Literal

from hybridlab.profiles.model import PlaneSettings, Profile

LARGEST_VNI = 2**24 - 1
DEFAULT_VNI = 4096
DEFAULT_PORT = 4789
"""The UDP port of VXLAN by default, as in Calico."""


@dataclass(frozen=True, kw_only=True)
class VxlanSettings(PlaneSettings):
    """Calico's VXLAN overlay."""

    kind: Literal["vxlan"] = "vxlan"
    vni: int = DEFAULT_VNI
    port: int = DEFAULT_PORT
    """The UDP port on Linux; Windows supports no other than 4789."""

    windows_host_reaches_pods: bool = False
    """True: a Windows host itself reaches pods of other nodes. Sources contradict each other: the
    walkthrough of 2020 denies this, but HNS' routes would allow it."""
    windows_host_reaches_services: bool = False
    """True: a Windows host itself reaches ClusterIPs. Documents contradict each other about this.
    """

    def problem(self, profile: Profile) -> tuple[str, str] | None:
        for name, value, high in (("vni", self.vni, LARGEST_VNI), ("port", self.port, 65535)):
            if not 1 <= value <= high:
                return name, f"is {value}, expected 1 to {high}"
        if profile.network.ipam == "host-local":
            return (
                "",
                "is vxlan, which Calico supports only with its own IPAM, "
                "but network.ipam is host-local",
            )
        return None
