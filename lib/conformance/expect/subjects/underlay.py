# SPDX-License-Identifier: Apache-2.0
"""The network that nodes stand in: whether paths cross a router, and which do not."""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from conformance.errors import Unseen
from conformance.expect.context import Context
from conformance.model.claim import UNDERLAY
from conformance.model.endpoint import Pair, Workload
from conformance.model.facts import Facts
from conformance.pods.coverage import subnet
from conformance.pods.groups import PodPairs
from conformance.probe.host import Hosts


@dataclass
class Underlay:
    """Underlay subnets of one cluster, as Calico's annotations of nodes tell them."""

    context: Context
    facts: Facts

    def beside(self, because: str, pairs: Iterable[Pair]) -> str:
        """``because``, and how many underlay subnets the ends of these paths stand in; decides nothing.

        It is kept with the test's result, too, and the report's summary shows it beside the claim.
        """
        several = list(pairs)
        ends = {source.node for source, _ in several} | {
            pod.node for _, target in several for pod in target.backends
        }
        places = sorted({subnet(node) for node in self.facts.nodes if node.name in ends})
        self.context.sink.record("underlay subnets", len(places))
        told = _told(places)
        self.context.sink.record(UNDERLAY, told)
        return f"{because}; {told}"


@dataclass
class Subnets:
    """Underlay subnets of one cluster, as the routes of Linux nodes tell them, whatever plugin networks the pods."""

    hosts: Hosts

    def within(self, pairs: PodPairs, nodes: Iterable[Workload]) -> PodPairs:
        """Those pairs whose two nodes stand in one subnet, which one of ``nodes``, pods in Linux hosts, is in as well.

        Raises Unseen where there are none: nothing can show then what holds within a subnet.
        """
        links = [link for pod in nodes for link in self._of(pod)]
        found = [
            pair
            for pair in pairs
            if any(
                all(ipaddress.IPv4Address(end.node_address) in link for end in pair)
                for link in links
            )
        ]
        if not found:
            there = ", ".join(dict.fromkeys(map(str, links))) or "none of a Linux node is known"
            raise Unseen(
                f"no two of the covered nodes between which a client would connect stand in one subnet ({there})",
                "cover nodes of one subnet: --nodes",
            )
        return PodPairs(found)

    def _of(self, pod: Workload) -> list[ipaddress.IPv4Network]:
        """Networks on the links of a pod's node that its own address is in."""
        own = ipaddress.IPv4Address(pod.node_address)
        networks = [
            ipaddress.IPv4Network(route.destination)
            for route in self.hosts.linux(pod.node).routes
            if not route.gateway
        ]
        return [network for network in networks if own in network and 0 < network.prefixlen < 32]


def _told(places: list[str]) -> str:
    """``places``: subnets, each once; an empty one is not known."""
    if "" in places:
        return "the nodes' subnets are not known, nor whether a router was crossed"
    if len(places) > 1:
        return f"between nodes of {len(places)} subnets, over routers: {', '.join(places)}"
    return f"between nodes of one subnet, over no router: {', '.join(places)}"
