# SPDX-License-Identifier: Apache-2.0
"""Calico's VXLAN overlay: pods' packets are carried in UDP between nodes, through tunnels of Felix
and of HNS.

A Windows node gets a VNI by ``VXLAN_VNI`` in the environment of Felix and by ``vxlan_vni`` of the
CNI configuration; an existing HNS network keeps the VNI with which it was created.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from hybridlab import assumed
from hybridlab.dataplane.model import NodeRoutes, PodPort
from hybridlab.networks.contract.addresses import AddressSource
from hybridlab.networks.contract.plane import Declared, NodeProgram, Plane
from hybridlab.networks.contract.routing import NodeEnd, RoutingFacts
from hybridlab.networks.contract.windows_node import WindowsNode
from hybridlab.networks.vxlan.routes import (
    DEVICE,
    IPV4_TUNNEL,
    TUNNEL_MAC,
    node_routes,
    past_the_tunnel,
    tunnel_of,
    vtep,
)
from hybridlab.networks.vxlan.settings import DEFAULT_PORT, DEFAULT_VNI, VxlanSettings
from hybridlab.profiles.machines import Machine, machines
from hybridlab.profiles.model import OS, Profile
from hybridlab.windows.dsr import uses_dsr
from hybridlab.windows.hns_networks import (
    EXTERNAL_GATEWAY,
    EXTERNAL_NETWORK,
    EXTERNAL_SUBNET,
    HYPERV_OUI,
    POD_NETWORK,
    NetworkSpec,
)
from hybridlab.windows.hns_objects import hyphens
from hybridlab.windows.kube_proxy import NetworkFlags
from hybridlab.windows.reserved import gateway, source_vip

if TYPE_CHECKING:
    from hybridlab.faults.model import FaultType

SMALLEST_VNI = 4096
"""The smallest VNI on Windows."""
NODE_PORTS_OF_THE_HOST = (17763, 1432)
"""The first Windows build on which a host reaches NodePorts on its own address (KB4571748)."""
OVERHEAD = int(assumed.value("overhead"))
"""The overhead of each packet, in bytes."""
EXTERNAL_VSID = 9999
OVERLAY = "Overlay"
"""The type of the pods' HNS network, as HNS names it."""
MAC_PREFIX = "0E-2A"
"""The first two bytes of pods' MAC addresses on Windows: Calico's default."""


