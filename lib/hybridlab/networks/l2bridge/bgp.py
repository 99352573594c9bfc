# SPDX-License-Identifier: Apache-2.0
"""BGP among the nodes of one cluster: which daemons run, who peers with whom, and what each learns by that.

Nothing is spoken on the wire: sessions and routes are those that daemons in these states would have agreed on.  A
session is up only while BIRD runs on a Linux end, confd and RemoteAccess on a Windows end.  One that ended because a
program did keeps its routes for as long as BIRD's graceful restart lets it.
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
"""What has to run for a node to speak BGP, and the container that it runs in; none: the host's own, always there."""
CONFD_SERVICE = "CalicoConfd"
"""What confd is where Calico runs as services of a Windows host."""
GRACE = 120.0
"""s.  For how long BIRD keeps a peer's routes that restarts (graceful restart time, bird.cfg.template)."""
DEFAULT_AS = 64512
ADVERTISED = ("serviceClusterIPs", "serviceExternalIPs", "serviceLoadBalancerIPs")
NOWHERE = "203.0.113.1"
"""A next hop that is on nobody's link (TEST-NET-3)."""
Wrong = Literal[
    "stopped", "unrendered", "down", "withheld", "astray", "checked", "more", "reported"
]
"""What faults make wrong: (node, program) that does not run; a Windows node whose confd writes nothing down; two nodes
without a session; a node that does not announce its blocks, or announces a next hop on nobody's link; nodes of which
the fabric takes their own address alone; (node, network) announced as well; a Windows node that fills a
CalicoNodeStatus."""
AS_NUMBER = "projectcalico.org/ASNumber"
CLUSTER_ID = "projectcalico.org/RouteReflectorClusterID"


@dataclass(frozen=True, kw_only=True)
class BgpEnd(NodeEnd):
    """A node as BGP knows it."""

    asn: int = 0
    """Its own AS number; 0: the cluster's."""
    reflects: bool = False
    """It has a reflector's cluster id."""
    labels: tuple[tuple[str, str], ...] = ()


class Peer(NamedTuple):
    """One peer that a node is told to have."""

    kind: Literal["Mesh", "Node", "Global"]
    address: str
    asn: int
    node: str = ""
    """Empty: it is no node of the cluster."""

    @property
    def name(self) -> str:
        return f"{self.kind}_{self.address.replace('.', '_')}"


class Bgp:
    """Who speaks BGP, and with whom."""

    def __init__(
        self, nodes: Mapping[str, OS], *, configures: bool, routers: Iterable[Router] = ()
    ) -> None:
        """``configures``: confd on Windows writes down what it should; some releases' does not."""
        self._os = nodes
        self._configures = configures
        self._routers = {router.address: router for router in routers}
        self._running: dict[str, set[str]] = {
            node: {name for name, container in PROGRAMS[os].items() if not container}
            for node, os in nodes.items()
        }
        self._left: dict[str, float] = {}
        """Until when (monotonic) others keep the routes of a node whose program ended."""
        self.since: dict[str, str] = {}
        """Since when a node's programs run, as BIRD writes the time of a day."""
        self.faults: dict[str, tuple[Wrong, Any]] = {}
        """By the id of the fault that asked for it: what is wrong, and where."""
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever somebody may learn other routes."""
        self._listeners.append(listener)

    def changed(self) -> None:
        """Tell everybody that routes may have to change."""
        for listener in self._listeners:
            listener()

    def ran(self, node: str, program: str, *, now: bool) -> None:
        """A container, or a service of a host, began (``now``) or ended; nothing for what has no part in it."""
        program = "confd" if program == CONFD_SERVICE else program
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
        """Whether BIRD is what speaks there."""
        return self._os.get(node) == "linux"

    def configured(self, node: str) -> bool:
        """Whether a node has been told who its peers are."""
        if self.is_linux(node):
            return True
        told = self._configures and node not in self.wrong("unrendered")
        return told and (self.runs(node, "confd") or self._kept(node))

    def speaks(self, node: str) -> bool:
        """Whether everything runs that a node needs to have sessions."""
        return self.configured(node) and all(
            self.runs(node, program) for program in PROGRAMS[self._os[node]]
        )

    def peers(self, node: str, facts: RoutingFacts) -> list[Peer]:
        """The peers that a node is told to have, by BGPConfiguration and BGPPeers; in the order of their addresses."""
        own = facts.ends.get(node)
        if own is None or not self.configured(node):
            return []
        found: dict[str, Peer] = {}
        if _settings(facts).get("nodeToNodeMeshEnabled", True) and not _end(own).reflects:
            for name, end in facts.ends.items():
                if name != node and not _end(end).reflects:
                    found[end.address] = Peer("Mesh", end.address, as_of(end, facts), name)
        for spec in facts.peers.values():
            for peer in _told(node, spec, facts):
                found[peer.address] = peer
        return sorted(found.values(), key=lambda peer: tuple(map(int, peer.address.split("."))))

    def established(self, node: str, other: str, facts: RoutingFacts) -> bool:
        return self._agreed(node, other, facts) and self.speaks(node) and self.speaks(other)

    def connected(self, node: str, peer: Peer, facts: RoutingFacts) -> bool:
        """Whether a node has a session with a peer, a node or a router beyond them, now."""
        if peer.node:
            return self.established(node, peer.node, facts)
        return self._reaches(node, peer) and self.speaks(node)

    def beyond(self, node: str, facts: RoutingFacts) -> Iterator[tuple[str, Peer]]:
        """(network, peer that it was learned from) of what routers announce to a node."""
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
        """(network, node) of all that the underlay's routers learn."""
        own = [address for address, router in self._routers.items() if router.underlay]
        return sorted({learned for address in own for learned in self._at(address, facts)})

    def _at(self, router: str, facts: RoutingFacts) -> Iterator[tuple[str, str]]:
        """(network, node) of what nodes announce to a router."""
        silent = {*self.wrong("withheld"), *self.wrong("astray")}
        peers = {
            node: {peer.address: peer for peer in self.peers(node, facts)}
            for node in {*facts.ends} - silent
        }
        for cidr, owner in facts.elsewhere(""):
            if router in peers.get(owner, {}) and self._reaches(owner, peers[owner][router]):
                yield cidr, owner

    def learns(self, node: str, owner: str, facts: RoutingFacts) -> bool:
        """Whether a node has the routes of another one: by a session with it, or with a Linux node that reflects."""
        if owner in self.wrong("withheld"):
            return False
        if self._routes(node, owner, facts):
            return True
        return any(
            self._routes(node, name, facts) and self._routes(name, owner, facts)
            for name, end in facts.ends.items()
            if _end(end).reflects and self.is_linux(name)
        )

    def next_hop(self, node: str, facts: RoutingFacts) -> str:
        """By which address a node says that its blocks are reached."""
        return NOWHERE if node in self.wrong("astray") else facts.ends[node].address

    def announced(self, node: str, facts: RoutingFacts) -> list[str]:
        """The networks that a Windows node announces: its blocks, and nothing else."""
        own = [] if node in self.wrong("withheld") else list(facts.own_blocks(node))
        return own + [network for name, network in self.wrong("more") if name == node]

    def _routes(self, node: str, other: str, facts: RoutingFacts) -> bool:
        """As :meth:`established`, or not yet forgotten."""
        up = (self.speaks(name) or self._kept(name) for name in (node, other))
        return self._agreed(node, other, facts) and all(up)

    def _reaches(self, node: str, peer: Peer) -> bool:
        """Whether a peer of a node's is a router that is there and agrees, and knows what the node says, as there."""
        router = None if peer.node else self._routers.get(peer.address)
        return (
            router is not None
            and router.asn == peer.asn
            and (self.speaks(node) or self._kept(node))
        )

    def _kept(self, node: str) -> bool:
        """A program of the node ended by itself, and so lately that others still keep what it said."""
        return self._left.get(node, 0.0) > time.monotonic() and node not in {
            name for name, _ in self.wrong("stopped")
        }

    def _agreed(self, node: str, other: str, facts: RoutingFacts) -> bool:
        both = ((node, other), (other, node))
        told = all(any(peer.node == to for peer in self.peers(at, facts)) for at, to in both)
        return told and frozenset((node, other)) not in self.wrong("down")


