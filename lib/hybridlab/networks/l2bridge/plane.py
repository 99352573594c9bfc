# SPDX-License-Identifier: Apache-2.0
"""Calico without encapsulation: nodes announce their blocks by BGP, and pods' packets travel
unchanged.

Windows pods are on an l2bridge network; their gateway is the host's own endpoint there. The
sessions of ``bgp`` decide which node learns which block; ``remote_access`` answers a host's BGP
cmdlets.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from hybridlab.dataplane.model import (
    DirectRoute,
    FabricRoute,
    FabricTable,
    HostEndpoint,
    NodeRoutes,
    PodPort,
)
from hybridlab.networks.contract.addresses import AddressSource
from hybridlab.networks.contract.plane import Declared, NodeProgram, Plane, Table
from hybridlab.networks.contract.routing import IPV4_ADDRESS, NodeEnd, RoutingFacts
from hybridlab.networks.contract.windows_node import WindowsNode
from hybridlab.networks.l2bridge.bgp import Bgp, end_of
from hybridlab.networks.l2bridge.bird import Bird
from hybridlab.networks.l2bridge.remote_access import RemoteAccess
from hybridlab.networks.l2bridge.settings import L2BridgeSettings, broken
from hybridlab.profiles.machines import Machine, machines
from hybridlab.profiles.model import OS, Profile
from hybridlab.windows.dsr import uses_dsr
from hybridlab.windows.hns_networks import (
    EXTERNAL_GATEWAY,
    EXTERNAL_NETWORK,
    EXTERNAL_SUBNET,
    HOST_ENDPOINT,
    POD_NETWORK,
    NetworkSpec,
    endpoint_mac,
)
from hybridlab.windows.kube_proxy import NetworkFlags
from hybridlab.windows.reserved import gateway, source_vip

if TYPE_CHECKING:
    from hybridlab.faults.model import FaultType

BIRD = 12
"""The routing protocol of BIRD, as its number in ``ip route``."""
TYPE = "L2Bridge"
"""The type of the pods' HNS network, as HNS names it."""


