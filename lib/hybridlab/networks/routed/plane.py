# SPDX-License-Identifier: Apache-2.0
"""Networks on which Calico only enforces policy. A cloud's router, an administrator or flannel sets
the routes to each node's pods, whose packets are carried unchanged.

``plugins`` has the CNI plugins of Windows nodes, which connect pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from hybridlab.dataplane.model import (
    DirectRoute,
    FabricRoute,
    FabricTable,
    HostEndpoint,
    NodeRoutes,
    PodPort,
)
from hybridlab.networks.contract.addresses import AddressSource
from hybridlab.networks.contract.plane import Declared, NodeProgram, Plane
from hybridlab.networks.contract.routing import NodeEnd, RoutingFacts
from hybridlab.networks.contract.windows_node import WindowsNode
from hybridlab.networks.routed.missing import Missing
from hybridlab.networks.routed.plugins import ANNOTATIONS, PLUGINS, Plugin
from hybridlab.networks.routed.settings import RoutedSettings
from hybridlab.profiles.machines import Machine, machines, pod_cidr
from hybridlab.profiles.model import OS, PlaneSettings, Profile
from hybridlab.windows.dsr import uses_dsr
from hybridlab.windows.hns_networks import (
    EXTERNAL_GATEWAY,
    EXTERNAL_NETWORK,
    EXTERNAL_SUBNET,
    HOST_ENDPOINT,
    Hns,
    NetworkSpec,
    endpoint_mac,
)
from hybridlab.windows.kube_proxy import NetworkFlags
from hybridlab.windows.reserved import gateway, source_vip

if TYPE_CHECKING:
    from hybridlab.faults.model import FaultType

STATIC = 4
"""The routing protocol of static routes, as its number in ``ip route``."""
TYPE = "L2Bridge"
"""The type of the pods' HNS network, as HNS names it."""
PUBLIC_IP = f"{ANNOTATIONS}/public-ip"
"""The annotation by which flanneld announces the address of its node."""


