"""What nodes and objects say about the VXLAN overlay, as facts by name: tunnels, routes, ports, network identifiers.

It judges nothing.  Facts of nodes come from their hosts, which is where the data plane is.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Protocol

from conformance.facts.objects import CRD, V3, CalicoObjects
from conformance.kube.client import Kube
from conformance.model.endpoint import Workload
from conformance.model.facts import Fact, Facts, NodeFacts
from conformance.model.host import HnsNetwork, LinuxFacts

TUNNEL = "projectcalico.org/IPv4VXLANTunnelAddr"
MAC = "projectcalico.org/VXLANTunnelMACAddr"
DEVICE = "vxlan.calico"
DEFAULTS = {"vxlanVNI": 4096, "vxlanPort": 4789}
"""What Calico uses where FelixConfiguration does not say (felix/config/config_params.go)."""
ANNOUNCED = "as announced"
SECOND = "second address of its block"


class Hosts(Protocol):
    """What is needed of looking into nodes (``conformance.probe.host.Hosts``)."""

    def hns_networks(self, node: str) -> list[HnsNetwork]:
        """HNS networks of a Windows node."""

    def linux(self, node: str) -> LinuxFacts:
        """Networking of a Linux node."""


class VxlanFacts:
    """Reads of one test."""

    def __init__(self, kube: Kube, facts: Facts, hosts: Hosts, calico: CalicoObjects) -> None:
        self._kube, self._facts, self._hosts, self._calico = kube, facts, hosts, calico

    def tunnels(self) -> dict[str, Fact[str]]:
        """Where in its node's block the tunnel address of every Windows node lies."""
        found = {}
        for node, notes in self._windows():
            blocks = self._blocks(node.name)
            address = notes.get(TUNNEL, "")
            seconds = [str(block[1]) for block in blocks]
            where = SECOND if address in seconds else f"{address or 'none'}, its blocks are {_listed(blocks)}"
            found[f"tunnel address of node {node.name}"] = Fact(
                where, f"annotation {TUNNEL} {address or '(none)'}; BlockAffinities: {_listed(blocks)}"
            )
        return found

    def routes(self, linux: str) -> dict[str, Fact[str]]:
        """How a Linux node reaches every block of every Windows node: ``as announced``, or what is otherwise."""
        seen, found = self._hosts.linux(linux), {}
        for node, notes in self._windows():
            tunnel = notes.get(TUNNEL) or "no tunnel address"
            for block in self._blocks(node.name):
                ways = [route for route in seen.routes if route.destination == str(block)]
                right = any(route.gateway == tunnel and route.device == DEVICE and route.onlink for route in ways)
                told = "; ".join(
                    f"via {route.gateway or 'no gateway'} dev {route.device}{' onlink' if route.onlink else ''}"
                    for route in ways
                )
                found[f"route of node {linux} to block {block} of node {node.name}"] = Fact(
                    ANNOUNCED if right else told or "no route",
                    f"routes of node {linux}: {told or 'none'}; node {node.name} announces {tunnel}",
                )
        return found

    def forwarding(self, linux: str) -> dict[str, Fact[str]]:
        """Where a Linux node sends frames for every Windows node's tunnel: ``as announced``, or what is otherwise."""
        seen, found = self._hosts.linux(linux), {}
        for node, notes in self._windows():
            tunnel, mac = notes.get(TUNNEL, ""), notes.get(MAC, "").lower()
            neighbours = {
                neighbour.mac.lower()
                for neighbour in seen.neighbours
                if (neighbour.device, neighbour.address) == (DEVICE, tunnel)
            }
            ends = {
                fdb_entry.destination
                for fdb_entry in seen.fdb
                if fdb_entry.device == DEVICE and fdb_entry.mac.lower() == mac and mac
            }
            right = bool(mac) and neighbours == {mac} and ends == {node.address}
            told = f"{tunnel or 'no tunnel'} has MAC {_listed(neighbours)}; {mac or 'no MAC'} goes to {_listed(ends)}"
            found[f"forwarding of node {linux} to the tunnel of node {node.name}"] = Fact(
                ANNOUNCED if right else told,
                f"neighbours and forwarding entries of {DEVICE} on node {linux}: {told}; "
                f"node {node.name} is {node.address} and announces {mac or 'no MAC'}",
            )
        return found

    def configured(self, field: str) -> dict[str, Fact[int]]:
        """``vxlanVNI`` or ``vxlanPort`` of FelixConfiguration default, or Calico's default for it."""
        name = f"FelixConfiguration default .spec.{field}"
        for api in (V3, CRD):
            found = self._kube.find(api, "FelixConfiguration", "default")
            if found is not None:
                value = (found.get("spec") or {}).get(field)
                where = (
                    f"{name} ({api})" if value is not None else f"{name} ({api}) is not set, which means the default"
                )
                return {name: Fact(DEFAULTS[field] if value is None else int(value), where)}
        return {name: Fact(DEFAULTS[field], "there is no FelixConfiguration default, which means the default")}

    def device_port(self, linux: str) -> dict[str, Fact[int]]:
        """UDP port of a Linux node's VXLAN device."""
        link = self._hosts.linux(linux).link(DEVICE)
        port = link.vxlan.port if link and link.vxlan else None
        return {f"UDP port of {DEVICE} on node {linux}": Fact(port, f"the device on node {linux}: {link or 'none'}")}

    def vsids(self, networked: Iterable[Workload]) -> dict[str, Fact[str]]:
        """VSID of the pod network on the nodes of these pods, against the configured VNI: equal, or which.

        A node whose first pod is still to come has no network to read.
        """
        ((name, wanted),) = self.configured("vxlanVNI").items()
        found = {}
        for node in dict.fromkeys(workload.node for workload in networked):
            networks = [network for network in self._hosts.hns_networks(node) if network.name.startswith("Calico")]
            vsids = {subnet.vsid for network in networks for subnet in network.subnets}
            told = _listed(vsids) if networks else "no network"
            equal = vsids == {wanted.value}
            found[f"VSID of HNS network Calico on node {node}"] = Fact(
                "the configured VNI" if equal else f"{told}, the VNI is {wanted.value}",
                f"Get-HnsNetwork on node {node}: {told}; {name} = {wanted.value}: {wanted.source}",
            )
        return found

    def _windows(self) -> list[tuple[NodeFacts, dict[str, str]]]:
        """Windows nodes with their annotations of now."""
        now = {
            obj["metadata"]["name"]: obj["metadata"].get("annotations") or {}
            for obj in self._kube.objects("v1", "Node")
        }
        return [(node, now.get(node.name, {})) for node in self._facts.by_os("windows")]

    def _blocks(self, node: str) -> list[ipaddress.IPv4Network]:
        blocks = self._calico.blocks().get(f"blocks of node {node}")
        return [ipaddress.IPv4Network(cidr) for cidr in (blocks.value if blocks else None) or []]


def _listed(values: Iterable[object]) -> str:
    return ", ".join(sorted(map(str, values))) or "none"
