# SPDX-License-Identifier: Apache-2.0
"""What Windows nodes say about BGP, as facts by name: the service, sessions, what they announce and
what they learn.

It judges nothing.  A host that does not know the cmdlets, or whose answer is another error than
that BGP is not configured, tells nothing: what it was asked is then not known.
"""

import ipaddress
from collections.abc import Collection

from conformance.catalog import Conditions
from conformance.errors import MissingCapability
from conformance.facts.calico_api import ADDRESS
from conformance.facts.node_readings import Hosts
from conformance.facts.objects import CalicoObjects, address_of
from conformance.kube.client import Obj
from conformance.model.facts import Fact, NodeFacts
from conformance.model.host import BgpHost
from conformance.policy.selectors import Selection, calico

CONNECTED = "Connected"
NOT_CONFIGURED = "BGP is not configured"
"""What each cmdlet says until Calico's confd has made a router on the host (calico#11714)."""
NO_CMDLET = "CommandNotFoundException"
"""Id of the error, in every language, on a host without the module RemoteAccess."""
SERVICE_GONE = "NoServiceFoundForGivenName"
ADVERTISED = ("serviceClusterIPs", "serviceExternalIPs", "serviceLoadBalancerIPs")


class BgpFacts:
    """Reads of one test."""

    ABOUT = Conditions(modes=("bgp",))
    """On other clusters no node speaks BGP."""

    OWN = "its blocks"
    """What a Windows node is to announce."""

    def __init__(
        self, calico: CalicoObjects, hosts: Hosts, looked_into: Collection[str] = ()
    ) -> None:
        """``looked_into``: Windows nodes that may be looked into to tell which end of a session is
        down."""
        self._hosts = hosts
        self._calico = calico
        self._looked_into = looked_into
        self._seen: dict[str, BgpHost] = {}
        """What each host said since the read that is under way began."""

    def service(self, windows: str) -> dict[str, Fact[str]]:
        """Status of a Windows node's RemoteAccess, ``none`` without one; told with it, an error of
        its router's own."""
        seen = self._anew(windows)
        error = seen.errors.get("service", "")
        silent = seen.errors.get("router", "")
        status = seen.service or ("none" if error.startswith(SERVICE_GONE) else None)
        if (
            status == "Running"
            and silent
            and not silent.startswith(NO_CMDLET)
            and NOT_CONFIGURED not in silent
        ):
            status = f"Running, and Get-BgpRouter ends in an error: {silent}"
        source = f"Get-Service and Get-BgpRouter on node {windows}: {status or error}"
        return {f"service RemoteAccess of node {windows}": Fact(status, source)}

    def sessions(self, windows: str) -> dict[str, Fact[str]]:
        """State of a Windows node's session with every other node: ``Connected``, or what is wrong
        at which end.

        With it which of the other one's blocks is learned by a third node's address.  Not with
        nodes that announce no address, by which they could be a peer: that is DS-1's.
        """
        seen = self._anew(windows)
        found: dict[str, Fact[str]] = {}
        for other in self._calico.facts.nodes:
            if other.name == windows or not address_of(other):
                continue
            said = "; ".join(f"{peer.name} {peer.state}" for peer in seen.peers) or seen.errors.get(
                "peer", "no peer"
            )
            where = f"Get-BgpPeer on node {windows}: {said}"
            if (state := self._session(windows, other)) == CONNECTED:
                state += self._astray(seen, other)
            found[f"BGP session of node {windows} with node {other.name}"] = Fact(state, where)
        return found

    def external(self, windows: str) -> dict[str, Fact[str]]:
        """State of a Windows node's sessions with routers that are no node, with a route from each.

        Raises MissingCapability where no BGPPeer gives it one.
        """
        routers = self._routers(windows)
        if not routers:
            raise MissingCapability(
                f"no BGPPeer gives node {windows} a peer that is no node",
                "make a BGPPeer with the router's peerIP that selects it",
            )
        seen = self._anew(windows)
        source = f"Get-BgpPeer and Get-BgpRouteInformation on node {windows}"
        source += f": {seen.errors['peer']}" if "peer" in seen.errors else ""
        return {
            f"BGP session of node {windows} with {address}": Fact(_external(seen, address), source)
            if selected
            else Fact(None, "the nodeSelector of its BGPPeer cannot be read")
            for address, selected in routers.items()
        }

    def _routers(self, windows: str) -> dict[str, bool]:
        """Addresses that BGPPeers give a node for peers and that are no node's; whether each surely
        is one."""
        nodes = {node.name: node for node in self._calico.facts.nodes}
        addresses = {address_of(node) for node in nodes.values()}
        found = dict[str, bool]()
        for spec in (one.get("spec") or {} for one in self._calico.listed("BGPPeer")[0]):
            told = str(spec.get("peerIP") or "")
            address = (
                "" if told.count(":") > 1 else told.partition(":")[0]
            )  # IPv6 is nothing for Windows; or a port
            if not address or address in addresses or (spec.get("node") or windows) != windows:
                continue
            chosen = calico(spec.get("nodeSelector")).selects(nodes[windows].labels)
            if chosen is not Selection.SELECTS_NOT:
                found[address] = found.get(address, False) or chosen is Selection.SELECTS
        return found

    def announced(self, windows: str) -> dict[str, Fact[str]]:
        """What a Windows node announces: ``its blocks``, or what is missing, another's or more."""
        seen = self._anew(windows)
        name = f"networks that node {windows} announces"
        blocks = self._calico.blocks()[f"blocks of node {windows}"].value or []
        said = ", ".join(seen.custom_routes) or seen.errors.get("custom", "none")
        source = f"Get-BgpCustomRoute on node {windows}: {said}"
        if "custom" in seen.errors:
            return {name: Fact(None, source)}
        missing = sorted(set(blocks) - set(seen.custom_routes))
        more = sorted(set(seen.custom_routes) - set(blocks))
        pools = [str(pool.value) for pool in self._calico.pool_cidrs().values()]
        told = (
            f"not {', '.join(missing)}"
            if missing
            else f"{self.OWN} and {', '.join(more)}"
            if more
            else self.OWN
        )
        if others := [network for network in more if not missing and _within(network, pools)]:
            told = f"{', '.join(others)}, no block of its own"
        return {name: Fact(told, f"{source}; BlockAffinities: {', '.join(blocks) or 'none'}")}

    def announces_more(self, told: str) -> bool:
        """Whether that is what a node announces which has all its blocks, and other networks
        too."""
        return told.startswith(f"{self.OWN} and ")

    def services(self, windows: str) -> dict[str, Fact[list[str]]]:
        """The networks of Services that a Windows node announces, of those that Calico is told to
        advertise.

        Not known where the node learns none of them from a Linux node, which would show that they
        are advertised. Raises MissingCapability where Calico advertises none.
        """
        wanted = self._advertised()
        if not wanted:
            raise MissingCapability(
                "Calico advertises no service network",
                "set serviceClusterIPs of BGPConfiguration default where that is wanted",
            )
        seen = self._anew(windows)
        name = f"service networks that node {windows} announces"
        own = [route for route in seen.custom_routes if _within(route, wanted)]
        witness = [
            f"{route.network} by {route.peer}"
            for route in seen.routes
            if _within(route.network, wanted)
        ]
        if "custom" in seen.errors or not (own or witness):
            why = (
                seen.errors.get("custom")
                or f"it learns none of {', '.join(wanted)}: nobody seems to advertise it"
            )
            return {name: Fact(None, f"node {windows}: {why}")}
        return {
            name: Fact(
                own,
                f"Get-BgpCustomRoute on node {windows}, which learns {', '.join(witness) or 'none'}",
            )
        }

    def deviations(self, node: str, toward: str) -> dict[str, Fact[str]]:
        """What a node lacks for another one's pods: session, route, or the address that it
        announces, in this order."""
        nodes = {one.name: one for one in self._calico.facts.nodes}
        if not address_of(nodes[toward]):
            return {
                f"address of node {toward}": Fact(
                    f"none is announced (annotation {ADDRESS})", "its annotations"
                )
            }
        windows = next((name for name in (node, toward) if name in self._looked_into), "")
        if windows:
            self._anew(windows)
            other = toward if windows == node else node
            state = self._session(windows, nodes[other])
            if state not in {None, CONNECTED}:
                return {
                    f"BGP session of node {windows} with node {other}": Fact(
                        state, f"Get-BgpPeer on node {windows}"
                    )
                }
        lacking = self._lacking_routes(nodes[node], nodes[toward])
        return lacking or (self._gateway(windows) if windows else {})

    def _lacking_routes(self, node: NodeFacts, toward: NodeFacts) -> dict[str, Fact[str]]:
        """Return what is wrong with a node's routes to another node's blocks.

        Nothing, where the node shows no routes at all.
        """
        blocks = self._blocks(toward.name)
        if node.os == "linux":
            hops = [
                (route.destination, route.gateway) for route in self._hosts.linux(node.name).routes
            ]
        else:
            hops = [(route.network, route.next_hop) for route in self._host(node.name).routes]
        found = {
            block: _lacks(
                [hop for to, hop in hops if hop and to == block], node, address_of(toward)
            )
            for block in (blocks if hops else ())
        }
        return {
            f"route of node {node.name} to block {block} of node {toward.name}": Fact(
                lack, f"routes of node {node.name}"
            )
            for block, lack in found.items()
            if lack
        }

    def _gateway(self, windows: str) -> dict[str, Fact[str]]:
        """``Calico_ep``, which Calico gives a Windows host among its pods as their gateway, where
        HNS shows none."""
        if any(endpoint.name.endswith("_ep") for endpoint in self._hosts.hns_endpoints(windows)):
            return {}
        return {
            f"endpoint Calico_ep of node {windows}, the gateway of its pods": Fact(
                "none", f"Get-HnsEndpoint on node {windows}"
            )
        }

    def _anew(self, windows: str) -> BgpHost:
        """What a host says now; what others said before is forgotten."""
        self._seen.clear()
        return self._host(windows)

    def _host(self, windows: str) -> BgpHost:
        if windows not in self._seen:
            self._seen[windows] = self._hosts.bgp(windows)
        return self._seen[windows]

    def _session(self, windows: str, other: NodeFacts) -> str | None:
        """``Connected``, or what the session is and which end is down; None: not known."""
        seen = self._host(windows)
        if trouble := _trouble(seen):
            return f"none; the end that is down is node {windows}: {trouble}"
        if "peer" in seen.errors:
            return None
        state = _state(seen, other)
        return CONNECTED if state == CONNECTED else f"{state}; {self._down(windows, seen, other)}"

    def _blocks(self, node: str) -> list[str]:
        return self._calico.blocks(of_all=True)[f"blocks of node {node}"].value or []

    def _astray(self, seen: BgpHost, other: NodeFacts) -> str:
        """A block of another node's that a Windows host learned by a third node's address; empty:
        none."""
        blocks = self._blocks(other.name)
        for route in seen.routes:
            if route.network in blocks and (
                third := self._calico.by_another(route.next_hop, other.name)
            ):
                return f", and its block {route.network} by {route.next_hop}, which is node {third}"
        return ""

    def _down(self, windows: str, seen: BgpHost, other: NodeFacts) -> str:
        """Which end of a session is down, as far as the covered Windows nodes tell."""
        if not seen.peers:
            return f"node {windows} is told of no peer: see nodeToNodeMeshEnabled of BGPConfiguration, and BGPPeers"
        if len(seen.peers) > 1 and not _has_session(seen):
            return f"the end that is down is node {windows}: it has no session at all"
        at_other_end = self._host(other.name) if other.name in self._looked_into else None
        if at_other_end and (trouble := _trouble(at_other_end)):
            return f"the end that is down is node {other.name}: {trouble}"
        others = [name for name in self._looked_into if name not in {windows, other.name}]
        if others and not any(_state(self._host(name), other) == CONNECTED for name in others):
            return (
                f"the end that is down is node {other.name}: no Windows node has a session with it"
            )
        if others or (at_other_end and _has_session(at_other_end)):
            return "between these two nodes alone"
        return f"look at both ends, node {other.name} first"

    def _advertised(self) -> list[str]:
        objects, _ = self._calico.listed("BGPConfiguration")
        specs: list[Obj] = [
            one.get("spec") or {} for one in objects if one["metadata"]["name"] == "default"
        ]
        return [
            entry["cidr"] for spec in specs for name in ADVERTISED for entry in spec.get(name) or []
        ]


