# SPDX-License-Identifier: Apache-2.0
"""The contract of a plane: all differences between the ways to carry pods' packets.

The rest of the lab calls these methods and never checks which plane it has. A plane is a folder of
``networks`` and a line of ``networks.registry``. A plane determines how a pod is connected, a
node's routes and devices, its HNS networks, and the source address behind Services. It also
determines the contents of the cluster's objects, CNI configurations and host files.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from hybridlab.api.contract import Obj
from hybridlab.dataplane.model import FabricTable, NodeRoutes, PodPort, Tunnel
from hybridlab.networks.contract.addresses import AddressSource
from hybridlab.networks.contract.cni_configuration import windows_cni
from hybridlab.networks.contract.routing import NodeEnd, RoutingFacts
from hybridlab.networks.contract.windows_node import WindowsNode
from hybridlab.profiles.machines import Machine
from hybridlab.profiles.model import OS, PlaneSettings, Profile
from hybridlab.windows.hns_networks import POD_NETWORK, Hns, NetworkSpec
from hybridlab.windows.kube_proxy import NetworkFlags

Table = list[dict[str, object]]
"""A list of rows; each row maps the names of columns to values."""


@dataclass(frozen=True, kw_only=True)
class Declared:
    """The network as Calico's objects declare it. An edit of these objects can contradict the
    plane."""

    bgp: str
    """``Enabled`` or ``Disabled``: Installation ``.spec.calicoNetwork.bgp``."""
    encapsulation: str
    """The encapsulation of the Installation's pool."""
    pool: Mapping[str, str] | None
    """Fields of the IPPool in addition to the fields that every pool has; None: there is no
    pool."""
    cni: str = "Calico"
    """Installation ``.spec.cni.type``."""
    peers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The specs of BGPPeers by name."""
    mesh: bool = True
    """True: if BGP is enabled, all nodes peer with each other without a BGPPeer."""
    felix: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the FelixConfiguration ``default``."""
    windows_nodes: Mapping[str, str] = field(default_factory=dict)
    """Fields of the Installation's ``.spec.windowsNodes``."""


@dataclass(frozen=True, kw_only=True)
class NodeProgram:
    """The tunnel and routes that Felix, or another router, sets on one node."""

    tunnel: Tunnel | None
    routes: NodeRoutes
    problem: str = ""
    """The reason why a required tunnel is missing; empty: no tunnel is missing."""
    unknown: Sequence[str] = ()
    """Networks of other nodes that have not announced a route to their pods."""


