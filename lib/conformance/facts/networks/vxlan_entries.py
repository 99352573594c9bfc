# SPDX-License-Identifier: Apache-2.0
"""Compares the entries that a node needs to reach another node's pods with the entries that it has.
The module reads nothing itself.

A Linux node needs three kinds of entries. A route to each block of the other node leads to that
node's tunnel. A neighbour entry has the MAC address of the tunnel. A forwarding entry leads frames
for this MAC address to the other node. A Windows node has the data of all three entries in a
RemoteSubnetRoute policy for each block, on its HNS network. (Calico:
felix/dataplane/linux/vxlan_mgr.go and felix/dataplane/windows/vxlan_mgr.go.)
"""

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from conformance.model.endpoint import OS
from conformance.model.facts import Announced, Fact
from conformance.model.host import FdbEntry, HnsNetwork, LinuxFacts, RemoteSubnet, RouteEntry

DEVICE = "vxlan.calico"
ANNOUNCED = "as announced"
NO_ROUTE = "no route"


@dataclass(frozen=True, kw_only=True)
class Peer:
    """Another node, as it announces itself."""

    name: str
    os: OS
    address: str
    """The address of the node itself."""
    tunnel: str
    """The address of the node's end of the overlay; an empty string if the node announces none."""
    mac: str
    """The MAC address of the node's end of the overlay, in lower case; an empty string if it is not
    known. Only Windows nodes announce their MAC address."""
    blocks: tuple[ipaddress.IPv4Network, ...]
    is_announced: bool = True
    """True if the node announces its own address."""

    @property
    def unannounced(self) -> str:
        """Return why no other node has entries for this node; an empty string if this node
        announces its address."""
        return "" if self.is_announced else f": node {self.name} announces no address of its own"


def routes(host: LinuxFacts, peer: Peer) -> dict[str, Fact[str]]:
    """Return how a Linux node reaches every block of a peer.

    Between Linux nodes, a route to the peer's own address without the overlay is also correct,
    because no Windows node is involved.
    """
    found: dict[str, Fact[str]] = {}
    tunnel = peer.tunnel or "no tunnel address"
    for block in peer.blocks:
        ways = [route for route in host.routes if route.destination == str(block)]
        right = any(
            _by_tunnel(route, peer) or (peer.os == "linux" and route.gateway == peer.address)
            for route in ways
        )
        text = "; ".join(map(_shown, ways))
        found[_route(host.node, block, peer)] = Announced(
            ANNOUNCED if right else text or NO_ROUTE + peer.unannounced,
            f"routes of node {host.node}: {text or 'none'}; node {peer.name} announces {tunnel}",
            wanted=f"via {tunnel} dev {DEVICE} (announced by node {peer.name})",
        )
    return found


def forwarding(host: LinuxFacts, peer: Peer) -> dict[str, Fact[str]]:
    """Return where a Linux node sends frames for a peer's tunnel; an empty mapping for a Linux peer
    that the node does not reach by the peer's tunnel."""
    reached = peer.os == "windows" or any(_by_tunnel(route, peer) for route in host.routes)
    if not (peer.blocks and reached):
        return {}
    macs = {
        neighbour.mac.lower()
        for neighbour in host.neighbours
        if (neighbour.device, neighbour.address) == (DEVICE, peer.tunnel)
    }
    mac = peer.mac or next(iter(macs), "")
    ends = _ends(host, mac)
    return {
        f"forwarding of node {host.node} to the tunnel of node {peer.name}": Announced(
            _forwarding_problem(peer, macs, mac, ends) or ANNOUNCED,
            f"entries of {DEVICE} on node {host.node}: neighbour {peer.tunnel or '(no address)'} "
            f"has MAC address {listed(macs)}, and frames for {mac or '(no MAC address)'} go to "
            f"{listed(ends)}; node {peer.name} has address {peer.address} and tunnel MAC address "
            f"{peer.mac or '(not known)'}",
            wanted=f"frames for {peer.tunnel or '(no address)'}, with MAC address "
            f"{mac or '(not known)'}, to go to {peer.address} (announced by node {peer.name})",
        )
    }