class L2Bridge(Plane):
    """The routed network of a cluster."""

    kind: ClassVar[str] = "l2bridge"
    settings_type = L2BridgeSettings
    device: ClassVar[str] = "eth0"

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile)
        plane = (
            profile.network.plane
            if isinstance(profile.network.plane, L2BridgeSettings)
            else L2BridgeSettings()
        )
        self._settings = plane
        configures = not broken(profile.calico.on("windows"))
        self._knows_no_pod_cidr = plane.as_shipped and profile.network.ipam == "host-local"
        nodes = {machine.name: machine.os for machine in machines(profile)}
        self.bgp = Bgp(nodes, configures=configures, routers=plane.routers)
        self._subnets = {machine.name: machine.subnet for machine in machines(profile)}

    @classmethod
    def fault_types(cls) -> tuple[FaultType, ...]:
        from hybridlab.networks import bridge_faults  # only a lab that runs needs them
        from hybridlab.networks.l2bridge.faults import TYPES

        return (*TYPES, *bridge_faults.TYPES)

    def pod_port(
        self, machine: Machine, address: str, network: str, windows: WindowsNode | None
    ) -> PodPort:
        if windows is None:
            return PodPort(mtu=self.mtu(self.profile.network.calico_mtu))
        mac = endpoint_mac(machine.name, address)
        return PodPort(
            gateway=source_vip(network), mtu=self.mtu(self.profile.network.windows_mtu), mac=mac
        )

    def mtu(self, override: int | None) -> int:
        return override if override is not None else self.profile.network.underlay_mtu

    def claim(self, machine: Machine, addresses: AddressSource) -> dict[str, str]:
        """Claim a Windows node's block before its first pod. A node's annotations contain only its
        address."""
        if machine.os == "windows":
            addresses.own_network(machine.name)
        return {}

    def claims_blocks(self, machine: Machine) -> bool:
        """Return whether a node claims IPAM blocks although its podCIDR should be its block.

        A Windows node does so if the scripts are used as shipped: they derive USE_POD_CIDR from
        CNI_IPAM_TYPE, which the operator does not set
        (node/windows-packaging/CalicoWindows/node/node-service.ps1).
        """
        return self._knows_no_pod_cidr and machine.os == "windows" and self.starts(machine)

    def starts(self, machine: Machine) -> bool:
        """Return whether calico-node starts. It does not start after a manual installation with
        CNI_IPAM_TYPE and USE_POD_CIDR.

        Its startup then requests a block from a client without IPAM, again and again: "operation
        not supported" (libcalico-go/lib/backend/k8s/client.go).
        """
        return not (
            self._knows_no_pod_cidr
            and machine.os == "windows"
            and self.profile.calico.install == "services"
        )

    def node_end(self, name: str, metadata: Mapping[str, Any]) -> NodeEnd | None:
        address = (metadata.get("annotations") or {}).get(IPV4_ADDRESS, "").partition("/")[0]
        return end_of(address, metadata) if address else None

    def program(
        self, node: str, facts: RoutingFacts, felix: Mapping[str, Any], windows: WindowsNode | None
    ) -> NodeProgram:
        """Return the routes that BIRD (on Windows: RemoteAccess) sets: learned blocks with the
        addresses of their nodes.

        A block with a next hop outside the underlay is learned, but gets no route.
        """
        direct = [
            DirectRoute(cidr=cidr, via=facts.ends[owner].address, protocol=BIRD)
            for cidr, owner in facts.elsewhere(node)
            if owner in facts.ends
            and self.bgp.learns(node, owner, facts)
            and self._on_link(node, owner, facts)
        ]
        near = {route.cidr for route in direct}
        direct += [
            DirectRoute(cidr=network, via=peer.address, protocol=BIRD)
            for network, peer in self.bgp.announced_by_routers(node, facts)
            if network not in near
        ]
        routes = NodeRoutes(
            own_blocks=facts.own_blocks(node),
            own_protocol=BIRD,
            direct=tuple(direct),
            host_endpoint=_host_endpoint(windows),
            pools=facts.pool_cidrs(),
            nat_outgoing=facts.nat_outgoing,
        )
        return NodeProgram(tunnel=None, routes=routes)

    def _on_link(self, node: str, owner: str, facts: RoutingFacts) -> bool:
        return ipaddress.IPv4Address(self.bgp.next_hop(owner, facts)) in self._subnets[node]

    def fabric(self, facts: RoutingFacts) -> FabricTable:
        """Return the routes of the underlay's routers: each block is routed to the node that
        announces it to a router."""
        routes = tuple(FabricRoute(cidr=cidr, node=node) for cidr, node in self.bgp.routed(facts))
        return FabricTable(routes=routes, source_check=self.source_checked)

    def ran(self, node: str, program: str, *, now: bool) -> None:
        self.bgp.ran(node, program, now=now)

    def on_change(self, listener: Callable[[], None]) -> None:
        self.bgp.on_change(listener)

    def node_status(self, node: str) -> Mapping[str, Any] | None:
        """Return BIRD's state on Linux, and None on Windows, unless a fault changes this."""
        if not self.bgp.is_linux(node) and node not in self.bgp.wrong("reported"):
            return None
        return {"agent": {"birdV4": {"state": "Ready" if self.bgp.speaks(node) else "NotReady"}}}

    def host_addresses(self, machine: Machine, windows: WindowsNode | None) -> tuple[str, ...]:
        """Return the host's addresses, including the address of the host endpoint, so that policies
        admit it (felix/dataplane/windows/endpoint_mgr.go)."""
        endpoint = _host_endpoint(windows)
        return (machine.address,) if endpoint is None else (machine.address, endpoint.address)

    def external_network(self, machine: Machine) -> NetworkSpec:
        return NetworkSpec(
            name=EXTERNAL_NETWORK, type=TYPE, subnet=EXTERNAL_SUBNET, gateway=EXTERNAL_GATEWAY
        )

    def started_network(self, windows: WindowsNode, block: str) -> NetworkSpec:
        own = source_vip(block)
        return NetworkSpec(
            name=POD_NETWORK,
            type=TYPE,
            subnet=block,
            gateway=gateway(block),
            pods_gateway=own,
            host_endpoint=(own, endpoint_mac(windows.machine.name, own)),
        )

    def plugged_network(self, windows: WindowsNode, block: str) -> NetworkSpec:
        return self.started_network(windows, block)

    def host_services(self, windows: WindowsNode) -> Mapping[str, bool]:
        node = windows.machine.name
        named = {"CalicoConfd": "confd"} if self.profile.calico.install == "services" else {}
        return {
            shown: self.bgp.runs(node, name)
            for shown, name in (named | {"RemoteAccess": "RemoteAccess"}).items()
        }

    def host_tables(
        self, machine: Machine, facts: RoutingFacts
    ) -> Mapping[str, Callable[[], Table]]:
        daemon = Bird if machine.os == "linux" else RemoteAccess
        return daemon(self.bgp, machine, facts).tables()

    def service_source(self, machine: Machine, block: str, *, enable_dsr: bool) -> str | None:
        """Return the node's address, which is the source address without DSR (kubernetes#83072)."""
        return (
            None
            if uses_dsr(machine.group.windows_build, enable_dsr=enable_dsr)
            else machine.address
        )

    def kube_proxy(self, host_endpoint: str) -> NetworkFlags:
        """Return no source VIP and no feature gate: only an overlay has them."""
        return NetworkFlags()

    def declared(self) -> Declared:
        peers: dict[str, Mapping[str, Any]] = {
            f"router-{router.address.replace('.', '-')}": {
                "peerIP": router.address,
                "asNumber": router.asn,
                "nodeSelector": router.selects,
            }
            for router in self._settings.routers
            if router.selects
        }
        if selector := self._settings.reflectors:
            # as in the documents (docs.tigera.io: configure BGP peering, route reflectors)
            spec = {"nodeSelector": "all()", "peerSelector": selector}
            peers["peer-with-route-reflectors"] = spec
        pool = {"ipipMode": "Never", "vxlanMode": "Never"}
        return Declared(
            bgp="Enabled", encapsulation="None", pool=pool, peers=peers, mesh=self._settings.mesh
        )

    def environment(self, os: OS, declared: Declared) -> dict[str, str]:
        """Return the environment that the operator sets on Windows. VXLAN_VNI is set in every mode
        (pkg/render/windows.go) and has no effect here."""
        bgp = declared.bgp == "Enabled"
        if os == "linux":
            return {"CALICO_NETWORKING_BACKEND": "bird" if bgp else "none"}
        return {"CALICO_NETWORKING_BACKEND": "windows-bgp" if bgp else "none", "VXLAN_VNI": "4096"}

    def cni_plugin(self, environment: Mapping[str, str]) -> dict[str, Any]:
        """Return the CNI configuration with the unused fields of VXLAN, as the operator renders
        it.
        """
        backend = environment["CALICO_NETWORKING_BACKEND"]
        vni = int(environment["VXLAN_VNI"])
        return {"mode": backend, "vxlan_mac_prefix": "0E-2A", "vxlan_vni": vni}

    def windows_containers(self) -> Mapping[str, str]:
        return {"confd": "confd/confd-service.ps1"}


def _host_endpoint(windows: WindowsNode | None) -> HostEndpoint | None:
    """Return the host's own endpoint in the pods' network, which is a device of the host; None on
    Linux, and on Windows without a network of pods."""
    address = None if windows is None else windows.hns.host_endpoint
    return None if address is None else HostEndpoint(name=HOST_ENDPOINT, address=address)
