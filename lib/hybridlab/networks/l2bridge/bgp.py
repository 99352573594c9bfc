# SPDX-License-Identifier: Apache-2.0
"""BGP among the nodes of a cluster: running daemons, peers, and the routes that each node learns.

No BGP packets are sent: sessions and routes are those that daemons in these states would have
agreed on. A session is up only while BIRD runs on each Linux end, and confd and RemoteAccess run on
each Windows end. If a session ends because a program ended, its routes stay for as long as BIRD's
graceful restart allows.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from hybridlab.networks.contract.routing import NodeEnd, RoutingFacts
from hybridlab.networks.l2bridge.settings import Router
from hybridlab.policy.selectors import parse
from hybridlab.profiles.model import OS

PROGRAMS: Mapping[OS, Mapping[str, str]] = {
    "linux": {"bird": "calico-node"},
    "windows": {"confd": "confd", "RemoteAccess": ""},
}
"""The programs that a node needs to speak BGP, each with its container; an empty name: a program of
the host, which always runs."""
GRACE = 120.0
"""Seconds for which BIRD keeps the routes of a peer that restarts (graceful restart time,
bird.cfg.template)."""
DEFAULT_AS = 64512
ADVERTISED = ("serviceClusterIPs", "serviceExternalIPs", "serviceLoadBalancerIPs")
NOWHERE = "203.0.113.1"
"""A next hop that is on no link (TEST-NET-3)."""
Wrong = Literal[
    "stopped",
    "unrendered",
    "down",
    "withheld",
    "astray",
    "more",
    "reported",
    "clientless",
]
"""The defects that faults can plant.

- ``stopped``: a program (node, program) does not run
- ``unrendered``: the confd of a Windows node writes nothing
- ``down``: two nodes have no session
- ``withheld``: a node does not announce its blocks
- ``astray``: a node announces a next hop that is on no link
- ``more``: a node announces a further network (node, network)
- ``reported``: a Windows node fills a CalicoNodeStatus
- ``clientless``: a reflector takes no peer for its client
"""
AS_NUMBER = "projectcalico.org/ASNumber"
CLUSTER_ID = "projectcalico.org/RouteReflectorClusterID"


@dataclass(frozen=True, kw_only=True)
class BgpEnd(NodeEnd):
    """A node's properties for BGP."""

    asn: int = 0
    """The node's own AS number; 0: the cluster's."""
    cluster_id: str = ""
    """The node's cluster id as a reflector; empty: the node is no reflector."""
    labels: tuple[tuple[str, str], ...] = ()


class Peer(NamedTuple):
    """A peer in a node's configuration."""

    kind: Literal["Mesh", "Node", "Global"]
    address: str
    asn: int
    node: str = ""
    """The peer's node; empty: the peer is no node of the cluster."""

    @property
    def name(self) -> str:
        return f"{self.kind}_{self.address.replace('.', '_')}"


