# SPDX-License-Identifier: Apache-2.0
"""The contract of a plane: everything by which one way of carrying pods' packets differs from another.

The rest of the lab asks these questions and never which plane it is.  A plane is a folder of ``networks`` and a line
of ``networks.registry``; it says what happens to a pod, to a node's routes and devices, to HNS, to the source that
Services show, and what the cluster's objects, CNI configurations and host files say of it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from hybridlab.dataplane.model import FabricTable, NodeRoutes, PodPort, Tunnel
from hybridlab.networks.contract.addresses import AddressSource
from hybridlab.networks.contract.cni_configuration import windows_cni
from hybridlab.networks.contract.routing import NodeEnd, RoutingFacts
from hybridlab.networks.contract.windows_node import WindowsNode
from hybridlab.profiles.machines import Machine
from hybridlab.profiles.model import OS, PlaneSettings, Profile
from hybridlab.windows.hns_networks import Hns, NetworkSpec
from hybridlab.windows.kube_proxy import NetworkFlags

Table = list[dict[str, object]]
"""Rows by the names of their columns."""


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What Calico's objects say of the network; whoever edits them can make it contradict what the plane does."""

    bgp: str
    """``Enabled`` or ``Disabled``: Installation ``.spec.calicoNetwork.bgp``."""
    encapsulation: str
    """Of the Installation's pool."""
    pool: Mapping[str, str]
    """Fields of the IPPool."""
    peers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """BGPPeers by name: their specs."""
    felix: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the FelixConfiguration ``default``."""
    windows_nodes: Mapping[str, str] = field(default_factory=dict)
    """Fields of the Installation's ``.spec.windowsNodes``."""


@dataclass(frozen=True, kw_only=True)
class NodeProgram:
    """What Felix, or whoever routes, lays on one node."""

    tunnel: Tunnel | None
    routes: NodeRoutes
    problem: str = ""
    """Why there is no tunnel where there should be one."""
    unknown: Sequence[str] = ()
    """Networks of other nodes that have not announced how they are reached."""


