# SPDX-License-Identifier: Apache-2.0
"""Finds the paths between nodes that cross a router, and those that stay in one subnet."""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, replace

from conformance.errors import NotObservable
from conformance.expect.case import Case, Paths
from conformance.expect.context import Context
from conformance.model.claim import UNDERLAY
from conformance.model.endpoint import Pair, Workload
from conformance.model.facts import Facts
from conformance.pods.coverage import subnet
from conformance.probe.host import Hosts


@dataclass
class Underlay:
    """The underlay subnets of a cluster, from Calico's annotations of nodes."""

    context: Context
    facts: Facts

    def beside(self, case: Case) -> Case:
        """Return the case with the underlay subnets of its ends added to the reason.

        The subnets are also stored with the test's result; the report's summary shows them below
        the claim.
        """
        ends = {pod.node for pair in case.pairs for pod in _ends(pair)}
        places = sorted({subnet(node) for node in self.facts.nodes if node.name in ends})
        self.context.sink.record("underlay subnets", len(places))
        reported = _subnets_phrase(places)
        self.context.sink.record(UNDERLAY, reported)
        return replace(case, because=f"{case.because}; {reported}")


@dataclass
class Subnets:
    """The underlay subnets of a cluster, from the routes of Linux nodes. This works with every
    plugin of the pods' network."""

    hosts: Hosts

    def within(self, case: Case, nodes: Iterable[Workload]) -> Paths:
        """Return a case's paths whose two nodes share a subnet with a node of ``nodes``.

        ``nodes``: pods in the network of Linux hosts.

        Raise NotObservable if there are no such paths: nothing can show what happens within a
        subnet.
        """
        links = [link for pod in nodes for link in self._of(pod)]
        found = [
            pair
            for pair in case.pairs
            if any(
                all(ipaddress.IPv4Address(end.node_address) in link for end in _ends(pair))
                for link in links
            )
        ]
        if not found:
            there = (
                ", ".join(dict.fromkeys(map(str, links))) or "no subnet of a Linux node is known"
            )
            raise NotObservable(
                f"no two of the covered nodes that the test connects are in one subnet ({there})",
                "cover nodes of one subnet: --nodes",
            )
        return Paths(found, open=case.open, because=case.because)

    def _of(self, pod: Workload) -> list[ipaddress.IPv4Network]:
        """Return the networks of a node's links that contain the node's own address; ``pod`` stands
        for its node."""
        own = ipaddress.IPv4Address(pod.node_address)
        networks = [
            ipaddress.IPv4Network(route.destination)
            for route in self.hosts.linux(pod.node).routes
            if not route.gateway
        ]
        return [network for network in networks if own in network and 0 < network.prefixlen < 32]


def _ends(pair: Pair) -> tuple[Workload, ...]:
    """Return the pods at both ends of a path."""
    return (pair[0], *pair[1].backends)


def _subnets_phrase(places: list[str]) -> str:
    """Return a phrase about these subnets, each given once; an empty string stands for an unknown
    subnet."""
    if "" in places:
        return "the nodes' subnets are not known, nor whether a router was crossed"
    if len(places) > 1:
        return f"between nodes of {len(places)} subnets, across routers: {', '.join(places)}"
    return f"between nodes of one subnet, without a router: {', '.join(places)}"
