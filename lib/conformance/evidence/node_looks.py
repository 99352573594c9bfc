"""What Windows nodes run, as a look into them tells: Calico's version, CNI plugin, IPAM, plane; and
what differs there.

The API says nothing of nodes on which Calico runs as services (AKS', by hand) or as processes of an
agent (RKE2).  The HostProcess pod that kube-proxy's command line is read in reads this too, once
for each node in a run.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from conformance.errors import SuiteError, first_line
from conformance.evidence.node_memory import NodeMemory
from conformance.facts import cni_config
from conformance.model.facts import Fact, Facts, NodeFacts
from conformance.probe.host import Hosts

T = TypeVar("T")
CNIS = {
    "calico": "Calico", "azure-vnet": "AzureVNET", "vpc-bridge": "AmazonVPC", "vpc-shared-eni": "AmazonVPC",
    "flannel": "flannel",
}  # fmt: skip
"""Type in a CNI configuration to the name that the catalog has; others (``win-bridge``) are their
own."""
CLOUDS = frozenset({"AzureVNET", "AmazonVPC"})
"""Plugins that have an IPAM of their own."""
PLANES = {"overlay": "overlay", "l2bridge": "l2bridge", "l2tunnel": "l2bridge"}
"""Type of an HNS network to the plane; Azure's L2Tunnel rewrites as L2Bridge does."""
BY_HAND = "\\calicowindows\\"
"""In the path of Calico's program where its scripts installed it as services."""
READ = ("calico", "cni", "ipam", "plane", "install", "differences")
"""What is learnt of a node."""


class NodeLooks:
    """What is known of each node; thread-safe.

    ``learn`` is told of each fact; ``learnt`` takes in those that the run's other processes have
    found out."""

    def __init__(
        self,
        facts: Callable[[], Facts],
        learn: Callable[[str, str, Fact[Any]], object],
        learnt: Callable[[str], Mapping[str, Fact[Any]]] = lambda name: {},
    ) -> None:
        self._facts = facts
        self._learn = learn
        self._learnt = learnt
        self._memory = NodeMemory[bool](
            lambda node, fact: learn("looked", node, fact), self._take_in
        )

    def look(self, node: str, hosts: Hosts) -> None:
        """Look into a node, unless somebody did; what could not be read stays as it was, with the
        reason."""
        self._memory.of(node, lambda: self._look(node, hosts))

    def _take_in(self) -> Mapping[str, Fact[bool]]:
        for name in READ:
            self._learnt(name)
        return self._learnt("looked")

    def _look(self, node: str, hosts: Hosts) -> Fact[bool]:
        facts = self._facts()
        own = next(item for item in facts.nodes if item.name == node)
        self._look_at_calico(node, hosts, facts)
        self._look_at_cni(own, hosts, facts)
        self._look_at_plane(own, hosts)
        self._learn("differences", node, _one(lambda: hosts.differences(node)))
        return Fact(True, f"a look into node {node}")

    def _look_at_calico(self, node: str, hosts: Hosts, facts: Facts) -> None:
        program = _one(lambda: hosts.calico_program(node))
        path, version = program.value or ("", "")
        before = facts.calico_on(node)
        if not before.known:
            told = f"{path} -v on node {node}" if path else f"no Felix runs on node {node}"
            self._learn("calico", node, _found(version, told, before, program))
        if not facts.install.known and BY_HAND in path.lower():
            self._learn("install", node, Fact("manual", f"{path} runs on node {node}"))

    def _look_at_cni(self, own: NodeFacts, hosts: Hosts, facts: Facts) -> None:
        node = own.name
        text = _one(lambda: hosts.cni_configuration(node))
        configuration = cni_config.on_node(text.value or "")
        where = (
            f"CNI configuration on node {node}: type {configuration.plugin or '(none, or several)'}"
        )
        cni = own.cni or facts.cni
        if not cni.known:
            plugin = CNIS.get(configuration.plugin, configuration.plugin)
            cni = _found(plugin, where, cni, text)
            self._learn("cni", node, cni)
        ipam = facts.ipam_of(own)
        if not ipam.known:
            kind = str(cni.value) if cni.value in CLOUDS else configuration.ipam
            told = f"{where}, ipam {configuration.ipam or '(none)'}"
            self._learn("ipam", node, _found(kind, told, ipam, text))

    def _look_at_plane(self, own: NodeFacts, hosts: Hosts) -> None:
        networks = _one(
            lambda: [network for network in hosts.hns_networks(own.name) if network.pods]
        )
        there = networks.value or ()
        types = {network.type for network in there}
        plane = PLANES.get(types.pop().lower(), "") if len(types) == 1 else ""
        names = ", ".join(network.name for network in there)
        if plane or not own.plane.known:
            told = f"type of HNS network {names} on node {own.name}"
            self._learn("plane", own.name, _found(plane, told, own.plane, networks))


def _found(value: str | None, where: str, before: Fact[str], read: Fact[Any]) -> Fact[str]:
    """What was read; else why not, after why it was not known before."""
    return (
        Fact(value, where)
        if value
        else Fact(None, f"{before.source}; {where if read.known else read.source}")
    )


def _one(ask: Callable[[], T]) -> Fact[T]:
    try:
        return Fact(ask(), "a look into the node")
    except SuiteError as error:
        return Fact(None, f"the node could not be asked: {first_line(error)[:200]}")
