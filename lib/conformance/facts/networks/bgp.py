# SPDX-License-Identifier: Apache-2.0
"""Facts about BGP on Windows nodes, by name: the service RemoteAccess, sessions, announced and
learned networks.

The module judges nothing.  If a host lacks the cmdlets, or answers with any error other than "BGP
is not configured", the fact is unknown.
"""

import ipaddress
from collections.abc import Collection, Mapping

from conformance.catalog import Conditions
from conformance.errors import MissingCapability
from conformance.facts.calico_api import ADDRESS
from conformance.facts.node_readings import Hosts
from conformance.facts.objects import CalicoObjects, address_of
from conformance.kube.client import Obj
from conformance.model.facts import Fact, NodeFacts
from conformance.model.host import BgpHost
from conformance.policy.selectors import calico

CONNECTED = "Connected"
NOT_CONFIGURED = "BGP is not configured"
"""The cmdlets' answer until Calico's confd has configured a router on the host (calico#11714)."""
NO_CMDLET = "CommandNotFoundException"
"""The error id on a host without the PowerShell module RemoteAccess; the id is the same in every
language.
"""
SERVICE_GONE = "NoServiceFoundForGivenName"
REFLECTOR = "projectcalico.org/RouteReflectorClusterID"
"""The annotation that makes a node a route reflector."""
ADVERTISED = ("serviceClusterIPs", "serviceExternalIPs", "serviceLoadBalancerIPs")