class Vxlan(Plane):
    """The VXLAN overlay of Calico in a cluster."""

    kind: ClassVar[str] = "vxlan"
    settings_type = VxlanSettings
    device: ClassVar[str] = DEVICE

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile)
        settings = profile.network.plane
        if not isinstance(settings, VxlanSettings):
            raise TypeError(f"settings of plane {settings.kind} are given to plane {self.kind}")
        self._settings = settings
        self._subnets = {machine.name: machine.subnet for machine in machines(profile)}

    @classmethod
    def fault_types(cls) -> tuple[FaultType, ...]:
        from hybridlab.networks.vxlan.faults import TYPES  # only a lab that runs needs them

        return TYPES

    def pod_port(
        self, machine: Machine, address: str, network: str, windows: WindowsNode | None
    ) -> PodPort:
        if windows is None:
            return PodPort(mtu=self.mtu(self.profile.network.calico_mtu))
        mac = pod_mac(address, str(windows.plugin.get("vxlan_mac_prefix") or MAC_PREFIX))
        return PodPort(
            gateway=gateway(network), mtu=self.mtu(self.profile.network.windows_mtu), mac=mac
        )

    def host_rules(self, machine: Machine) -> Sequence[tuple[str, str]]:
        """Return the rules of a Windows host. They block the host's own connections to pods of
        other nodes, to ClusterIPs and, before KB4571748, to the host's own NodePorts. They also
        block packets from pod to pod that arrive without a tunnel, which belong to no endpoint of
        an overlay network."""
        if machine.os != "windows":
            return ()
        first = self.profile.kube_proxy.node_port_range
        build = tuple(map(int, machine.group.windows_build.split(".")[2:]))
        rules = {
            f'oifname "{DEVICE}" drop': not self._settings.windows_host_reaches_pods,
            f"ip daddr {self.profile.network.service_cidr} drop": (
                not self._settings.windows_host_reaches_services
            ),
            f"fib daddr type local meta l4proto {{ tcp, udp }} th dport {first} drop": (
                build < NODE_PORTS_OF_THE_HOST
            ),
        }
        pods = self.profile.network.pod_cidr
        return [
            *(("f_out", f"ct state new {rule}") for rule, holds in rules.items() if holds),
            (
                "f_fwd",
                f'iifname "eth0" ip saddr {pods} ct original ip saddr {pods} '
                f"ct original ip daddr {pods} ct status & snat == 0 drop",
            ),
        ]

    def refusal(self, windows: WindowsNode, pod: Mapping[str, Any]) -> str:
        try:
            return _too_small(windows, cni_vni(windows))
        except ValueError as error:
            return str(error)

    def mtu(self, override: int | None) -> int:
        """Return the MTU inside pods.

        For Windows the value is deduced: Calico's Windows CNI plugin sets no MTU.
        """
        return override if override is not None else self.profile.network.underlay_mtu - OVERHEAD

    def claim(self, machine: Machine, addresses: AddressSource) -> dict[str, str]:
        if machine.os == "windows":
            return {
                IPV4_TUNNEL: gateway(addresses.own_network(machine.name)),
                TUNNEL_MAC: vtep_mac(machine.name),
            }
        handle = f"vxlan-tunnel-addr-{machine.name}"
        secondary = {"node": machine.name, "type": "vxlanTunnelAddress"}
        return {IPV4_TUNNEL: addresses.assign(machine.name, handle, secondary)}

    def node_end(self, name: str, metadata: Mapping[str, Any]) -> NodeEnd | None:
        return vtep(name, metadata.get("annotations") or {})

    def program(
        self, node: str, facts: RoutingFacts, felix: Mapping[str, Any], windows: WindowsNode | None
    ) -> NodeProgram:
        """Return the tunnel and routes: on Linux with the VNI that Felix read at its start, on
        Windows with the HNS network's VSID."""
        network = self.profile.network
        if windows is None:
            vni: int | None = felix_vni(felix)
            port = felix_port(felix)
            mtu = felix.get("vxlanMTU") or self.mtu(network.calico_mtu)
        else:
            vni = windows.hns.vsid
            port = DEFAULT_PORT
            mtu = self.mtu(network.windows_mtu)
        tunnel = None if vni is None else tunnel_of(facts, node, vni=vni, port=port, mtu=mtu)
        routes, unknown = node_routes(
            facts, node, tunnel=tunnel is not None, vni=self._isolation_id(windows)
        )
        if windows is None:
            routes = past_the_tunnel(facts, routes, self._subnets[node])
        problem = (
            ""
            if windows is None
            else "HNS network Calico is missing, so there are no routes to other nodes"
        )
        return NodeProgram(tunnel=tunnel, routes=routes, problem=problem, unknown=unknown)

    def _isolation_id(self, windows: WindowsNode | None) -> int | None:
        """Return the VNI of a Windows node's packets if it differs from the VSID of its HNS
        network; None otherwise.

        Felix gives every remote route the VNI that Felix read at its start. Nobody has reported
        whether Windows nodes that all have the old VSID still reach each other, so the profile
        decides. The profile does not decide if the VNI has more than 16 bits, of which Felix uses
        only 16.
        """
        if windows is None:
            return None
        sent = isolation_id(windows)
        kept = (
            self.profile.windows.windows_to_windows_with_new_vni == "holds"
            and sent == started_vni(windows)
        )
        return None if kept or sent == windows.hns.vsid else sent

    def external_network(self, machine: Machine) -> NetworkSpec:
        return external_network(machine)

    def started_network(self, windows: WindowsNode, block: str) -> NetworkSpec:
        return self._pod_network(windows, block, started_vni(windows))

    def plugged_network(self, windows: WindowsNode, block: str) -> NetworkSpec:
        return self._pod_network(windows, block, cni_vni(windows))

    def _pod_network(self, windows: WindowsNode, block: str, vni: int) -> NetworkSpec:
        if problem := _too_small(windows, vni):
            raise ValueError(problem)
        endpoint = source_vip(block)
        network = NetworkSpec(
            name=POD_NETWORK,
            type=OVERLAY,
            subnet=block,
            gateway=gateway(block),
            host_endpoint=(endpoint, pod_mac(endpoint)),
        )
        return overlay(network, windows.machine, vni)

    def hns_routes(self, routes: NodeRoutes, windows: WindowsNode) -> list[dict[str, Any]]:
        return remote_subnets(routes, isolation_id(windows))

    def service_source(self, machine: Machine, block: str, *, enable_dsr: bool) -> str | None:
        """Return kube-proxy's ``--source-vip``, the host endpoint's address, without DSR
        (kubernetes#83072)."""
        return (
            None
            if uses_dsr(machine.group.windows_build, enable_dsr=enable_dsr)
            else source_vip(block)
        )

    def kube_proxy(self, host_endpoint: str) -> NetworkFlags:
        return NetworkFlags(
            flags=(f"--source-vip={host_endpoint}",),
            gates=("WinOverlay=true",),
            script=(
                "Detected VXLAN network, waiting for Calico host endpoint to be created...",
                "Host endpoint found.",
            ),
        )

    def declared(self) -> Declared:
        felix = {"vxlanVNI": self._settings.vni}
        if self._settings.port != DEFAULT_PORT:
            felix["vxlanPort"] = self._settings.port
        return Declared(
            bgp="Disabled",
            encapsulation="VXLAN",
            pool={"ipipMode": "Never", "vxlanMode": "Always"},
            felix=felix,
            windows_nodes={"vxlanMACPrefix": MAC_PREFIX},
        )

    def environment(self, os: OS, declared: Declared) -> dict[str, str]:
        """Return the environment that the operator sets on Windows. The backend is BGP's if BGP is
        enabled, whatever the pools are."""
        bgp = declared.bgp == "Enabled"
        if os == "linux":
            return {"CALICO_NETWORKING_BACKEND": "bird" if bgp else "vxlan"}
        vni = str(declared.felix.get("vxlanVNI", self._settings.vni))
        return {"CALICO_NETWORKING_BACKEND": "windows-bgp" if bgp else "vxlan", "VXLAN_VNI": vni}

    def accepted(self, environment: Mapping[str, str]) -> dict[str, str]:
        given = environment.get("VXLAN_VNI", "")
        return {"VXLAN_VNI": given} if given.isdecimal() else {}

    def felix_ignores(self, os: OS) -> frozenset[str]:
        """Return ``vxlanVNI`` on Windows: felix-service.ps1 sets FELIX_VXLANVNI, which overrides
        the FelixConfiguration."""
        return frozenset({"vxlanVNI"}) if os == "windows" else frozenset()

    def cni_plugin(self, environment: Mapping[str, str]) -> dict[str, Any]:
        return {
            "mode": "vxlan",
            "vxlan_mac_prefix": MAC_PREFIX,
            "vxlan_vni": int(environment["VXLAN_VNI"]),
        }


