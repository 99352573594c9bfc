"""Facts about Windows nodes that only a look into the nodes shows: each is read once per node in a
run.

The API says nothing about nodes on which Calico runs as services (AKS', by hand) or as processes of
an agent (RKE2), and names no KB number (:mod:`conformance.facts.updates`). A look needs a
HostProcess pod on the node; where there can be none, what detection read from logs and arguments
counts (:mod:`conformance.facts.dsr`).
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from conformance.errors import (
    EnvironmentBroken,
    MissingCapability,
    ProbeBroken,
    SuiteError,
    first_line,
)
from conformance.facts import cni_config, dsr
from conformance.facts.updates import KB
from conformance.model.facts import Fact, Facts, NodeFacts
from conformance.probe.host import Hosts

T = TypeVar("T")
Reading = tuple[str, Fact[Any]]
"""A field of NodeFacts (or ``calico``, ``install``), and what a node shows of it."""
PROGRAM = "kube-proxy.exe"
COMMAND_LINE = f"command line of {PROGRAM}"
"""How the source of what was read on a node begins."""
CNIS = {
    "calico": "Calico",
    "azure-vnet": "AzureVNET",
    "vpc-bridge": "AmazonVPC",
    "vpc-shared-eni": "AmazonVPC",
    "flannel": "flannel",
}
"""Type in a CNI configuration to the catalog's name; others (``win-bridge``) are their own."""
CLOUDS = frozenset({"AzureVNET", "AmazonVPC"})
"""Plugins that have an IPAM of their own."""
PLANES = {"overlay": "overlay", "l2bridge": "l2bridge", "l2tunnel": "l2bridge"}
"""Type of an HNS network to the plane; Azure's L2Tunnel rewrites as L2Bridge does."""
BY_HAND = "\\calicowindows\\"
"""In the path of Calico's program where its scripts installed it as services."""
LOOKED = ("calico", "cni", "ipam", "plane", "install", "differences", "looked")
"""What one look into a node shows."""
UPDATES = "Win32_QuickFixEngineering of the node lists"


class NodeReadings:
    """Reads nodes, and remembers what was read, by whichever process of the run. Thread-safe."""

    def __init__(
        self,
        facts: Callable[[], Facts],
        learn: Callable[[str, str, Fact[Any]], object],
        learnt: Callable[[str], Mapping[str, Fact[Any]]] = lambda name: {},
    ) -> None:
        """``learn`` takes each fact by name and node; ``learnt`` returns those of all processes."""
        self._facts = facts
        self._learn = learn
        self._learnt = learnt
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], Fact[Any]] = {}

    def dsr(self, node: str, hosts: Hosts) -> Fact[bool]:
        """Return whether kube-proxy on a Windows node runs with direct server return, or why not
        known.

        Raises ProbeBroken and EnvironmentBroken where the node cannot be read and no log or
        argument says it."""
        return self._once("dsr", node, lambda: _dsr(self._node(node).dsr, node, hosts))

    def look(self, node: str, hosts: Hosts) -> None:
        """Read what the API does not say of a node; what cannot be read stays unknown, with the
        reason."""
        self._once("looked", node, lambda: self._look(node, hosts))
        update = self._node(node).update
        if not update.known:
            self._once("update", node, lambda: _update(update, node, hosts))

    def _node(self, name: str) -> NodeFacts:
        return next(node for node in self._facts().nodes if node.name == name)

    def _once(self, name: str, node: str, read: Callable[[], Fact[T]]) -> Fact[T]:
        with self._lock:
            if (name, node) not in self._known:
                for field in LOOKED if name == "looked" else (name,):
                    found = {(field, other): fact for other, fact in self._learnt(field).items()}
                    self._known = found | self._known
            if (name, node) not in self._known:
                self._known[name, node] = fact = read()
                self._learn(name, node, fact)
            return self._known[name, node]

    def _look(self, node: str, hosts: Hosts) -> Fact[bool]:
        facts = self._facts()
        own = self._node(node)
        for readings in (_calico(own, hosts, facts), _cni(own, hosts, facts), _plane(own, hosts)):
            for name, fact in readings:
                self._learn(name, node, fact)
        self._learn("differences", node, _ask(lambda: hosts.differences(node)))
        return Fact(True, f"a look into node {node}")


def source_vip(node: str, hosts: Hosts) -> Fact[str]:
    """Return the ``--source-vip`` of kube-proxy on a Windows node, read anew; or why it is not
    known."""
    try:
        line = next(iter(hosts.command_lines(node, PROGRAM)), "")
        path = dsr.configuration(line)
        vip = dsr.source_vip(line, hosts.file(node, path) if path else "")
    except (MissingCapability, ProbeBroken, EnvironmentBroken) as error:
        return Fact(None, f"the {COMMAND_LINE} on node {node} cannot be read: {first_line(error)}")
    return Fact(vip or None, f"{COMMAND_LINE} on node {node}: {_cut(line) or 'it does not run'}")