def _forwarding_problem(peer: Peer, macs: set[str], mac: str, ends: set[str]) -> str:
    """Return the fault of a Linux node's entries for a peer's tunnel; an empty string if there is
    none.

    ``macs``: the MAC addresses in the node's neighbour entries for the tunnel. ``mac``: the
    tunnel's MAC address. ``ends``: the destinations of frames for that MAC address.
    """
    problems = (
        (peer.os == "windows" and not peer.mac, f"node {peer.name} announces no MAC address"),
        (
            not macs,
            f"no neighbour entry for {peer.tunnel or 'the tunnel, whose address is not announced'}"
            f"{peer.unannounced}",
        ),
        (macs != {mac}, f"the neighbour entry for {peer.tunnel} has MAC address {listed(macs)}"),
        (not ends, f"no forwarding entry for {mac}"),
        (ends != {peer.address}, f"the forwarding entry for {mac} leads to {listed(ends)}"),
    )
    return next((problem for wrong, problem in problems if wrong), "")


def _ends(host: LinuxFacts, mac: str) -> set[str]:
    """Return the addresses to which a Linux node's device sends frames for a MAC address; the set
    may be empty."""
    entries = [entry for entry in host.fdb if entry.device == DEVICE and mac]
    return {_end(entry) for entry in entries if entry.mac.lower() == mac}


def _end(entry: FdbEntry) -> str:
    """Describe an entry's destination, with port and VNI if the kernel reports them. The kernel
    reports only values that differ from the device's values."""
    port = f" port {entry.port}" if entry.port is not None else ""
    vni = f" with VNI {entry.vni}" if entry.vni is not None else ""
    return f"{entry.destination}{port}{vni}"


def remote_subnets(
    node: str, networks: Sequence[HnsNetwork], peer: Peer, vni: int
) -> dict[str, Fact[str]]:
    """Return how a Windows node reaches every block of a peer. The facts are unknown if the node's
    networks show no policies."""
    if not any(network.shows_policies for network in networks):
        nothing = Fact[str](
            None, f"Get-HnsNetwork on node {node} shows no policies of a pod network"
        )
        return {_route(node, block, peer): nothing for block in peer.blocks}
    policies = [way for network in networks for way in network.remote_subnets]
    found: dict[str, Fact[str]] = {}
    for block in peer.blocks:
        ways = [way for way in policies if way.prefix == str(block)]
        there = "; ".join(
            f"node address {way.provider}, VNI {way.vni}, MAC address {way.mac}" for way in ways
        )
        found[_route(node, block, peer)] = Announced(
            _otherwise(ways, peer, vni),
            f"RemoteSubnetRoute policies of HNS network {named(networks)} on node {node}: "
            f"{there or 'none'}; node {peer.name} has address {peer.address} and tunnel MAC "
            f"address {peer.mac or '(not known)'}, the VNI is {vni}",
            wanted=f"node address {peer.address}, VNI {vni}"
            f"{f', MAC address {peer.mac}' if peer.mac else ''} (announced by node {peer.name})",
        )
    return found


def named(networks: Sequence[HnsNetwork]) -> str:
    """Return the names of a node's pod networks; ``of pods`` if the node has no pod network."""
    return ", ".join(network.name for network in networks) or "of pods"


def _otherwise(policies: Sequence[RemoteSubnet], peer: Peer, vni: int) -> str:
    """Return how the policies for a block differ from what the peer announces; ``as announced`` if
    they do not differ."""
    if not policies:
        return NO_ROUTE + peer.unannounced
    fields = (
        field
        for policy in policies
        for field in (
            (policy.provider != peer.address, f"node address {policy.provider}"),
            (policy.vni != vni, f"VNI {policy.vni}"),
            (bool(peer.mac) and policy.mac != peer.mac, f"MAC address {policy.mac}"),
        )
    )
    return ", ".join(words for differs, words in fields if differs) or ANNOUNCED


def listed(values: Iterable[object]) -> str:
    """Return the values in order, or ``none``."""
    return ", ".join(sorted(map(str, values))) or "none"


def _route(node: str, block: ipaddress.IPv4Network, peer: Peer) -> str:
    return f"route of node {node} to block {block} of node {peer.name}"


def _by_tunnel(route: RouteEntry, peer: Peer) -> bool:
    return route.gateway == peer.tunnel and route.device == DEVICE and route.onlink


def _shown(route: RouteEntry) -> str:
    return (
        f"via {route.gateway or 'no gateway'} dev {route.device}{' onlink' if route.onlink else ''}"
    )