class BgpFacts:
    """The BGP facts that a single test reads."""

    ABOUT = Conditions(modes=("bgp",))
    """The only mode in which nodes speak BGP."""

    OWN = "its blocks"
    """The value for a Windows node that announces exactly the networks that it must announce."""
    BY_A_REFLECTOR = "learned from a Linux node"
    """The value for a block of a node that is not the Windows node's peer, if a Linux node is the
    source of the route."""

    def __init__(
        self, calico: CalicoObjects, hosts: Hosts, looked_into: Collection[str] = ()
    ) -> None:
        """Set up the facts. ``looked_into``: Windows nodes that the test may read to find out which
        end of a session is down."""
        self._hosts = hosts
        self._calico = calico
        self._looked_into = looked_into
        self._seen: dict[str, BgpHost] = {}
        """The answers of each host since the current read began."""

    def service(self, windows: str) -> dict[str, Fact[str]]:
        """Return the status of the service RemoteAccess on a Windows node, or ``none`` if there is
        no such service. If the service runs but its router reports an error, the status includes
        the error."""
        observed = self._anew(windows)
        error = observed.errors.get("service", "")
        silent = observed.errors.get("router", "")
        status = observed.service or ("none" if error.startswith(SERVICE_GONE) else None)
        if (
            status == "Running"
            and silent
            and not silent.startswith(NO_CMDLET)
            and NOT_CONFIGURED not in silent
        ):
            status = f"Running, but Get-BgpRouter fails: {silent}"
        source = f"Get-Service and Get-BgpRouter on node {windows}: {status or error}"
        return {f"service RemoteAccess of node {windows}": Fact(status, source)}

    def sessions(self, windows: str) -> dict[str, Fact[str]]:
        """Return the state of a Windows node's session with every other node: ``Connected``, or the
        fault and the end at fault.

        For a connected session, the fact also names a block of the other node that is learned by a
        third node's address. Nodes that announce no address are left out: no peer can be matched
        with them, and claim DS-1 covers them.
        """
        observed = self._anew(windows)
        found: dict[str, Fact[str]] = {}
        for other in self._calico.facts.nodes:
            if other.name == windows or not address_of(other):
                continue
            said = "; ".join(
                f"{peer.name} {peer.state}" for peer in observed.peers
            ) or observed.errors.get("peer", "no peer")
            where = f"Get-BgpPeer on node {windows}: {said}"
            if (state := self._session(windows, other)) == CONNECTED:
                state += self._astray(observed, other)
            found[f"BGP session of node {windows} with node {other.name}"] = Fact(state, where)
        return found

    def reflected(self, windows: str) -> dict[str, Fact[str]]:
        """Return how a Windows node learns the blocks of nodes that are not its peers.

        The value is ``learned from a Linux node`` if a Linux node reflects the block, else the
        fault. Raise MissingCapability if no block can reach the node by a reflector.
        """
        observed = self._anew(windows)
        source = f"Get-BgpPeer and Get-BgpRouteInformation on node {windows}"
        if why := observed.errors.get("peer") or observed.errors.get("route"):
            trouble = _trouble(observed)
            known = f"none, {trouble}" if trouble else None
            return {f"route reflectors of node {windows}": Fact(known, f"{source}: {why}")}
        linux, beyond = self._linux_peers(windows, observed)
        if not beyond:
            raise MissingCapability(
                f"node {windows} has no Linux peer that could reflect blocks of nodes that are not "
                "its peers",
                "create a BGPPeer whose peerSelector selects Linux route reflectors",
            )
        return {
            f"route of node {windows} to block {block} of node {node.name}": Fact(
                self._learned(observed, block, linux), source
            )
            for node in beyond
            for block in self._blocks(node.name)
        }

    def _linux_peers(
        self, windows: str, host: BgpHost
    ) -> tuple[dict[str, NodeFacts], list[NodeFacts]]:
        """Return the Linux nodes among a Windows host's peers, keyed by the names that the host
        uses, and the nodes that are not its peers.

        The second list is empty if the host has no Linux peer.
        """
        names = {peer.address: peer.name for peer in host.peers}
        others = [node for node in self._calico.facts.nodes if address_of(node)]
        near = [node for node in others if address_of(node) in names]
        linux = {names[address_of(node)]: node for node in near if node.os == "linux"}
        beyond = [node for node in others if node not in near and node.name != windows]
        return linux, beyond if linux else []

    def _learned(self, host: BgpHost, block: str, linux: Mapping[str, NodeFacts]) -> str:
        """Return :data:`BY_A_REFLECTOR` if a Windows host learns a block from a Linux node, else a
        text about the fault.

        ``linux``: the Linux nodes among the host's peers, keyed by the names that the host uses.
        """
        names = sorted({route.peer for route in host.routes if route.network == block})
        if any(name in linux for name in names):
            return self.BY_A_REFLECTOR
        states = {peer.name: peer.state for peer in host.peers}
        told = ", ".join(
            f"{states[name]} with node {node.name}"
            + ("" if _is_reflector(node) else ", which has no route reflector cluster ID")
            for name, node in linux.items()
        )
        found = f"learned from {names[0]}, which is not a Linux node" if names else "none"
        return f"{found}; sessions: {told}"

    def external(self, windows: str) -> dict[str, Fact[str]]:
        """Return the state of a Windows node's sessions with external routers. A session counts
        only if a route is learned from its router. Raise MissingCapability if no BGPPeer gives the
        node such a session."""
        routers = self._routers(windows)
        if not routers:
            raise MissingCapability(
                f"no BGPPeer makes a router outside the cluster a peer of node {windows}",
                f"create a BGPPeer with the router's peerIP that selects node {windows}",
            )
        observed = self._anew(windows)
        source = f"Get-BgpPeer and Get-BgpRouteInformation on node {windows}"
        source += f": {observed.errors['peer']}" if "peer" in observed.errors else ""
        return {
            f"BGP session of node {windows} with {address}": Fact(
                _external(observed, address), source
            )
            if selected
            else Fact(None, "the nodeSelector of the BGPPeer cannot be parsed")
            for address, selected in routers.items()
        }

    def _routers(self, windows: str) -> dict[str, bool]:
        """Return the addresses of the peers that BGPPeers give this node and that belong to no
        node. The value is True if the address certainly is a peer, False if this is not known."""
        nodes = {node.name: node for node in self._calico.facts.nodes}
        addresses = {address_of(node) for node in nodes.values()}
        found = dict[str, bool]()
        for spec in (one.get("spec") or {} for one in self._calico.listed("BGPPeer")[0]):
            reported = str(spec.get("peerIP") or "")
            address = (
                "" if reported.count(":") > 1 else reported.partition(":")[0]
            )  # no IPv6 on Windows; a port may follow an IPv4 address
            if not address or address in addresses or (spec.get("node") or windows) != windows:
                continue
            chosen = calico(spec.get("nodeSelector")).selects(nodes[windows].labels)
            if chosen is not False:
                found[address] = found.get(address, False) or chosen is True
        return found

    def announced(self, windows: str) -> dict[str, Fact[str]]:
        """Return what a Windows node announces: ``its blocks``, or the missing, foreign or extra
        networks."""
        observed = self._anew(windows)
        name = f"networks that node {windows} announces"
        blocks = self._calico.blocks()[f"blocks of node {windows}"].value or []
        said = ", ".join(observed.custom_routes) or observed.errors.get("custom", "none")
        source = f"Get-BgpCustomRoute on node {windows}: {said}"
        if "custom" in observed.errors:
            return {name: Fact(None, source)}
        missing = sorted(set(blocks) - set(observed.custom_routes))
        more = sorted(set(observed.custom_routes) - set(blocks))
        pools = [str(pool.value) for pool in self._calico.pool_cidrs().values()]
        text = (
            f"its blocks except {', '.join(missing)}"
            if missing
            else f"{self.OWN} and {', '.join(more)}"
            if more
            else self.OWN
        )
        if others := [network for network in more if not missing and _within(network, pools)]:
            text = f"{', '.join(others)} outside its blocks"
        return {name: Fact(text, f"{source}; BlockAffinities: {', '.join(blocks) or 'none'}")}

    def announces_more(self, told: str) -> bool:
        """Return whether a value of :meth:`announced` means that the node announces all of its
        blocks, and other networks too."""
        return told.startswith(f"{self.OWN} and ")

    def services(self, windows: str) -> dict[str, Fact[list[str]]]:
        """Return the service networks that a Windows node announces, among the networks that Calico
        is configured to advertise.

        The fact is unknown if the node announces no such network and learns none from a peer, since
        in this case no node is known to advertise a service network. Raise MissingCapability if
        Calico is configured to advertise none.
        """
        wanted = self._advertised()
        if not wanted:
            raise MissingCapability(
                "Calico advertises no service network",
                "set serviceClusterIPs of BGPConfiguration default to announce Services",
            )
        observed = self._anew(windows)
        name = f"service networks that node {windows} announces"
        own = [route for route in observed.custom_routes if _within(route, wanted)]
        witness = [
            f"{route.network} from {route.peer}"
            for route in observed.routes
            if _within(route.network, wanted)
        ]
        if "custom" in observed.errors or not (own or witness):
            why = (
                observed.errors.get("custom")
                or f"it learns none of {', '.join(wanted)}, so no peer seems to advertise them"
            )
            return {name: Fact(None, f"node {windows}: {why}")}
        return {
            name: Fact(
                own,
                f"Get-BgpCustomRoute on node {windows}, which learns {', '.join(witness) or 'none'}",
            )
        }

    def deviations(self, node: str, toward: str) -> dict[str, Fact[str]]:
        """Return what a node lacks to reach the pods of node ``toward``: the announced address of
        ``toward``, the session, or a route."""
        nodes = {one.name: one for one in self._calico.facts.nodes}
        if not address_of(nodes[toward]):
            return {
                f"address of node {toward}": Fact(
                    f"none is announced (annotation {ADDRESS})", "the node's annotations"
                )
            }
        windows = next((name for name in (node, toward) if name in self._looked_into), "")
        if windows:
            self._anew(windows)
            other = toward if windows == node else node
            state = self._session(windows, nodes[other])
            if state not in {None, CONNECTED} and not self._by_reflectors(windows, state):
                return {
                    f"BGP session of node {windows} with node {other}": Fact(
                        state, f"Get-BgpPeer on node {windows}"
                    )
                }
        lacking = self._lacking_routes(nodes[node], nodes[toward])
        return lacking or (self._gateway(windows) if windows else {})

    def _by_reflectors(self, windows: str, state: str | None) -> bool:
        """Return whether a session is missing because the mesh is off and the node has other peers
        instead."""
        is_alone = not self._host(windows).peers
        mesh = self._calico.facts.mesh.value
        return mesh is False and not is_alone and (state or "").startswith("no peer")

    def _lacking_routes(self, node: NodeFacts, toward: NodeFacts) -> dict[str, Fact[str]]:
        """Return the faults of a node's routes to another node's blocks.

        If the node shows no routes, return no faults.
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
        """Return a fault if HNS does not show the endpoint ``Calico_ep``, which Calico gives to a
        Windows host as the gateway of its pods."""
        if any(endpoint.name.endswith("_ep") for endpoint in self._hosts.hns_endpoints(windows)):
            return {}
        return {
            f"endpoint Calico_ep of node {windows}, the gateway of its pods": Fact(
                "none", f"Get-HnsEndpoint on node {windows}"
            )
        }

    def _anew(self, windows: str) -> BgpHost:
        """Read a host again, and forget all earlier answers."""
        self._seen.clear()
        return self._host(windows)

    def _host(self, windows: str) -> BgpHost:
        if windows not in self._seen:
            self._seen[windows] = self._hosts.bgp(windows)
        return self._seen[windows]

    def _session(self, windows: str, other: NodeFacts) -> str | None:
        """Return ``Connected``, or the state of the session and which end is down; None if the
        state is not known."""
        observed = self._host(windows)
        if trouble := _trouble(observed):
            return f"none; the end that is down is node {windows}: {trouble}"
        if "peer" in observed.errors:
            return None
        state = _state(observed, other)
        if state == CONNECTED:
            return CONNECTED
        if observed.peers and _is_reflector(other):
            return f"{state}; {_left_the_mesh(other.name, windows)}"
        return f"{state}; {self._down(windows, observed, other)}"

    def _blocks(self, node: str) -> list[str]:
        return self._calico.blocks(of_all=True)[f"blocks of node {node}"].value or []

    def _astray(self, host: BgpHost, other: NodeFacts) -> str:
        """Return a text about a block of the other node that a Windows host learned by a third
        node's address; an empty string if there is none."""
        blocks = self._blocks(other.name)
        for route in host.routes:
            if route.network in blocks and (
                third := self._calico.by_another(route.next_hop, other.name)
            ):
                return (
                    f", but its block {route.network} via {route.next_hop}, which is node {third}"
                )
        return ""

    def _down(self, windows: str, host: BgpHost, other: NodeFacts) -> str:
        """Describe which end of a session is down, as far as the covered Windows nodes show it."""
        if not host.peers:
            return f"node {windows} has no peer configured: see nodeToNodeMeshEnabled of BGPConfiguration, and BGPPeers"
        if len(host.peers) > 1 and not _has_session(host):
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
            return "only this session is down"
        return f"check both ends, node {other.name} first"

    def _advertised(self) -> list[str]:
        objects, _ = self._calico.listed("BGPConfiguration")
        specs: list[Obj] = [
            one.get("spec") or {} for one in objects if one["metadata"]["name"] == "default"
        ]
        return [
            entry["cidr"] for spec in specs for name in ADVERTISED for entry in spec.get(name) or []
        ]