def is_read_on_node(fact: Fact[bool]) -> bool:
    """Return whether a fact was read in a HostProcess pod of the node: more can be read there."""
    return fact.source.startswith(COMMAND_LINE)


def _dsr(detected: Fact[bool], node: str, hosts: Hosts) -> Fact[bool]:
    """Read direct server return from kube-proxy's command line, which is the truth if read whole.

    An absent flag has its default, which is off in every release (kubernetes pkg/proxy/winkernel).
    Where ``--config`` names a file, the file alone says it, whatever flags stand beside.
    """
    reason = f"no {PROGRAM} runs on node {node}"
    line = None
    try:
        line = next(iter(hosts.command_lines(node, PROGRAM)), None)
    except MissingCapability as lack:
        reason = f"its command line cannot be read: {first_line(lack)}"
    except (ProbeBroken, EnvironmentBroken):
        if not detected.known:
            raise
    if line is None:
        return detected if detected.known else Fact(None, f"{detected.source}; {reason}")
    where = f"{COMMAND_LINE} on node {node}: {_cut(line)}"
    path = dsr.configuration(line)
    if path is None:
        value = dsr.told(line)
        default = ", without --enable-dsr, which means off" if value is None else ""
        return Fact(bool(value), f"{where}{default}")
    try:
        value = dsr.set_in(hosts.file(node, path))
    except (ProbeBroken, EnvironmentBroken) as broken:
        return Fact(None, f"{where}; {path} could not be read: {first_line(broken)}")
    default = " is not set: off" if value is None else ""
    return Fact(bool(value), f"{where}; enableDSR in {path}{default}")


def _update(detected: Fact[str], node: str, hosts: Hosts) -> Fact[str]:
    """Read the updates that a node lists. They decide nothing, so that a failure is only
    recorded."""
    try:
        updates = [name.upper() for name in hosts.updates(node) if KB.fullmatch(name)]
    except SuiteError as error:
        reason = f"the node itself could not be asked: {first_line(error)}"
        return Fact(None, f"{detected.source}; {reason}")
    if not updates:
        return Fact(None, f"{detected.source}; {UPDATES} no update")
    return Fact(", ".join(dict.fromkeys(updates)), f"updates that {UPDATES}")


def _calico(own: NodeFacts, hosts: Hosts, facts: Facts) -> Iterator[Reading]:
    program = _ask(lambda: hosts.calico_program(own.name))
    path, version = program.value or ("", "")
    before = facts.calico_on(own.name)
    if not before.known:
        where = f"{path} -v on node {own.name}" if path else f"no Felix runs on node {own.name}"
        yield "calico", _found(version, where, before, program)
    if not facts.install.known and BY_HAND in path.lower():
        yield "install", Fact("manual", f"{path} runs on node {own.name}")


def _cni(own: NodeFacts, hosts: Hosts, facts: Facts) -> Iterator[Reading]:
    text = _ask(lambda: hosts.cni_configuration(own.name))
    configuration = cni_config.on_node(text.value or "")
    plugin = configuration.plugin
    where = f"CNI configuration on node {own.name}: type {plugin or '(none, or several)'}"
    cni = own.cni or facts.cni
    if not cni.known:
        cni = _found(CNIS.get(plugin, plugin), where, cni, text)
        yield "cni", cni
    ipam = facts.ipam_of(own)
    if not ipam.known:
        kind = str(cni.value) if cni.value in CLOUDS else configuration.ipam
        where = f"{where}, ipam {configuration.ipam or '(none)'}"
        yield "ipam", _found(kind, where, ipam, text)


def _plane(own: NodeFacts, hosts: Hosts) -> Iterator[Reading]:
    networks = _ask(lambda: [network for network in hosts.hns_networks(own.name) if network.pods])
    found = networks.value or ()
    types = {network.type for network in found}
    plane = PLANES.get(types.pop().lower(), "") if len(types) == 1 else ""
    if plane or not own.plane.known:
        names = ", ".join(network.name for network in found)
        where = f"type of HNS network {names} on node {own.name}"
        yield "plane", _found(plane, where, own.plane, networks)


def _found(value: str | None, where: str, before: Fact[str], read: Fact[Any]) -> Fact[str]:
    """Return what was read; else why not, after the reason why it was not known before."""
    if value:
        return Fact(value, where)
    return Fact(None, f"{before.source}; {where if read.known else read.source}")


def _ask(question: Callable[[], T]) -> Fact[T]:
    try:
        return Fact(question(), "a look into the node")
    except SuiteError as error:
        return Fact(None, f"the node could not be asked: {first_line(error)[:200]}")


def _cut(line: str) -> str:
    return " ".join(line.split())[:300]
