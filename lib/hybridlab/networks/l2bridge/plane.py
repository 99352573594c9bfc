"""Calico without encapsulation: nodes announce their blocks by BGP, and pods' packets travel as they are.

Windows pods are on an l2bridge network; their gateway is the host's own endpoint there.  Sessions are not modelled: a
block counts as announced once its node has announced itself, whether or not confd and RemoteAccess run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, ClassVar

from hybridlab.dataplane.model import DirectRoute, HostEndpoint, NodeRoutes, PodPort
from hybridlab.networks.contract.addresses import AddressSource
from hybridlab.networks.contract.plane import Declared, NodeProgram, Plane
from hybridlab.networks.contract.routing import IPV4_ADDRESS, NodeEnd, RoutingFacts
from hybridlab.networks.contract.windows_node import WindowsNode
from hybridlab.networks.l2bridge.settings import L2BridgeSettings
from hybridlab.profiles.machines import Machine
from hybridlab.profiles.model import OS
from hybridlab.windows.dsr import uses_dsr
from hybridlab.windows.hns_networks import (
    EXTERNAL_GATEWAY,
    EXTERNAL_NETWORK,
    EXTERNAL_SUBNET,
    HOST_ENDPOINT,
    HYPERV_OUI,
    POD_NETWORK,
    NetworkSpec,
)
from hybridlab.windows.kube_proxy import NetworkFlags
from hybridlab.windows.reserved import gateway, source_vip

BIRD = 12
"""Who laid a route, as ``ip route`` shows it."""
TYPE = "L2Bridge"
"""As HNS calls it."""


class L2Bridge(Plane):
    """The routed network of one cluster."""

    kind: ClassVar[str] = "l2bridge"
    settings_type = L2BridgeSettings
    device: ClassVar[str] = "eth0"

    @classmethod
    def fault_types(cls) -> tuple[Any, ...]:
        return ()

    # -- pods

    def pod_port(self, machine: Machine, address: str, network: str, windows: WindowsNode | None) -> PodPort:
        if windows is None:
            return PodPort(mtu=self.mtu(self.profile.network.calico_mtu))
        mac = endpoint_mac(machine.name, address)
        return PodPort(gateway=source_vip(network), mtu=self.mtu(self.profile.network.windows_mtu), mac=mac)

    def mtu(self, override: int | None) -> int:
        return override if override is not None else self.profile.network.underlay_mtu

    # -- nodes

    def claim(self, machine: Machine, addresses: AddressSource) -> dict[str, str]:
        """A Windows node has its block before its first pod; nobody announces more than the node's address."""
        if machine.os == "windows":
            addresses.own_network(machine.name)
        return {}

    def node_end(self, name: str, annotations: Mapping[str, str]) -> NodeEnd | None:
        address = annotations.get(IPV4_ADDRESS, "").partition("/")[0]
        return NodeEnd(address=address) if address else None

    def program(
        self, node: str, facts: RoutingFacts, felix: Mapping[str, Any], windows: WindowsNode | None
    ) -> NodeProgram:
        """BIRD, on Windows RemoteAccess: other nodes' blocks by the nodes' own addresses, on the underlay."""
        ends, direct, unknown = facts.ends, [], []
        for cidr, owner in facts.elsewhere(node) if node in ends else ():
            if owner in ends:
                direct.append(DirectRoute(cidr=cidr, via=ends[owner].address, protocol=BIRD))
            else:
                unknown.append(cidr)
        routes = NodeRoutes(
            own_blocks=facts.own_blocks(node),
            own_protocol=BIRD,
            direct=tuple(direct),
            host_endpoint=_host_endpoint(windows),
            pools=facts.pool_cidrs(),
            nat_outgoing=facts.nat_outgoing,
        )
        return NodeProgram(tunnel=None, routes=routes, unknown=unknown)

    def host_addresses(self, machine: Machine, windows: WindowsNode | None) -> tuple[str, ...]:
        """The host endpoint's is one of them, so that policies let it in (felix/dataplane/windows/endpoint_mgr.go)."""
        endpoint = _host_endpoint(windows)
        return (machine.address,) if endpoint is None else (machine.address, endpoint.address)

    # -- HNS

    def external_network(self, machine: Machine) -> NetworkSpec:
        return NetworkSpec(name=EXTERNAL_NETWORK, type=TYPE, subnet=EXTERNAL_SUBNET, gateway=EXTERNAL_GATEWAY)

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

    # -- Services

    def service_source(self, machine: Machine, block: str, *, enable_dsr: bool) -> str | None:
        """Without DSR the node's address (kubernetes#83072)."""
        return None if uses_dsr(machine.group.windows_build, enable_dsr=enable_dsr) else machine.address

    def kube_proxy(self, host_endpoint: str) -> NetworkFlags:
        """No source VIP and no gate: both are an overlay's."""
        return NetworkFlags()

    # -- objects and files

    def declared(self) -> Declared:
        return Declared(bgp="Enabled", encapsulation="None", pool={"ipipMode": "Never", "vxlanMode": "Never"})

    def environment(self, os: OS, declared: Declared) -> dict[str, str]:
        """The operator sets VXLAN_VNI for Windows in every mode (pkg/render/windows.go); nothing reads it here."""
        bgp = declared.bgp == "Enabled"
        if os == "linux":
            return {"CALICO_NETWORKING_BACKEND": "bird" if bgp else "none"}
        return {"CALICO_NETWORKING_BACKEND": "windows-bgp" if bgp else "none", "VXLAN_VNI": "4096"}

    def cni_plugin(self, environment: Mapping[str, str]) -> dict[str, Any]:
        """The fields about VXLAN are there and unused, as the operator renders them."""
        backend, vni = environment["CALICO_NETWORKING_BACKEND"], int(environment["VXLAN_VNI"])
        return {"mode": backend, "vxlan_mac_prefix": "0E-2A", "vxlan_vni": vni}

    def windows_containers(self) -> Mapping[str, str]:
        return {"confd": "confd/confd-service.ps1"}


def endpoint_mac(node: str, address: str) -> str:
    """MAC of an endpoint, which HNS gives from its own range; stable by node and address."""
    tail = hashlib.sha256(f"{node}/{address}".encode()).digest()[:3]
    return f"{HYPERV_OUI}:" + ":".join(f"{byte:02x}" for byte in tail)


def _host_endpoint(windows: WindowsNode | None) -> HostEndpoint | None:
    """The host's own endpoint among the pods, which is a device of the host; None on Linux and without network."""
    address = None if windows is None else windows.hns.host_endpoint
    return None if address is None else HostEndpoint(name=HOST_ENDPOINT, address=address)