def _trouble(host: BgpHost) -> str:
    """Return why a Windows host can have no session; an empty string if no reason is known."""
    if host.service and host.service != "Running":
        return f"service RemoteAccess is {host.service}"
    return NOT_CONFIGURED if NOT_CONFIGURED in host.errors.get("peer", "") else ""


def _has_session(host: BgpHost) -> bool:
    return any(peer.state == CONNECTED for peer in host.peers)


def _left_the_mesh(reflector: str, windows: str) -> str:
    return (
        f"node {reflector} is a route reflector and has left the mesh, but node {windows} still "
        "expects the session: confd's template for Windows does not skip route reflectors; add a "
        "BGPPeer between the two nodes"
    )


def _is_reflector(node: NodeFacts) -> bool:
    return node.os == "linux" and REFLECTOR in node.annotations


def _external(host: BgpHost, address: str) -> str | None:
    """Return the state of a Windows host's session with a router, or None if it is not known."""
    peer = next((one for one in host.peers if one.address == address), None)
    if peer is None:
        trouble = _trouble(host)
        known = trouble or "peer" not in host.errors
        return f"no peer {address}; {trouble or 'check confd on the node'}" if known else None
    if peer.state == CONNECTED and all(route.peer != peer.name for route in host.routes):
        return "Connected, but no route from this peer"
    return peer.state


def _state(host: BgpHost, other: NodeFacts) -> str:
    states = {peer.address: peer.state for peer in host.peers}
    return states.get(address_of(other), f"no peer {address_of(other)}")


def _lacks(hops: list[str], node: NodeFacts, address: str) -> str:
    """Return the fault of a node's routes to a block of the node with this address; an empty string
    if a route is correct.

    A route to a node of another subnet is correct if it leads through any router of the node's own
    subnet.
    """
    own = ipaddress.ip_interface(node.annotations.get(ADDRESS) or address).network
    routed = own.num_addresses > 1 and ipaddress.ip_address(address) not in own
    if any(ipaddress.ip_address(hop) in own if routed else hop == address for hop in hops):
        return ""
    not_this = (
        f"which is outside the subnet {own}" if routed else f"not via the node's address {address}"
    )
    return f"via {hops[0]}, {not_this}" if hops else "no route"


def _within(network: str, wanted: list[str]) -> bool:
    """Return whether an IPv4 network equals or lies within any of these networks."""
    mine = ipaddress.ip_network(network, strict=False)
    return any(
        mine.version == 4 and ":" not in one and mine.subnet_of(ipaddress.IPv4Network(one))
        for one in wanted
    )
