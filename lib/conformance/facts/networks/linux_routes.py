# SPDX-License-Identifier: Apache-2.0
"""Facts, by name, about the routes of Linux nodes to pods on Windows nodes, and about IPIP. The
module judges nothing."""

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from conformance.facts.felix_settings import FelixSettings, is_on
from conformance.facts.objects import CalicoObjects
from conformance.model.facts import Fact
from conformance.model.host import LinuxFacts, RouteEntry

IPIP = "tunl0"
AGGREGATED = "one route for the whole block"
Routes = Mapping[ipaddress.IPv4Network, RouteEntry]


@dataclass(frozen=True)
class LinuxRoutes:
    """The route facts that a single test reads. The function ``look`` reads a Linux node."""

    calico: CalicoObjects
    look: Callable[[str], LinuxFacts]

    def to_blocks(self, linux: str) -> dict[str, Fact[str]]:
        """Return how a Linux node routes each block of Windows nodes (``one route for the whole
        block``). Also return the routes to parts of a pool that are no node's block."""
        routes = {
            ipaddress.IPv4Network(route.destination): route for route in self.look(linux).routes
        }
        found = {
            f"route of node {linux} to {cidr} of node {owner}": self._to_block(routes, cidr, owner)
            for name, blocks in self.calico.blocks().items()
            for owner in [name.removeprefix("blocks of node ")]
            for cidr in map(ipaddress.IPv4Network, blocks.value or [])
        } | {
            f"route of node {linux} to {net}": f"via {route.gateway}, but no node has this block"
            for net, route in self._to_no_block(routes)
        }
        return {name: Fact(text, f"ip route on node {linux}") for name, text in found.items()}

    def _to_block(self, routes: Routes, cidr: ipaddress.IPv4Network, owner: str) -> str:
        """Return how a Linux node routes a block of the node ``owner``."""
        if cidr not in routes:
            return "no route for the whole block"
        hop = routes[cidr].gateway
        if other := self.calico.by_another(hop, owner):
            return f"via {hop}, which is node {other}"
        inside = [
            f"{net} dev {route.device}"
            for net, route in routes.items()
            if net.subnet_of(cidr) and net != cidr
        ]
        return f"only routes within the block: {', '.join(inside)}" if inside else AGGREGATED

    def _to_no_block(self, routes: Routes) -> Iterator[tuple[ipaddress.IPv4Network, RouteEntry]]:
        """Yield the routes through another node to a part of a pool that is no node's block."""
        affinities, _ = self.calico.listed("BlockAffinity")
        taken = [ipaddress.IPv4Network(affinity["spec"]["cidr"]) for affinity in affinities]
        pools = [
            ipaddress.IPv4Network(str(pool.value)) for pool in self.calico.pool_cidrs().values()
        ]
        for net, route in routes.items():
            in_pool = net.prefixlen < 32 and any(map(net.subnet_of, pools))
            if route.gateway and in_pool and not any(map(net.overlaps, taken)):
                yield net, route

    def by_ipip(self, linux: str) -> dict[str, Fact[list[str]]]:
        """Return the routes of a Linux node that use the IPIP device."""
        routes = [route.destination for route in self.look(linux).routes if route.device == IPIP]
        return {f"routes of node {linux} via {IPIP}": Fact(routes, f"ip route on node {linux}")}

    def ipip_setting(self) -> dict[str, Fact[str]]:
        """Return whether IPIP is turned on; ``off`` also if the setting is absent, because the
        pools decide in this case."""
        felix = FelixSettings(
            lambda: self.calico.default("FelixConfiguration"), self.calico.facts.felix_overrides
        )
        linux = self.calico.facts.by_os("linux")
        return {
            name: Fact(
                "on" if is_on(fact.value) else "off",
                fact.source if fact.known else f"{fact.source}, so it follows the IP pools",
            )
            for name, fact in felix.everywhere("ipipEnabled", linux).items()
        }