def _trouble(seen: BgpHost) -> str:
    """Why a Windows host can have no session; empty: nothing is known against it."""
    if seen.service and seen.service != "Running":
        return f"its service RemoteAccess is {seen.service}"
    return NOT_CONFIGURED if NOT_CONFIGURED in seen.errors.get("peer", "") else ""


def _has_session(seen: BgpHost) -> bool:
    return any(peer.state == CONNECTED for peer in seen.peers)


def _external(seen: BgpHost, address: str) -> str | None:
    """Return the state of a Windows host's session with a router; None: not known."""
    peer = next((one for one in seen.peers if one.address == address), None)
    if peer is None:
        trouble = _trouble(seen)
        known = trouble or "peer" not in seen.errors
        return f"no peer {address}; {trouble or 'look at its confd'}" if known else None
    if peer.state == CONNECTED and all(route.peer != peer.name for route in seen.routes):
        return "Connected, without a route from it"
    return peer.state


def _state(seen: BgpHost, other: NodeFacts) -> str:
    states = {peer.address: peer.state for peer in seen.peers}
    return states.get(address_of(other), f"no peer {address_of(other)}")


def _lacks(hops: list[str], node: NodeFacts, address: str) -> str:
    """What is wrong with a node's routes to a block of the node with this address; empty: one of
    them is right.

    To a node of another subnet it is right by any router of its own subnet.
    """
    own = ipaddress.ip_interface(node.annotations.get(ADDRESS) or address).network
    routed = own.num_addresses > 1 and ipaddress.ip_address(address) not in own
    if any(ipaddress.ip_address(hop) in own if routed else hop == address for hop in hops):
        return ""
    not_this = (
        f"which is beyond its subnet {own}" if routed else f"not by the node's address {address}"
    )
    return f"by {hops[0]}, {not_this}" if hops else "no route"


def _within(network: str, wanted: list[str]) -> bool:
    """Whether a network is one of these, or a part of one."""
    mine = ipaddress.ip_network(network, strict=False)
    return any(
        mine.version == 4 and ":" not in one and mine.subnet_of(ipaddress.IPv4Network(one))
        for one in wanted
    )