class Bgp:
    """The BGP speakers of a cluster and their sessions."""

    def __init__(
        self, nodes: Mapping[str, OS], *, configures: bool, routers: Iterable[Router] = ()
    ) -> None:
        """Set up the speakers. ``configures``: whether confd writes BGP's configuration on Windows;
        in some releases it does not."""
        self._os = nodes
        self._configures = configures
        self._routers = {router.address: router for router in routers}
        self._running: dict[str, set[str]] = {
            node: {name for name, container in PROGRAMS[os].items() if not container}
            for node, os in nodes.items()
        }
        self._left: dict[str, float] = {}
        """For each node on which a program has ended, the time until which peers keep the node's
        routes (monotonic seconds)."""
        self.since: dict[str, str] = {}
        """For each node, the time of day since which its programs run, in BIRD's form."""
        self.faults: dict[str, tuple[Wrong, Any]] = {}
        """The defect of each fault and its place, by the id of the fault."""
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever the routes that nodes learn may change."""
        self._listeners.append(listener)

    def changed(self) -> None:
        """Notify the listeners that routes may have to change."""
        for listener in self._listeners:
            listener()

    def ran(self, node: str, program: str, *, now: bool) -> None:
        """Record that a container, or the same program of a host, began (``now`` is true) or ended.
        Other programs are ignored."""
        names = {
            name for name, container in PROGRAMS[self._os[node]].items() if container == program
        }
        if not names:
            return
        if now:
            self._running[node] |= names
            self.since[node] = time.strftime("%H:%M:%S", time.gmtime())
            self._left.pop(node, None)
        else:
            self._running[node] -= names
            self._left[node] = time.monotonic() + GRACE
            asyncio.get_running_loop().call_later(GRACE, self.changed)
        self.changed()

    def wrong(self, what: Wrong) -> list[Any]:
        return [where for which, where in self.faults.values() if which == what]

    def runs(self, node: str, program: str) -> bool:
        return program in self._running[node] and (node, program) not in self.wrong("stopped")

    def is_linux(self, node: str) -> bool:
        """Return whether BIRD speaks BGP on the node."""
        return self._os.get(node) == "linux"

    def configured(self, node: str) -> bool:
        """Return whether BGP is configured on a node, including its peers."""
        if self.is_linux(node):
            return True
        is_configured = self._configures and node not in self.wrong("unrendered")
        return is_configured and (self.runs(node, "confd") or self._kept(node))

    def speaks(self, node: str) -> bool:
        """Return whether all programs run that a node's sessions need."""
        return self.configured(node) and all(
            self.runs(node, program) for program in PROGRAMS[self._os[node]]
        )

    def peers(self, node: str, facts: RoutingFacts) -> list[Peer]:
        """Return a node's peers by BGPConfiguration and BGPPeers, sorted by address."""
        if facts.ends.get(node) is None or not self.configured(node):
            return []
        found: dict[str, Peer] = {}
        if _settings(facts).get("nodeToNodeMeshEnabled", True):
            for name in self._meshed(node, facts):
                end = facts.ends[name]
                found[end.address] = Peer("Mesh", end.address, as_of(end, facts), name)
        for spec in facts.peers.values():
            for peer in _peers_by(node, spec, facts):
                found[peer.address] = peer
        return sorted(found.values(), key=lambda peer: tuple(map(int, peer.address.split("."))))

    def _meshed(self, node: str, facts: RoutingFacts) -> list[str]:
        """Return a node's peers in the mesh. Route reflectors leave the mesh according to the
        template for Linux (bird.cfg.template), and stay in it according to the template for Windows
        (peerings.ps1.template)."""
        others = [name for name in facts.ends if name != node]
        if not self.is_linux(node):
            return others
        if _end(facts.ends[node]).cluster_id:
            return []
        return [name for name in others if not _end(facts.ends[name]).cluster_id]

    def established(self, node: str, other: str, facts: RoutingFacts) -> bool:
        return self._agreed(node, other, facts) and self.speaks(node) and self.speaks(other)

    def connected(self, node: str, peer: Peer, facts: RoutingFacts) -> bool:
        """Return whether a node now has a session with a peer: another node, or a router outside
        the cluster."""
        if peer.node:
            return self.established(node, peer.node, facts)
        return self._reaches(node, peer) and self.speaks(node)

    def announced_by_routers(self, node: str, facts: RoutingFacts) -> Iterator[tuple[str, Peer]]:
        """Yield (network, peer) of the networks that routers announce to a node."""
        for peer in self.peers(node, facts):
            if not self._reaches(node, peer):
                continue
            yield from ((network, peer) for network in self._routers[peer.address].networks)
            if self._routers[peer.address].underlay:
                near = {owner for _, owner in self._at(peer.address, facts)}
                yield from (
                    (cidr, peer) for cidr, owner in self.routed(facts) if owner not in {node, *near}
                )

    def routed(self, facts: RoutingFacts) -> list[tuple[str, str]]:
        """Return (network, node) for all routes that the underlay's routers learn."""
        own = [address for address, router in self._routers.items() if router.underlay]
        return sorted({learned for address in own for learned in self._at(address, facts)})

    def _at(self, router: str, facts: RoutingFacts) -> Iterator[tuple[str, str]]:
        """Yield (network, node) for the networks that nodes announce to a router."""
        silent = {*self.wrong("withheld"), *self.wrong("astray")}
        peers = {
            node: {peer.address: peer for peer in self.peers(node, facts)}
            for node in {*facts.ends} - silent
        }
        yield from (
            (cidr, owner)
            for cidr, owner in facts.elsewhere("")
            if router in peers.get(owner, {}) and self._reaches(owner, peers[owner][router])
        )

    def learns(self, node: str, owner: str, facts: RoutingFacts) -> bool:
        """Return whether a node learns another node's routes, by a session with that node or with a
        reflecting Linux node."""
        return bool(self.teachers(node, owner, facts))

    def teachers(self, node: str, owner: str, facts: RoutingFacts) -> list[str]:
        """Return the nodes through whose sessions a node learns another node's routes.

        These are the other node itself, or Linux nodes that reflect: reflectors pass on routes from
        and to their clients.
        """
        if owner in self.wrong("withheld"):
            return []
        if self._routes(node, owner, facts):
            return [owner]
        return [
            name
            for name in facts.ends
            if name not in {node, owner}
            and self._routes(node, name, facts)
            and self._routes(name, owner, facts)
            and (self._serves(name, node, facts) or self._serves(name, owner, facts))
        ]

    def _serves(self, reflector: str, node: str, facts: RoutingFacts) -> bool:
        """Return whether a reflector treats a node as its client: a node of its own AS and of
        another cluster id (bird.cfg.template)."""
        own = _end(facts.ends[reflector])
        other = facts.ends[node]
        return (
            self.is_linux(reflector)
            and bool(own.cluster_id)
            and reflector not in self.wrong("clientless")
            and _end(other).cluster_id != own.cluster_id
            and as_of(other, facts) == as_of(own, facts)
        )

    def next_hop(self, node: str, facts: RoutingFacts) -> str:
        """Return the next hop that a node announces for its blocks."""
        return NOWHERE if node in self.wrong("astray") else facts.ends[node].address

    def announced(self, node: str, facts: RoutingFacts) -> list[str]:
        """Return the networks that a Windows node announces: only its blocks."""
        own = [] if node in self.wrong("withheld") else list(facts.own_blocks(node))
        return own + [network for name, network in self.wrong("more") if name == node]

    def _routes(self, node: str, other: str, facts: RoutingFacts) -> bool:
        """Return whether two nodes have a session that is up, or still keep each other's routes."""
        up = (self.speaks(name) or self._kept(name) for name in (node, other))
        return self._agreed(node, other, facts) and all(up)

    def _reaches(self, node: str, peer: Peer) -> bool:
        """Return whether a node's peer is a router that receives the node's announcements. The
        router must exist and have the AS number that the node's configuration names."""
        router = None if peer.node else self._routers.get(peer.address)
        return (
            router is not None
            and router.asn == peer.asn
            and (self.speaks(node) or self._kept(node))
        )

    def _kept(self, node: str) -> bool:
        """Return whether a program of the node ended so recently that other nodes still keep the
        node's routes.

        Programs that a fault has stopped do not count.
        """
        return self._left.get(node, 0.0) > time.monotonic() and node not in {
            name for name, _ in self.wrong("stopped")
        }

    def _agreed(self, node: str, other: str, facts: RoutingFacts) -> bool:
        both = ((node, other), (other, node))
        has_sessions = all(
            any(peer.node == to for peer in self.peers(at, facts)) for at, to in both
        )
        return has_sessions and frozenset((node, other)) not in self.wrong("down")


