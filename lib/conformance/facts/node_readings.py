# SPDX-License-Identifier: Apache-2.0
"""Readings of the Windows nodes themselves. Each node is read once in a run, by the process that
first needs its readings.

The API shows no Calico that runs as services (on AKS, or installed by hand) or as processes of an
agent (RKE2). It also shows neither updates of Windows nor the command line of a kube-proxy that is
started on the host. Therefore, a HostProcess pod on the node reads these facts. A fact that cannot
be read stays unknown, with the reason, and decides nothing. For kube-proxy the command line counts,
even if it has no flag: the default of an absent flag is off in every release (kubernetes
pkg/proxy/winkernel). If ``--config`` names a file, only the file counts, whatever the other flags
are (:mod:`conformance.facts.dsr`).
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

from conformance.errors import MissingCapability, SuiteError, first_line
from conformance.facts import cni_config, dsr
from conformance.facts.felix_meant import TRACES
from conformance.facts.updates import KB
from conformance.facts.windows_network import CLOUDS
from conformance.model.facts import Fact, Facts, NodeFacts
from conformance.model.host import BgpHost, HnsEndpoint, HnsNetwork, LinuxFacts, LoadBalancer

T = TypeVar("T")
CNIS = {
    "calico": "Calico",
    "azure-vnet": "AzureVNET",
    "vpc-bridge": "AmazonVPC",
    "vpc-shared-eni": "AmazonVPC",
}
"""The name in the catalog of each type in a CNI configuration; other types (``win-bridge``) keep
their own names."""
PLANES = {"overlay": "overlay", "l2bridge": "l2bridge", "l2tunnel": "l2bridge"}
"""The plane (``overlay`` or ``l2bridge``) of each type of HNS network; Azure's L2Tunnel rewrites
addresses as L2Bridge does."""
BY_HAND = "\\calicowindows\\"
"""A part of the path of Calico's program if Calico's scripts installed it as services."""
SERVICE = "CalicoFelix"
"""The name of Felix' service as Calico's scripts install it."""
PROGRAM = "kube-proxy.exe"
COMMAND_LINE = f"command line of {PROGRAM}"
"""The beginning of the source of a fact that was read from a node's kube-proxy."""
LOOKED = "looked"
"""The name of the entry which records that all readings except ``dsr`` have been made."""
OF_A_NODE = ("calico", "cni", "ipam", "plane", "install", "differences", "update", "dsr")
LEARNT = ("felix", *OF_A_NODE, LOOKED)
"""All readings of a node, by the names under which the run's processes share them."""


class Hosts(Protocol):
    """The hosts of nodes, in the form in which facts read them (``conformance.probe.host.Hosts``).

    Every method raises ProbeBroken if a read fails, and MissingCapability if nothing can be read on
    the node.
    """

    def linux(self, node: str) -> LinuxFacts:
        """Return the networking of a Linux node."""

    def hns_networks(self, node: str) -> list[HnsNetwork]:
        """Return the HNS networks of a Windows node."""

    def hns_endpoints(self, node: str, *, remote: bool = False) -> list[HnsEndpoint]:
        """Return the HNS endpoints of a Windows node."""

    def load_balancers(self, node: str) -> list[LoadBalancer]:
        """Return kube-proxy's load balancers on a Windows node."""

    def bgp(self, node: str) -> BgpHost:
        """Return the BGP state of a Windows node."""

    def cni_tokens(self, node: str) -> Sequence[datetime | None]:
        """Return the times at which the tokens of Calico's CNI plugin expire."""

    def cni_configuration(self, node: str) -> str:
        """Return the text of all CNI configurations."""

    def calico_program(self, node: str) -> tuple[str, str]:
        """Return path and version of the program that runs as Felix; two empty strings if none
        runs."""

    def service(self, node: str, name: str) -> str:
        """Return the state of a Windows service; an empty string if it is not installed."""

    def command_lines(self, node: str, program: str) -> list[str]:
        """Return the command lines of a program's processes."""

    def file(self, node: str, path: str) -> str:
        """Return the text of a file."""

    def updates(self, node: str) -> list[str]:
        """Return the KB numbers of the installed updates."""

    def differences(self, node: str) -> dict[str, str]:
        """Return the settings in which nodes of the same build may differ."""


