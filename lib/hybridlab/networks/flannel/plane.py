# SPDX-License-Identifier: Apache-2.0
"""flannel's VXLAN overlay: flanneld routes each node's podCIDR through a tunnel, and Calico only
enforces policy.

Nobody has tested Calico for Windows with it (claim FL-2). Sources: flannel-io/flannel
pkg/backend/vxlan (vxlan_windows.go, device_windows.go, vxlan_network.go); flannel-io/cni-plugin
flannel_windows.go; containernetworking/plugins plugins/main/windows/win-overlay.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from hybridlab.dataplane.model import FabricTable, NodeRoutes, PodPort
from hybridlab.networks.contract.plane import NodeProgram
from hybridlab.networks.contract.routing import NodeEnd, RoutingFacts
from hybridlab.networks.contract.windows_node import WindowsNode
from hybridlab.networks.flannel.settings import FlannelSettings
from hybridlab.networks.routed.plane import PUBLIC_IP, Routed
from hybridlab.networks.routed.plugins import ANNOTATIONS, Flannel
from hybridlab.networks.vxlan.plane import (
    OVERHEAD,
    external_network,
    overlay,
    pod_mac,
    remote_subnets,
    vtep_mac,
)
from hybridlab.networks.vxlan.routes import linux_vtep_mac, node_routes, tunnel_of
from hybridlab.networks.vxlan.settings import DEFAULT_PORT
from hybridlab.profiles.machines import Machine
from hybridlab.profiles.model import Profile
from hybridlab.windows.dsr import uses_dsr
from hybridlab.windows.hns_networks import NetworkSpec
from hybridlab.windows.kube_proxy import NetworkFlags
from hybridlab.windows.reserved import source_vip

if TYPE_CHECKING:
    from hybridlab.faults.model import FaultType

BACKEND_DATA = f"{ANNOTATIONS}/backend-data"
"""Annotation by which flanneld announces the VNI and the MAC of its tunnel."""


class FlannelOverlay(Flannel):
    """flannel's plugin for the backend ``vxlan``, which delegates to win-overlay."""

    kube_network = "flannel.*"
    host_endpoint = ""

    def __init__(self, profile: Profile, vni: int) -> None:
        super().__init__(profile)
        self.network = f"flannel.{vni}"  # type: ignore[misc]  # by its VNI
        self._vni = vni

    def delegate(self) -> dict[str, Any]:
        return {"type": "win-overlay", "policies": self._policies()}

    def unmasqueraded(self) -> tuple[str, ...]:
        return ()

    def node_annotations(self, machine: Machine) -> dict[str, str]:
        mac = (vtep_mac if machine.os == "windows" else linux_vtep_mac)(machine.name)
        data = json.dumps({"VNI": self._vni, "VtepMAC": mac})
        return super().node_annotations(machine) | {
            f"{ANNOTATIONS}/backend-type": "vxlan",
            BACKEND_DATA: data,
        }


class FlannelVxlan(Routed):
    """The VXLAN overlay of flannel in a cluster."""

    kind: ClassVar[str] = "flannel"
    settings_type = FlannelSettings

    def __init__(self, profile: Profile) -> None:
        settings = profile.network.plane
        if not isinstance(settings, FlannelSettings):
            raise TypeError(f"settings of plane {settings.kind} are given to plane {self.kind}")
        self._vni = settings.vni
        super().__init__(profile)
        self.device = self.pod_network  # type: ignore[misc]  # flannel names both by the VNI

    def made_plugin(self) -> FlannelOverlay:
        return FlannelOverlay(self.profile, self._vni)

    @classmethod
    def fault_types(cls) -> tuple[FaultType, ...]:
        from hybridlab.networks.routed import faults  # only a lab that runs needs them
        from hybridlab.networks.vxlan.faults import underlay

        return (*faults.TYPES, *underlay.TYPES)

    def pod_port(
        self, machine: Machine, address: str, network: str, windows: WindowsNode | None
    ) -> PodPort:
        """Return a pod's port; win-overlay derives the port's MAC from the address, like Calico."""
        port = super().pod_port(machine, address, network, windows)
        return port if windows is None else replace(port, mac=pod_mac(address))

    def mtu(self, override: int | None) -> int:
        return override if override is not None else super().mtu(None) - OVERHEAD

    def node_end(self, name: str, metadata: Mapping[str, Any]) -> NodeEnd | None:
        """Return the tunnel that flanneld announces: its address is the first of the podCIDR."""
        announced = metadata.get("annotations") or {}
        if PUBLIC_IP not in announced or BACKEND_DATA not in announced:
            return None
        return NodeEnd(
            address=announced[PUBLIC_IP],
            tunnel_address=str(ipaddress.ip_network(self._network_of(name))[0]),
            tunnel_mac=json.loads(announced[BACKEND_DATA])["VtepMAC"],
        )

    def program(
        self, node: str, facts: RoutingFacts, felix: Mapping[str, Any], windows: WindowsNode | None
    ) -> NodeProgram:
        """Return the tunnel and routes of flanneld; FelixConfiguration does not affect them."""
        by_router = super().program(node, facts, felix, windows).routes
        tunnel = tunnel_of(facts, node, vni=self._vni, port=DEFAULT_PORT, mtu=self.mtu(None))
        made = None if tunnel is None else replace(tunnel, device=self.device)
        through, unknown = node_routes(facts, node, tunnel=made is not None)
        hidden = {
            facts.ends[there].address
            for here, there in self.missing.node_routes.values()
            if here == node and there in facts.ends
        }
        remote = (block for block in through.remote_blocks if block.node_address not in hidden)
        return NodeProgram(
            tunnel=made, routes=replace(by_router, remote_blocks=tuple(remote)), unknown=unknown
        )

    def fabric(self, facts: RoutingFacts) -> FabricTable:
        return FabricTable(source_check=self.source_checked)

    def external_network(self, machine: Machine) -> NetworkSpec:
        return external_network(machine)

    def _host_endpoint(self, windows: WindowsNode | None) -> None:
        """Return None: the endpoint that kube-proxy creates for its source VIP is a remote
        endpoint, and no address of the host."""

    def _network(self, machine: Machine, block: str) -> NetworkSpec:
        """Return the pods' network of a Windows node. It has the endpoint of kube-proxy's source
        VIP, which has no name."""
        vip = source_vip(block)
        own = replace(
            super()._network(machine, block),
            host_endpoint=(vip, pod_mac(vip)),
            host_endpoint_name="",
        )
        return overlay(own, machine, self._vni)

    def hns_routes(self, routes: NodeRoutes, windows: WindowsNode) -> list[dict[str, Any]]:
        return remote_subnets(routes, self._vni)

    def service_source(self, machine: Machine, block: str, *, enable_dsr: bool) -> str | None:
        """Return kube-proxy's ``--source-vip``, an address that host-local gave to the node."""
        return (
            None
            if uses_dsr(machine.group.windows_build, enable_dsr=enable_dsr)
            else source_vip(block)
        )

    def kube_proxy(self, host_endpoint: str) -> NetworkFlags:
        return NetworkFlags(flags=(f"--source-vip={host_endpoint}",), gates=("WinOverlay=true",))