def services(facts: RoutingFacts) -> list[str]:
    """Return the networks of Services that Linux nodes announce."""
    return [entry["cidr"] for name in ADVERTISED for entry in _settings(facts).get(name) or ()]


def as_of(end: NodeEnd, facts: RoutingFacts) -> int:
    """Return a node's AS number."""
    return _end(end).asn or int(_settings(facts).get("asNumber") or DEFAULT_AS)


def end_of(address: str, metadata: Mapping[str, Any]) -> BgpEnd:
    """Return a node's properties for BGP, from its address and its object's metadata."""
    notes = metadata.get("annotations") or {}
    labels = metadata.get("labels") or {}
    return BgpEnd(
        address=address,
        asn=int(notes.get(AS_NUMBER) or 0),
        cluster_id=notes.get(CLUSTER_ID) or "",
        labels=tuple(sorted(labels.items())),
    )


def _peers_by(node: str, spec: Mapping[str, Any], facts: RoutingFacts) -> Iterator[Peer]:
    """Yield the peers that a BGPPeer gives a node; peers by selector are mutual."""
    named = spec.get("node")
    selecting = spec.get("nodeSelector")
    kind: Literal["Node", "Global"] = "Node" if named or selecting else "Global"
    selected = {name for name in _selected(selecting, facts) if named in {None, "", name}}
    if spec.get("peerSelector"):
        chosen = _selected(spec["peerSelector"], facts)
        others = (chosen if node in selected else set()) | (selected if node in chosen else set())
        yield from (
            Peer(kind, facts.ends[name].address, as_of(facts.ends[name], facts), name)
            for name in others - {node}
        )
        return
    address, _, port = str(spec.get("peerIP") or "").partition(":")
    # All other addresses are IPv6 addresses, which only BIRD6 uses.
    if node in selected and address and ":" not in port:
        yield Peer(kind, address, int(spec.get("asNumber") or 0))


def _settings(facts: RoutingFacts) -> Mapping[str, Any]:
    return facts.peering.get("default") or {}


def _selected(selector: str | None, facts: RoutingFacts) -> set[str]:
    """Return the nodes with these labels; without a selector, all nodes."""
    if not selector:
        return set(facts.ends)
    parsed = parse(selector)
    return {name for name, end in facts.ends.items() if parsed.matches(dict(_end(end).labels))}


def _end(end: NodeEnd) -> BgpEnd:
    return end if isinstance(end, BgpEnd) else BgpEnd(address=end.address)