class Plane(ABC):
    """A way to carry pods' packets between nodes, for one cluster."""

    kind: ClassVar[str]
    """The plane's name in profiles."""
    settings_type: ClassVar[type[PlaneSettings]]
    """Settings of a profile under ``network.plane``."""
    device: ClassVar[str]
    """The interface through which a node sends to other nodes' pods."""
    pod_prefix: str = "cali"
    """The beginning of the names of pods' interfaces on nodes."""
    pod_network: str = POD_NETWORK
    """The HNS network of Windows pods."""
    kube_network: str = "Calico.*"
    """Regular expression by which Felix and kube-proxy find the pods' HNS network."""
    has_backend: bool = True
    """True: Calico's startup has a networking backend. Only then does a node get the annotation of
    its address (node/pkg/lifecycle/startup)."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.source_checks: dict[str, tuple[str, ...]] = {}
        """The nodes from which the underlay accepts only their own addresses, by the id of the
        fault."""

    @property
    def source_checked(self) -> tuple[str, ...]:
        return tuple(sorted({node for nodes in self.source_checks.values() for node in nodes}))

    @classmethod
    @abstractmethod
    def fault_types(cls) -> Sequence[Any]:
        """Return the ``faults.model.FaultType`` of faults that only this plane has."""

    @abstractmethod
    def pod_port(
        self, machine: Machine, address: str, network: str, windows: WindowsNode | None
    ) -> PodPort:
        """Return how a pod with this ``address``, out of this ``network``, is connected to its
        node."""

    def refusal(self, windows: WindowsNode, pod: Mapping[str, Any]) -> str:
        """Return the reason why the CNI plugin of a Windows node cannot connect a pod; an empty
        string if the plugin can."""
        return ""

    def admit(self, obj: Obj, plural: str, old: Obj | None) -> Obj:
        """Return an object as the network's own webhooks change it; ``old``: the object before the
        request, None for a new object."""
        return obj

    @abstractmethod
    def mtu(self, override: int | None) -> int:
        """Return the MTU inside pods in bytes: ``override``, or the underlay's MTU less the plane's
        overhead."""

    @abstractmethod
    def claim(self, machine: Machine, addresses: AddressSource) -> dict[str, str]:
        """Assign the addresses that the node itself needs. Return the node's annotations, apart
        from the annotation of its own address.

        Raise AddressError.
        """

    def claims_blocks(self, machine: Machine) -> bool:
        """Return whether Calico's startup on a node claims IPAM blocks even if pods' addresses are
        not from blocks."""
        return False

    def starts(self, machine: Machine) -> bool:
        """Return whether Calico's startup on a node ever ends. Felix starts only after its end."""
        return True

    @abstractmethod
    def node_end(self, name: str, metadata: Mapping[str, Any]) -> NodeEnd | None:
        """Return a node's announcement of the route to its pods, from its object's metadata; None
        while the node announces no route."""

    @abstractmethod
    def program(
        self, node: str, facts: RoutingFacts, felix: Mapping[str, Any], windows: WindowsNode | None
    ) -> NodeProgram:
        """Return the tunnel and routes of a node. ``felix``: the settings that its Felix read when
        it started."""

    def fabric(self, facts: RoutingFacts) -> FabricTable:
        """Return the underlay's configured routes, and the nodes with a source check."""
        return FabricTable()

    def ran(self, node: str, program: str, *, now: bool) -> None:
        """Record that a program of Calico (a pod's container, or a service of the host) began or
        ended."""
        return

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever nodes' routes may have to change for a reason that is not in
        the API's objects."""
        return

    def node_status(self, node: str) -> Mapping[str, Any] | None:
        """Return the status that a node's calico-node writes into CalicoNodeStatus; None if it
        writes nothing."""
        return None

    def host_addresses(self, machine: Machine, windows: WindowsNode | None) -> tuple[str, ...]:
        """Return every address that the node's host has."""
        return (machine.address,)

    @abstractmethod
    def external_network(self, machine: Machine) -> NetworkSpec:
        """Return the network that gives a Windows node its virtual switch; no pod is ever on it."""

    @abstractmethod
    def started_network(self, windows: WindowsNode, block: str) -> NetworkSpec | None:
        """Return the pods' network as Calico's startup creates it; None if the startup creates no
        network. Raise ValueError if Windows cannot create it."""

    @abstractmethod
    def plugged_network(self, windows: WindowsNode, block: str) -> NetworkSpec:
        """Return the pods' network as the CNI plugin creates it. Raise ValueError if Windows cannot
        create it."""

    def hns_routes(self, routes: NodeRoutes, windows: WindowsNode) -> list[dict[str, Any]]:
        """Return the policies that lead to other nodes, as the pods' network shows them."""
        return []

    def host_rules(self, machine: Machine) -> Sequence[tuple[str, str]]:
        """Return chains and rules that block a node's own traffic to targets which its operating
        system cannot reach."""
        return ()

    def host_services(self, windows: WindowsNode) -> Mapping[str, bool]:
        """Return the services of a Windows host that the network needs, and whether each runs."""
        return {}

    def host_tables(
        self, machine: Machine, facts: RoutingFacts
    ) -> Mapping[str, Callable[[], Table]]:
        """Return the tables that commands about the network print on a host: on Windows by the name
        of the cmdlet in lower case, on Linux the tables of birdcl.

        A table raises ``windows.host.HostRefused`` if its command ends in an error.
        """
        return {}

    @abstractmethod
    def service_source(self, machine: Machine, block: str, *, enable_dsr: bool) -> str | None:
        """Return the source address that connections of a Windows node's pods to a ClusterIP get;
        None: the connections keep the pods' addresses.

        Traffic to a NodePort gets the same address with and without direct server return: call with
        ``enable_dsr=False``.
        """

    @abstractmethod
    def kube_proxy(self, host_endpoint: str) -> NetworkFlags:
        """Return kube-proxy's settings of the network on Windows; ``host_endpoint``: the address of
        the host's own endpoint in the network."""

    @abstractmethod
    def declared(self) -> Declared:
        """Return the initial contents of the cluster's objects."""

    @abstractmethod
    def environment(self, os: OS, declared: Declared) -> dict[str, str]:
        """Return the environment of calico-node that depends on the network."""

    def accepted(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the part of a Windows Felix' environment that takes effect when Felix starts."""
        return {}

    def felix_ignores(self, os: OS) -> frozenset[str]:
        """Return the fields of a FelixConfiguration that Felix' environment overrides."""
        return frozenset()

    @abstractmethod
    def cni_plugin(self, environment: Mapping[str, str]) -> dict[str, Any]:
        """Return the fields of Windows' CNI plugin that depend on the network, according to the
        environment of Felix."""

    def cni_type(self, os: OS) -> str:
        """Return the type of the CNI plugin that connects the pods of an operating system."""
        return "calico"

    def pod_annotations(self, os: OS, address: str, sandbox: str) -> dict[str, str]:
        """Return the annotations that a pod gets with its network."""
        return {
            "cni.projectcalico.org/containerID": sandbox,
            "cni.projectcalico.org/podIP": f"{address}/32",
            "cni.projectcalico.org/podIPs": f"{address}/32",
        }

    def objects(self) -> list[tuple[str, Obj]]:
        """Return (resource, object) of the network's objects in the API, apart from Calico's."""
        return []

    def windows_containers(self) -> Mapping[str, str]:
        """Return the containers of calico-node-windows in addition to the containers on every
        plane: name to script."""
        return {}

    def windows_node(self, machine: Machine, cni_file: str) -> WindowsNode:
        """Return the network's state on one Windows node; ``cni_file`` is the name of its CNI
        configuration.
        """
        return WindowsNode(
            machine,
            Hns(machine.name, self.external_network(machine), self.pod_network),
            f"{self.profile.windows.cni_config_dir}/{cni_file}",
            template=lambda environment: windows_cni(self.profile, self.cni_plugin(environment)),
            accepted=self.accepted,
            environment=self.environment("windows", self.declared()),
        )