class NodeReadings:
    """The readings of a run's Windows nodes. Thread-safe."""

    def __init__(
        self,
        facts: Callable[[], Facts],
        learn: Callable[[str, str, Fact[Any]], object],
        learnt: Callable[[str], Mapping[str, Fact[Any]]] = lambda name: {},
    ) -> None:
        """Set up the readings. ``facts`` returns all facts that are known by now.

        ``learn`` receives each new fact by its name and node; ``learnt`` returns the facts of a
        name that the run's other processes have read.
        """
        self._facts = facts
        self._learn = learn
        self._learnt = learnt
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], Fact[Any]] = {}

    def dsr(self, node: str, hosts: Hosts) -> Fact[bool]:
        """Return whether kube-proxy on a Windows node runs with ``--enable-dsr=true``; an unknown
        fact has the reason.

        Raise the errors of ``hosts`` if the node could not be read and no log or argument has the
        setting.
        """
        return self._once("dsr", node, lambda: self._read_dsr(node, hosts))

    def read(self, node: str, hosts: Hosts) -> None:
        """Read Calico's version, CNI plugin, IPAM, plane, updates and differences of a node."""
        self._once(LOOKED, node, lambda: self._read_all(node, hosts))

    def _once(self, name: str, node: str, read: Callable[[], Fact[Any]]) -> Fact[Any]:
        key = (name, node)
        with self._lock:
            if key not in self._known:
                self._known |= {
                    (each, other): fact
                    for each in LEARNT
                    for other, fact in self._learnt(each).items()
                }
            if key not in self._known:
                self._known[key] = read()
                self._learn(name, node, self._known[key])
            return self._known[key]

    def _node(self, node: str) -> NodeFacts:
        return next(item for item in self._facts().nodes if item.name == node)

    def _read_dsr(self, node: str, hosts: Hosts) -> Fact[bool]:
        before = self._node(node).dsr
        lines, error = _ask(lambda: hosts.command_lines(node, PROGRAM))
        if not lines:
            if before.known:
                return before
            if error and not isinstance(error, MissingCapability):
                raise error
            return _found(None, f"no {PROGRAM} runs on node {node}", before, error)
        where = f"{COMMAND_LINE} on node {node}: {_cut(lines[0])}"
        if (path := dsr.configuration(lines[0])) is not None:
            text, error = _ask(lambda: hosts.file(node, path))
            if error:
                return Fact(None, f"{where}; {path} could not be read: {first_line(error)}")
            unset = "" if dsr.set_in(text or "") is not None else " is not set, which means off"
            return Fact(bool(dsr.set_in(text or "")), f"{where}; enableDSR in {path}{unset}")
        if (value := dsr.enabled_in(lines[0])) is not None:
            return Fact(value, where)
        return Fact(False, f"{where}, without --enable-dsr, which means off")

    def _read_all(self, node: str, hosts: Hosts) -> Fact[bool]:
        own = self._node(node)
        facts = self._facts()
        self._read_calico(node, hosts, facts)
        self._read_cni(own, hosts, facts)
        self._read_plane(own, hosts)
        self._read_updates(own, hosts)
        differences, error = _ask(lambda: hosts.differences(node))
        source = _unread(error) if error else "the node itself"
        self._learn("differences", node, Fact(differences, source))
        return Fact(True, f"node {node} itself")

    def _read_calico(self, node: str, hosts: Hosts, facts: Facts) -> None:
        program, error = _ask(lambda: hosts.calico_program(node))
        path, version = program or ("", "")
        if not error:
            self._read_felix(node, path, hosts)
        before = facts.calico_on(node)
        if not before.known:
            where = f"{path} -v on node {node}" if path else f"no Felix runs on node {node}"
            self._learn("calico", node, _found(version, where, before, error))
        if not facts.install.known and BY_HAND in path.lower():
            self._learn("install", node, Fact("manual", f"{path} runs on node {node}"))

    def _read_felix(self, node: str, path: str, hosts: Hosts) -> None:
        """Find out whether Felix should run on a node, if the API does not show it.

        A node with traces of Calico on which Calico does not run stays unknown: claim PLAT-14
        covers such nodes.
        """
        own = self._node(node)
        if own.felix is None or own.felix.known:
            return
        there, error = _ask(lambda: bool(path or hosts.service(node, SERVICE)))
        if there:
            text = f"{path} runs on it" if path else f"service {SERVICE} is installed on it"
            self._learn("felix", node, Fact(True, text))
        elif not error and not {*TRACES} & own.annotations.keys():
            text = f"no process of calico-node.exe and no service {SERVICE} is on node {node}"
            self._learn("felix", node, Fact(False, text))

    def _read_cni(self, own: NodeFacts, hosts: Hosts, facts: Facts) -> None:
        node = own.name
        text, error = _ask(lambda: hosts.cni_configuration(node))
        configuration = cni_config.on_node(text or "")
        where = (
            f"CNI configuration on node {node}: type {configuration.plugin or '(none, or several)'}"
        )
        cni = own.cni or facts.cni
        if not cni.known:
            cni = _found(CNIS.get(configuration.plugin, configuration.plugin), where, cni, error)
            self._learn("cni", node, cni)
        ipam = facts.ipam_of(own)
        if not ipam.known:
            kind = str(cni.value) if cni.value in CLOUDS else configuration.ipam
            self._learn(
                "ipam",
                node,
                _found(kind, f"{where}, ipam {configuration.ipam or '(none)'}", ipam, error),
            )

    def _read_plane(self, own: NodeFacts, hosts: Hosts) -> None:
        networks, error = _ask(lambda: hosts.hns_networks(own.name))
        there = [network for network in networks or () if network.pods]
        types = {network.type for network in there}
        plane = PLANES.get(types.pop().lower(), "") if len(types) == 1 else ""
        if plane or not own.plane.known:
            names = ", ".join(network.name for network in there)
            self._learn(
                "plane",
                own.name,
                _found(plane, f"type of HNS network {names} on node {own.name}", own.plane, error),
            )

    def _read_updates(self, own: NodeFacts, hosts: Hosts) -> None:
        if own.update.known:
            return
        listed, error = _ask(lambda: hosts.updates(own.name))
        found = dict.fromkeys(name.upper() for name in listed or () if KB.fullmatch(name))
        where = "Win32_QuickFixEngineering of the node lists"
        where = f"updates that {where}" if found else f"{where} no update"
        self._learn("update", own.name, _found(", ".join(found), where, own.update, error))