def overlay(network: NetworkSpec, machine: Machine, vsid: int) -> NetworkSpec:
    """Return a network as an overlay of a node: with its VSID, its router's MAC, and the node's
    address as the provider address (PA) of every endpoint."""
    router = {"Type": "DrMacAddress", "Address": hyphens(vtep_mac(machine.name))}
    return replace(
        network,
        type=OVERLAY,
        vsid=vsid,
        policies=({"Type": "HostRoute"}, router),
        endpoint_policies=({"Type": "PA", "PA": machine.address},),
    )


def external_network(machine: Machine) -> NetworkSpec:
    """Return the network that gives a node with an overlay its virtual switch."""
    network = NetworkSpec(
        name=EXTERNAL_NETWORK, type=OVERLAY, subnet=EXTERNAL_SUBNET, gateway=EXTERNAL_GATEWAY
    )
    return overlay(network, machine, EXTERNAL_VSID)


def remote_subnets(routes: NodeRoutes, vni: int) -> list[dict[str, Any]]:
    """Return the policies by which HNS routes to other nodes; ``vni`` is for routes that have no
    VNI."""
    return [
        {
            "Type": "RemoteSubnetRoute",
            "DestinationPrefix": route.cidr,
            "IsolationId": route.identifier or vni,
            "DistributedRouterMacAddress": hyphens(route.tunnel_mac),
            "ProviderAddress": route.node_address,
        }
        for route in routes.remote_blocks
        if "route" not in route.lacks
    ]


def started_vni(windows: WindowsNode) -> int:
    """Return ``VXLAN_VNI`` of the Felix that started last."""
    return int(windows.environment["VXLAN_VNI"])


def isolation_id(windows: WindowsNode) -> int:
    """Return the VNI of Felix' routes to other nodes: the lower 16 bits of Felix' VNI
    (felix/dataplane/windows/vxlan_mgr.go)."""
    return started_vni(windows) & 0xFFFF


def cni_vni(windows: WindowsNode) -> int:
    """Return ``vxlan_vni`` of the CNI configuration.  Raise ValueError if it is no number."""
    given = windows.plugin.get("vxlan_vni") or DEFAULT_VNI
    try:
        return int(given)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"vxlan_vni of the CNI configuration is {given!r}, expected a number"
        ) from error


def felix_vni(felix: Mapping[str, Any]) -> int:
    """Return the VNI of the Linux device according to a FelixConfiguration."""
    return int(felix.get("vxlanVNI", DEFAULT_VNI))


def felix_port(felix: Mapping[str, Any]) -> int:
    """Return the UDP port of the Linux device according to a FelixConfiguration."""
    return int(felix.get("vxlanPort", DEFAULT_PORT))


def pod_mac(address: str, prefix: str = MAC_PREFIX) -> str:
    """Return the MAC of a pod: the prefix, with hyphens, and the address' four bytes."""
    octets = ":".join(f"{byte:02x}" for byte in ipaddress.IPv4Address(address).packed)
    return f"{prefix.lower().replace('-', ':')}:{octets}"


def vtep_mac(node: str) -> str:
    """Return the MAC of a Windows node's distributed router, which is also the MAC of the node's
    tunnel. The MAC depends only on the node's name."""
    tail = hashlib.sha256(node.encode()).digest()[:3]
    return f"{HYPERV_OUI}:" + ":".join(f"{byte:02x}" for byte in tail)


def _too_small(windows: WindowsNode, vni: int) -> str:
    fits = vni >= SMALLEST_VNI or windows.hns.faults.takes_any_identifier
    return "" if fits else f"Windows does not support VXLANVNI < {SMALLEST_VNI}"
