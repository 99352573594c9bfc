# SPDX-License-Identifier: Apache-2.0
"""The likely cause of a closed path between nodes on clusters where a component other than Calico
routes pods' packets. Linux nodes show their routes. Windows hosts show their endpoint in the pods'
network, except with flannel's overlay, which has no such endpoint. The routes of Windows hosts and
of a cloud's router cannot be read; they are named as the cause if everything else is right. The
module decides nothing."""

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass

from conformance.errors import SuiteError, first_line
from conformance.expect.explain.between_nodes import Blamed
from conformance.model.endpoint import Target, Workload
from conformance.model.facts import Facts
from conformance.model.host import RouteEntry
from conformance.probe.host import Hosts

OF_CLOUDS = ("AmazonVPC", "AzureVNET")
"""Plugins that give a Windows host no endpoint in its pods' network."""
TO_ALL = "0.0.0.0/0"
SEE = "CONN-3, and CP-2 or FL-1 where nodes have routes to each other's pods"
DO = "then add the route, or recreate the network that lacks the endpoint"


@dataclass(frozen=True)
class RoutedPaths:
    """The routes and gateways that a test's closed paths need."""

    hosts: Hosts
    facts: Facts

    def blamed(self, source: Workload, target: Target) -> Blamed:
        """Return the faults at the ends of a path. If there are none, return the remaining
        suspects. Return nothing if both ends are on the same node."""
        wrong: dict[str, None] = {}
        unread = ""
        ends = [(source, server) for server in target.backends if server.node != source.node]
        for here, there in [*ends, *((server, client) for client, server in ends)]:
            try:
                wrong |= dict.fromkeys(self._wrong(here, there))
            except SuiteError as error:
                unread = unread or f"node {here.node} could not be read: {first_line(error)}"
        sound = "" if not ends or wrong or unread else self._left(*ends[0])
        return Blamed(tuple(wrong), unread, by="routes", see=SEE, sound=sound, do=DO)

    def _wrong(self, here: Workload, there: Workload) -> Iterator[str]:
        """Yield what a node lacks on the path to a pod of another node."""
        if here.os == "linux":
            laid = self._laid(here.node)
            hops = [route.gateway for route in laid if _contains(route.destination, there.address)]
            if laid and not self._hops(there.node).intersection(hops):
                text = f"through {hops[0]}, which is another node" if hops else "no route"
                yield f"route of node {here.node} to pods of node {there.node}: {text}"
        elif (
            self._plugin(here.node) not in OF_CLOUDS
            and not self._is_overlay()
            and not self._has_gateway(here.node)
        ):
            yield (
                f"endpoint of node {here.node} in its pods' network, which is their gateway: "
                "missing"
            )

    def _left(self, source: Workload, server: Workload) -> str:
        """Return the remaining suspects for a path without a fault at its ends."""
        linux = [node.name for node in self.facts.by_os("linux")]
        asked = next((end.node for end in (source, server) if end.os == "linux"), linux[0])
        checks = "the fabric's source check drops packets from pods' own addresses"
        try:
            by_nodes = bool(self._laid(asked))
        except SuiteError:
            return ""
        if not by_nodes:
            return (
                "nodes have no routes to pods: a route of the fabric to pods of "
                f"node {source.node} or node {server.node} is missing, or {checks}"
            )
        windows = [end.node for end in (source, server) if end.os == "windows"]
        shown = " or ".join(f"node {node}" for node in windows)
        listed = "Get-NetRoute"
        if self._is_overlay():
            listed = "RemoteSubnetRoute of Get-HnsNetwork"
            checks = (
                f"UDP port 4789 does not pass between node {source.node} and node {server.node}"
            )
        route = f"a route of {shown} is missing ({listed}), or " if windows else ""
        return f"Linux nodes' routes to pods are right: {route}{checks}"

    def _laid(self, node: str) -> list[RouteEntry]:
        """Return a Linux node's routes through other nodes. There are none if the network between
        the nodes has the routes."""
        peers = {hop for peer in self.facts.nodes for hop in self._hops(peer.name)}
        routes = self.hosts.linux(node).routes
        return [one for one in routes if one.gateway in peers and one.destination != TO_ALL]

    def _hops(self, node: str) -> set[str]:
        """Return the next hops to a node's pods: its address, and the address of its device in
        flannel's overlay, which is the podCIDR's first."""
        found = next((one for one in self.facts.nodes if one.name == node), None)
        if found is None:
            return set()
        return {found.address, *(network.partition("/")[0] for network in found.pod_networks)}

    def _is_overlay(self) -> bool:
        return any(one.plane.value == "overlay" for one in self.facts.by_os("windows"))

    def _plugin(self, node: str) -> str | None:
        own = next((one.cni for one in self.facts.by_os("windows") if one.name == node), None)
        return (own or self.facts.cni).value

    def _has_gateway(self, node: str) -> bool:
        """Return whether a Windows host has an endpoint in its pods' network: ``cbr0_ep``,
        ``cbr0``."""
        names = {network.name for network in self.hosts.hns_networks(node)}
        endpoints = self.hosts.hns_endpoints(node)
        return any(one.name.endswith("_ep") or one.name in names for one in endpoints)


def _contains(network: str, address: str) -> bool:
    return ipaddress.ip_address(address) in ipaddress.ip_network(network, strict=False)
