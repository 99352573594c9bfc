# SPDX-License-Identifier: Apache-2.0
"""A profile's settings of networks whose routes Calico does not set."""

from dataclasses import dataclass
from typing import Literal

from hybridlab.profiles.model import PlaneSettings, Profile

PluginName = Literal["calico", "win-bridge", "azure-vnet", "vpc-bridge", "flannel"]
IPAM = {"azure-vnet": "platform", "vpc-bridge": "platform"}
"""The source of pods' addresses of each plugin that does not use host-local."""
BY_OPERATOR = frozenset({"calico", "azure-vnet", "vpc-bridge"})
"""Plugins that Calico's operator supports."""


@dataclass(frozen=True, kw_only=True)
class RoutedSettings(PlaneSettings):
    """Calico enforces policy, and another program or person sets the routes."""

    kind: Literal["routed"] = "routed"
    routes: Literal["cloud", "static"] = "cloud"
    """cloud: the underlay's router routes each node's network of pods to the node. static: every
    node has a route to every other node, which is set by an administrator, or by flannel host-gw
    from the nodes' annotations."""
    plugin: PluginName = "calico"
    """The CNI plugin of Windows nodes; with azure-vnet and vpc-bridge, Linux nodes have a plugin of
    the platform, too."""
    pool: bool = True
    """True: calico-node started without NO_DEFAULT_POOLS, found no pool, and created
    default-ipv4-ippool (Calico's startup; not verified on AKS and EKS)."""
    pool_cidr: str = ""
    """The network of this pool: kubeadm's podSubnet, else 192.168.0.0/16; empty:
    network.pod_cidr."""

    def problem(self, profile: Profile) -> tuple[str, str] | None:
        ipam = IPAM.get(self.plugin, "host-local")
        if profile.network.ipam != ipam:
            return "plugin", f"is {self.plugin}, which needs network.ipam={ipam}"
        operator = profile.calico.install == "operator"
        if operator and self.plugin not in BY_OPERATOR:
            return "plugin", f"is {self.plugin}, which Calico's operator does not support"
        if self.plugin == "calico" and not operator:
            return "plugin", "is calico, which is implemented only with calico.install=operator"
        if self.plugin == "flannel" and self.routes == "cloud":
            return "routes", "is cloud, but flannel host-gw sets the nodes' routes: use static"
        return None