class Routed(Plane):
    """The routed network of a cluster."""

    kind: ClassVar[str] = "routed"
    settings_type: ClassVar[type[PlaneSettings]] = RoutedSettings
    device: ClassVar[str] = "eth0"
    has_backend = False

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile)
        plane = profile.network.plane
        self._settings = plane if isinstance(plane, RoutedSettings) else RoutedSettings()
        self.plugin = self.made_plugin()
        self.pod_network = self.plugin.network
        self.kube_network = self.plugin.kube_network
        self.pod_prefix = self.plugin.pod_prefix
        self._machines = {machine.name: machine for machine in machines(profile)}
        self.missing = Missing(self.plugin.full)

    def made_plugin(self) -> Plugin:
        return PLUGINS[self._settings.plugin](self.profile)

    @classmethod
    def fault_types(cls) -> tuple[FaultType, ...]:
        from hybridlab.networks import bridge_faults  # only a lab that runs needs them
        from hybridlab.networks.routed.faults import TYPES

        return (*TYPES, *bridge_faults.TYPES)

    def pod_port(
        self, machine: Machine, address: str, network: str, windows: WindowsNode | None
    ) -> PodPort:
        if windows is None:
            return PodPort(mtu=self.mtu(self.profile.network.calico_mtu))
        initial: Literal["open", "closed"] = "open" if self.plugin.leaves_open else "closed"
        return PodPort(
            gateway=_pods_gateway(self.plugin.host_endpoint, network),
            mtu=self.mtu(self.profile.network.windows_mtu),
            mac=endpoint_mac(machine.name, address),
            initial=initial,
        )

    def refusal(self, windows: WindowsNode, pod: Mapping[str, Any]) -> str:
        return self.plugin.refusal(pod)

    def admit(self, obj: dict[str, Any], plural: str, old: dict[str, Any] | None) -> dict[str, Any]:
        if plural == "pods" and old is None:
            self.plugin.admit(obj)
        return obj

    def _network_of(self, node: str) -> str:
        return pod_cidr(self._machines[node], self.profile)

    def mtu(self, override: int | None) -> int:
        return override if override is not None else self.profile.network.underlay_mtu

    def claim(self, machine: Machine, addresses: AddressSource) -> dict[str, str]:
        """Return the annotations that the plugin's daemon writes on its node."""
        return self.plugin.node_annotations(machine)

    def node_end(self, name: str, metadata: Mapping[str, Any]) -> NodeEnd | None:
        """Return a node's address; flannel reads it from the annotation of the node."""
        if self.plugin.type != "flannel":
            found = self._machines.get(name)
            return None if found is None else NodeEnd(address=found.address)
        announced = (metadata.get("annotations") or {}).get(PUBLIC_IP)
        return NodeEnd(address=announced) if announced else None

    def _networks(self, facts: RoutingFacts) -> Iterator[tuple[str, str]]:
        """Yield (network, node) for each network of pods.

        These are the nodes' podCIDRs or, if the platform assigns addresses, the networks that the
        platform reserves. The API does not show the reserved networks.
        """
        if self.profile.network.ipam == "platform":
            yield from ((self._network_of(name), name) for name in self._machines)
        else:
            yield from facts.elsewhere("")

    def program(
        self, node: str, facts: RoutingFacts, felix: Mapping[str, Any], windows: WindowsNode | None
    ) -> NodeProgram:
        """Return the routes of an administrator, or of flanneld: to every node on the same layer 2
        network. A cloud sets no routes on nodes."""
        networks = list(self._networks(facts))
        by_hand = self._settings.routes == "static"
        direct = [
            DirectRoute(cidr=cidr, via=facts.ends[owner].address, protocol=STATIC)
            for cidr, owner in networks
            if by_hand and owner != node and self._reaches(node, owner, facts)
        ]
        routes = NodeRoutes(
            own_blocks=tuple(cidr for cidr, owner in networks if owner == node),
            own_protocol=STATIC,
            direct=tuple(direct),
            host_endpoint=self._host_endpoint(windows),
            pools=self._pods(facts),
            unmasqueraded=self._unmasqueraded(windows),
            nat_outgoing=self.profile.network.nat_outgoing,
        )
        return NodeProgram(tunnel=None, routes=routes)

    def _reaches(self, node: str, owner: str, facts: RoutingFacts) -> bool:
        here = self._machines.get(node)
        there = self._machines.get(owner)
        near = here is not None and there is not None and here.subnet == there.subnet
        return (
            near and owner in facts.ends and (node, owner) not in self.missing.node_routes.values()
        )

    def _pods(self, facts: RoutingFacts) -> tuple[str, ...]:
        """Return the networks of pods, between which no traffic is masqueraded. Calico's plugin
        reads them from the pools, other plugins from their own configuration."""
        if self.plugin.type == "calico":
            return facts.pool_cidrs()
        return (self.profile.network.pod_cidr,)

    def _unmasqueraded(self, windows: WindowsNode | None) -> tuple[str, ...]:
        """Return the networks for which pods keep their addresses.

        On Linux, only a cloud's plugin has such networks; Calico's plugin masquerades all traffic
        that leaves the pools.
        """
        if windows is None and self.plugin.on_linux == "calico":
            return ()
        return self.plugin.unmasqueraded()

    def fabric(self, facts: RoutingFacts) -> FabricTable:
        """Return a cloud's routes, and the nodes for whose packets the fabric checks the source
        address."""
        routes = (
            FabricRoute(cidr=cidr, node=node)
            for cidr, node in self._networks(facts)
            if self._settings.routes == "cloud" and node not in self.missing.fabric_routes.values()
        )
        return FabricTable(routes=tuple(routes), source_check=self.source_checked)

    def on_change(self, listener: Callable[[], None]) -> None:
        self.missing.on_change(listener)

    def host_addresses(self, machine: Machine, windows: WindowsNode | None) -> tuple[str, ...]:
        endpoint = self._host_endpoint(windows)
        return (machine.address,) if endpoint is None else (machine.address, endpoint.address)

    def _host_endpoint(self, windows: WindowsNode | None) -> HostEndpoint | None:
        address = None if windows is None else windows.hns.host_endpoint
        if address is None:
            return None
        return HostEndpoint(name=self.plugin.host_endpoint or HOST_ENDPOINT, address=address)

    def external_network(self, machine: Machine) -> NetworkSpec:
        return NetworkSpec(
            name=EXTERNAL_NETWORK, type=TYPE, subnet=EXTERNAL_SUBNET, gateway=EXTERNAL_GATEWAY
        )

    def started_network(self, windows: WindowsNode, block: str) -> NetworkSpec | None:
        """Return None: Calico's startup creates a network only for its own backends."""
        return None

    def plugged_network(self, windows: WindowsNode, block: str) -> NetworkSpec:
        return self._network(windows.machine, block)

    def _network(self, machine: Machine, block: str) -> NetworkSpec:
        name = self.plugin.host_endpoint
        own = source_vip(block)
        return NetworkSpec(
            name=self.pod_network,
            type=TYPE,
            subnet=block,
            gateway=gateway(block),
            pods_gateway=_pods_gateway(name, block),
            host_endpoint=(own, endpoint_mac(machine.name, own)) if name else None,
            host_endpoint_name=name or HOST_ENDPOINT,
            endpoint_name=self.plugin.endpoint,
            endpoint_policies=self.plugin.endpoint_policies(),
        )

    def windows_node(self, machine: Machine, cni_file: str) -> WindowsNode:
        """Return the state of a node with the plugin's file in place of Calico's, and with a
        network that was created by hand."""
        hns = Hns(machine.name, self.external_network(machine), self.pod_network)
        if self.plugin.made_by_hand:
            hns.ensure_pod_network(self._network(machine, self._network_of(machine.name)))
        return WindowsNode(
            machine,
            hns,
            f"{self.profile.windows.cni_config_dir}/{self.plugin.cni_file}",
            template=lambda environment: self.plugin.configuration(),
            accepted=self.accepted,
            environment=self.environment("windows", self.declared()),
        )

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
        cidr = self._settings.pool_cidr or self.profile.network.pod_cidr
        pool = {"cidr": cidr, "ipipMode": "Never", "vxlanMode": "Never"}
        return Declared(
            bgp="Disabled",
            encapsulation="None",
            pool=pool if self._settings.pool else None,
            cni=self.plugin.installation,
        )

    def environment(self, os: OS, declared: Declared) -> dict[str, str]:
        """Return the environment without a backend. VXLAN_VNI is set in every mode
        (pkg/render/windows.go) and has no effect here."""
        backend = {"CALICO_NETWORKING_BACKEND": "none"}
        if os == "windows":
            return {**backend, "VXLAN_VNI": "4096"}
        own = self.pod_prefix == Plane.pod_prefix
        return backend if own else {**backend, "FELIX_INTERFACEPREFIX": self.pod_prefix}

    def cni_plugin(self, environment: Mapping[str, str]) -> dict[str, Any]:
        """Return the fields of Calico's plugin, if Calico's plugin is used."""
        found = self.plugin.configuration()
        return dict((found.get("plugins") or [found])[0])

    def cni_type(self, os: OS) -> str:
        return self.plugin.on_linux if os == "linux" else self.plugin.type

    def pod_annotations(self, os: OS, address: str, sandbox: str) -> dict[str, str]:
        """Return Calico's annotations if Calico's plugin is used, otherwise the platform's."""
        if self.cni_type(os) == "calico":
            return super().pod_annotations(os, address, sandbox)
        return self.plugin.pod_annotations(address) if os == "windows" else {}

    def objects(self) -> list[tuple[str, dict[str, Any]]]:
        return self.plugin.objects()


def _pods_gateway(host_endpoint: str, network: str) -> str:
    """Return the next hop of pods: the host's own endpoint if there is one, otherwise the network's
    gateway."""
    return source_vip(network) if host_endpoint else gateway(network)
