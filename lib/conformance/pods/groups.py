# SPDX-License-Identifier: Apache-2.0
"""Groups of pods, and the pairs of pods between them, which tests name instead of single pods.

A group is a role's pods, one on each covered node of its operating system. Each pair of
a client and a target is decided separately. Such a pair is made from a pair of pods and a port, or
a Service in front of the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Address
from itertools import cycle

from conformance.errors import MissingCapability, UsageProblem
from conformance.model.endpoint import SYSTEMS, Pair, Target, Workload
from conformance.pods.placement import firsts

CROWD = IPv4Address("198.18.0.0")
"""The first address of the range reserved for measurements (RFC 2544). No pod has an address of
this range."""
PodPair = tuple[Workload, Workload]
"""A client pod and a server pod, still without a port."""


class PodPairs(tuple[PodPair, ...]):
    """Client pods with server pods, each pair once."""

    __slots__ = ()

    def tcp(self, port: int) -> list[Pair]:
        """Return pairs of each client and the given TCP port of its server's own address."""
        return [(client, server.tcp(port)) for client, server in self]

    def udp(self, port: int) -> list[Pair]:
        """Return pairs of each client and the given UDP port of its server's own address."""
        return [(client, server.udp(port)) for client, server in self]

    def through(self, target: Callable[[Workload], Target]) -> list[Pair]:
        """Return pairs of each client and a target in front of its server:
        ``pod_pairs.through(services.by_address)``."""
        return [(client, target(server)) for client, server in self]

    def one_per_build(self) -> PodPairs:
        """Return the smallest set of pairs in which each Windows build has a client and a server;
        for Linux pods, one pair."""
        lacking = {("client", workload.build) for workload in self.clients} | {
            ("server", workload.build) for workload in self.servers
        }
        found: list[PodPair] = []
        while lacking:
            client, server = max(self, key=lambda pair: len(_ends(pair) & lacking))
            found.append((client, server))
            lacking -= _ends((client, server))
        return PodPairs(found)

    @property
    def clients(self) -> Group:
        return Group({workload.uid: workload for workload, _ in self}.values())

    @property
    def servers(self) -> Group:
        return Group({workload.uid: workload for _, workload in self}.values())


class Group(tuple[Workload, ...]):
    """Pods with the same role, at most one on each node."""

    __slots__ = ()

    def __add__(self, other: Iterable[Workload]) -> Group:  # type: ignore[override]
        return Group((*self, *other))

    def and_also(self, pod: Workload) -> Group:
        """Return these pods and another pod."""
        return Group((*self, pod))

    def to(self, others: Iterable[Workload]) -> PodPairs:
        """Return pairs of each of these pods and each pod of the other group, except pairs of a pod
        with itself.

        Raise the errors of :meth:`across`.
        """
        return self._some(others, "two pods", lambda client, server: True)

    def across(self, others: Iterable[Workload]) -> PodPairs:
        """Return pairs of each of these pods and each pod of the other group on another node.

        Raise MissingCapability if there is no such pair, UsageProblem if a group is empty.
        """
        return self._some(
            others, "a pair of pods on two nodes", lambda client, server: client.node != server.node
        )

    def beside(self, others: Iterable[Workload]) -> PodPairs:
        """Return pairs of each of these pods and each pod of the other group on the same node.
        Raise the errors of :meth:`across`."""
        return self._some(
            others, "a pair of pods on one node", lambda client, server: client.node == server.node
        )

    def itself(self, others: Iterable[Workload]) -> PodPairs:
        """Return each pod that is in both groups, paired with itself."""
        return PodPairs((pod, pod) for pod in others if pod in self)

    def in_turns_to(self, servers: Sequence[Workload]) -> PodPairs:
        """Return pairs of each server and a client of each operating system; the clients of a
        system take turns.

        Thus few commands run at once on a Windows node. Raise the errors of :meth:`across`.
        """
        self.to(servers)
        systems = [[pod for pod in self if pod.os == os] for os in SYSTEMS]
        return PodPairs(pair for clients in systems for pair in zip(cycle(clients), servers))

    def in_crowd(self, place: int, size: int) -> list[str]:
        """Return ``size`` addresses: these pods' addresses from position ``place`` on, and
        otherwise addresses of no pod."""
        nobodys = [str(CROWD + number) for number in range(size - len(self))]
        return [*nobodys[: place - 1], *(pod.address for pod in self), *nobodys[place - 1 :]]

    def one_per_build(self) -> Group:
        """Return the first pod of each Windows build; for Linux pods, the first pod."""
        return Group(firsts(self, lambda workload: workload.build))

    def one_per_os(self) -> Group:
        return Group(firsts(self, lambda workload: workload.os))

    def playing(self, kind: str) -> Group:
        """Return the pods of a role of this kind, ``server`` or ``client``, of either operating
        system."""
        return Group(workload for workload in self if workload.role.rpartition("-")[2] == kind)

    def at(self, *nodes: str) -> Group:
        """Return the pods on these nodes, in the nodes' order.

        Raise MissingCapability if a node has no such pod, UsageProblem if no node is named.
        """
        if not nodes:
            raise UsageProblem("pods of certain nodes are requested, but no node is named")
        there = {workload.node: workload for workload in self}
        missing = [name for name in nodes if name not in there]
        if missing:
            raise MissingCapability(
                f"the test needs a pod on node {missing[0]}, but this run covers {', '.join(there) or 'no node'}",
                f"cover the node: --nodes={missing[0]}",
            )
        return Group(there[name] for name in nodes)

    def tcp(self, port: int) -> list[Target]:
        return [workload.tcp(port) for workload in self]

    @property
    def first(self) -> Workload:
        return self[0]

    def _some(
        self,
        others: Iterable[Workload],
        what: str,
        fits: Callable[[Workload, Workload], bool],
    ) -> PodPairs:
        """Return the matching pairs; ``what`` names the requirement of a pair. Raise the errors of
        :meth:`across`."""
        servers = tuple(others)
        if not self or not servers:
            raise UsageProblem("pairs of pods are requested, but one of the groups is empty")
        found = PodPairs(
            (client, server)
            for client in self
            for server in servers
            if client.uid != server.uid and fits(client, server)
        )
        if not found:
            ends = ", ".join(
                f"{pod.role} on {pod.node}" for pod in dict.fromkeys((*self, *servers))
            )
            raise MissingCapability(
                f"the test needs {what}, but has only: {ends}",
                "cover more nodes: --max-nodes-per-os",
            )
        return found


def _ends(pair: PodPair) -> set[tuple[str, str]]:
    """Return the two roles ``client`` and ``server``, each with the build of the pod that has this
    role in the pair."""
    client, server = pair
    return {("client", client.build), ("server", server.build)}