def services(facts: RoutingFacts) -> list[str]:
    """The networks of Services that Linux nodes announce."""
    return [entry["cidr"] for name in ADVERTISED for entry in _settings(facts).get(name) or ()]


def as_of(end: NodeEnd, facts: RoutingFacts) -> int:
    """A node's AS number."""
    return _end(end).asn or int(_settings(facts).get("asNumber") or DEFAULT_AS)


def end_of(address: str, metadata: Mapping[str, Any]) -> BgpEnd:
    """A node of this address, by its object's metadata."""
    notes = metadata.get("annotations") or {}
    labels = metadata.get("labels") or {}
    return BgpEnd(
        address=address,
        asn=int(notes.get(AS_NUMBER) or 0),
        reflects=bool(notes.get(CLUSTER_ID)),
        labels=tuple(sorted(labels.items())),
    )


def _told(node: str, spec: Mapping[str, Any], facts: RoutingFacts) -> Iterator[Peer]:
    """Yield the peers that one BGPPeer gives a node; peers by selector are each other's."""
    named = spec.get("node")
    selecting = spec.get("nodeSelector")
    kind: Literal["Node", "Global"] = "Node" if named or selecting else "Global"
    selected = {name for name in _selected(selecting, facts) if named in {None, "", name}}
    if spec.get("peerSelector"):
        chosen = _selected(spec["peerSelector"], facts)
        others = (chosen if node in selected else set()) | (selected if node in chosen else set())
        for name in others - {node}:
            yield Peer(kind, facts.ends[name].address, as_of(facts.ends[name], facts), name)
        return
    address, _, port = str(spec.get("peerIP") or "").partition(":")
    # Others are of IPv6: they concern BIRD6 alone.
    if node in selected and address and ":" not in port:
        yield Peer(kind, address, int(spec.get("asNumber") or 0))


def _settings(facts: RoutingFacts) -> Mapping[str, Any]:
    return facts.peering.get("default") or {}


def _selected(selector: str | None, facts: RoutingFacts) -> set[str]:
    """Return the nodes with these labels; without a selector all."""
    if not selector:
        return set(facts.ends)
    parsed = parse(selector)
    return {name for name, end in facts.ends.items() if parsed.matches(dict(_end(end).labels))}


def _end(end: NodeEnd) -> BgpEnd:
    return end if isinstance(end, BgpEnd) else BgpEnd(address=end.address)