def source_vip(node: str, hosts: Hosts) -> Fact[str]:
    """Read the ``--source-vip`` of kube-proxy on a Windows node. Each call reads the node again. An
    unknown fact has the reason."""

    def read() -> tuple[str, str]:
        line = next(iter(hosts.command_lines(node, PROGRAM)), "")
        path = dsr.configuration(line)
        return line, dsr.source_vip(line, hosts.file(node, path) if path else "")

    found, error = _ask(read)
    line, vip = found or ("", "")
    text = _unread(error) if error else _cut(line) or "the program does not run"
    return Fact(vip or None, f"{COMMAND_LINE} on node {node}: {text}")


def was_read_on_node(fact: Fact[bool]) -> bool:
    """Return whether a HostProcess pod on the node read the fact, so that further facts can be read
    there."""
    return fact.source.startswith(COMMAND_LINE)


def _ask(ask: Callable[[], T]) -> tuple[T | None, SuiteError | None]:
    """Ask a node, and return its answer or the error that prevented an answer."""
    try:
        return ask(), None
    except SuiteError as error:
        return None, error


def _unread(error: SuiteError) -> str:
    return f"the node could not be read: {first_line(error)[:200]}"


def _found(value: str | None, where: str, before: Fact[Any], error: SuiteError | None) -> Fact[Any]:
    """Return the value that was read on a node. If there is no value, the source of the fact has
    the reasons why the fact was unknown before and why this read failed."""
    if value:
        return Fact(value, where)
    return Fact(None, f"{before.source}; {_unread(error) if error else where}")


def _cut(line: str) -> str:
    return " ".join(line.split())[:300]