class Plane(ABC):
    """One way of carrying pods' packets between nodes, for one cluster."""

    kind: ClassVar[str]
    """The plane's name in profiles."""
    settings_type: ClassVar[type[PlaneSettings]]
    """What a profile says under ``network.plane``."""
    device: ClassVar[str]
    """The interface by which a node sends to other nodes' pods."""
    pod_prefix: ClassVar[str] = "cali"
    """How the names of pods' interfaces on nodes begin."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile

    @classmethod
    @abstractmethod
    def fault_types(cls) -> Sequence[Any]:
        """Return the ``faults.model.FaultType`` of what can go wrong on this plane alone."""

    @abstractmethod
    def pod_port(
        self, machine: Machine, address: str, network: str, windows: WindowsNode | None
    ) -> PodPort:
        """Return how a pod with this address, of this network of addresses, is wired to its node."""

    def refusal(self, windows: WindowsNode) -> str:
        """Return why the CNI plugin of a Windows node can wire no pod; empty: it can."""
        return ""

    @abstractmethod
    def mtu(self, override: int | None) -> int:
        """Return the MTU inside pods, bytes: ``override``, or what the underlay leaves."""

    @abstractmethod
    def claim(self, machine: Machine, addresses: AddressSource) -> dict[str, str]:
        """Take the addresses that the node itself needs; return its annotations besides that of its own address.

        Raises AddressError.
        """

    def claims_blocks(self, machine: Machine) -> bool:
        """Return whether Calico's startup on a node claims blocks of Calico's even where pods have other addresses."""
        return False

    def starts(self, machine: Machine) -> bool:
        """Return whether Calico's startup on a node comes to its end, before which no Felix begins."""
        return True

    @abstractmethod
    def node_end(self, name: str, metadata: Mapping[str, Any]) -> NodeEnd | None:
        """Return how a node announces, by its object's metadata, that its pods are reached; None while it does not."""

    @abstractmethod
    def program(
        self, node: str, facts: RoutingFacts, felix: Mapping[str, Any], windows: WindowsNode | None
    ) -> NodeProgram:
        """Return what is laid on a node whose Felix read these settings when it started."""

    def fabric(self, facts: RoutingFacts) -> FabricTable:
        """Return what the underlay makes of what its routers are told, and whose sources it checks."""
        return FabricTable()

    def ran(self, node: str, program: str, *, now: bool) -> None:
        """Take note that a program of Calico's (container of its pod, or service of the host) began or ended."""
        return

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever what nodes lay may have to change for another reason than the API's objects."""
        return

    def node_status(self, node: str) -> Mapping[str, Any] | None:
        """Return what calico-node of a node tells in CalicoNodeStatus; None where it tells nothing."""
        return None

    def host_addresses(self, machine: Machine, windows: WindowsNode | None) -> tuple[str, ...]:
        """Return every address that the node's host has."""
        return (machine.address,)

    @abstractmethod
    def external_network(self, machine: Machine) -> NetworkSpec:
        """Return the network that gives a Windows node its virtual switch; no pod is ever on it."""

    @abstractmethod
    def started_network(self, windows: WindowsNode, block: str) -> NetworkSpec:
        """Return the pods' network as Calico's startup makes it.  Raises ValueError for what Windows cannot do."""

    @abstractmethod
    def plugged_network(self, windows: WindowsNode, block: str) -> NetworkSpec:
        """Return the pods' network as the CNI plugin makes it.  Raises ValueError for what Windows cannot do."""

    def hns_routes(self, routes: NodeRoutes, windows: WindowsNode) -> list[dict[str, Any]]:
        """Return the policies that lead to other nodes, as the pods' network shows them."""
        return []

    def host_services(self, windows: WindowsNode) -> Mapping[str, bool]:
        """Return the services of a Windows host that the network needs, and whether each runs."""
        return {}

    def host_tables(
        self, machine: Machine, facts: RoutingFacts
    ) -> Mapping[str, Callable[[], Table]]:
        """Return what commands about the network list on a host: cmdlets by their names in lower case, on Linux birdcl.

        A table raises ``windows.host.HostRefused`` where its command ends in an error.
        """
        return {}

    @abstractmethod
    def service_source(self, machine: Machine, block: str, *, enable_dsr: bool) -> str | None:
        """Return the source of a Windows node's pods on their way to a ClusterIP; None when they keep their own.

        What comes in by a NodePort gets the same address with and without direct server return: ask with
        ``enable_dsr=False``.
        """

    @abstractmethod
    def kube_proxy(self, host_endpoint: str) -> NetworkFlags:
        """Return what kube-proxy on Windows is told of the network; ``host_endpoint`` is the host's own there."""

    @abstractmethod
    def declared(self) -> Declared:
        """Return what the objects say when the cluster is made."""

    @abstractmethod
    def environment(self, os: OS, declared: Declared) -> dict[str, str]:
        """Return the environment of calico-node that depends on the network."""

    def accepted(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return what of a Windows Felix' environment is taken over when it starts."""
        return {}

    def felix_ignores(self, os: OS) -> frozenset[str]:
        """Return the fields of a FelixConfiguration that a Felix' environment decides."""
        return frozenset()

    @abstractmethod
    def cni_plugin(self, environment: Mapping[str, str]) -> dict[str, Any]:
        """Return the fields of Windows' CNI plugin that depend on the network, by the environment of Felix."""

    def windows_containers(self) -> Mapping[str, str]:
        """Return the containers of calico-node-windows besides those of every plane: name to script."""
        return {}

    def windows_node(self, machine: Machine, cni_file: str) -> WindowsNode:
        """Return what the network has on one Windows node; ``cni_file`` is the name of its CNI configuration."""
        return WindowsNode(
            machine,
            Hns(machine.name, self.external_network(machine)),
            f"{self.profile.windows.cni_config_dir}/{cni_file}",
            template=lambda environment: windows_cni(self.profile, self.cni_plugin(environment)),
            accepted=self.accepted,
            environment=self.environment("windows", self.declared()),
        )
