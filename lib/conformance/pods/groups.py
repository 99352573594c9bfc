# SPDX-License-Identifier: Apache-2.0
"""Groups of pods, and the pairs of pods between them: what tests name in place of single pods.

A group is a role's pods, one on each covered node of its operating system.  Pairs of pods and a port, or a Service in
front of the server, make the pairs of a client and a target that are decided one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from ipaddress import IPv4Address
from itertools import cycle

from conformance.errors import MissingCapability
from conformance.model.endpoint import SYSTEMS, Pair, Target, Workload
from conformance.pods.placement import firsts

CROWD = IPv4Address("198.18.0.0")
"""The first of the addresses that are kept for measurements (RFC 2544) and that no pod has."""
PodPair = tuple[Workload, Workload]
"""A client pod and a server pod, on no port yet."""


class PodPairs(tuple[PodPair, ...]):
    """Client pods with server pods, each pair once."""

    __slots__ = ()

    def tcp(self, port: int) -> list[Pair]:
        """From each client to that TCP port of its server's own address."""
        return [(client, server.tcp(port)) for client, server in self]

    def udp(self, port: int) -> list[Pair]:
        """From each client to that UDP port of its server's own address."""
        return [(client, server.udp(port)) for client, server in self]

    def tcp_and_udp(self, port: int) -> list[Pair]:
        """From each client to that port of its server's own address, by TCP and by UDP."""
        return [*self.tcp(port), *self.udp(port)]

    def through(self, target: Callable[[Workload], Target]) -> list[Pair]:
        """From each client to what stands in front of its server: ``pod_pairs.through(services.by_address)``."""
        return [(client, target(server)) for client, server in self]

    def one_per_build(self) -> PodPairs:
        """As few pairs as have a client and a server of each Windows build; between Linux pods one pair."""
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
    """Pods that play one role, at most one on each node."""

    __slots__ = ()

    def __add__(self, other: Iterable[Workload]) -> Group:  # type: ignore[override]
        return Group((*self, *other))

    def to(self, others: Iterable[Workload]) -> PodPairs:
        """Each of these with each of those, but none with itself."""
        servers = tuple(others)
        return PodPairs(
            (client, server) for client in self for server in servers if client.uid != server.uid
        )

    def across(self, others: Iterable[Workload]) -> PodPairs:
        """Each of these with each of those on another node.  Raises MissingCapability where there is no such pair."""
        return self._some(others, "two nodes", lambda client, server: client.node != server.node)

    def beside(self, others: Iterable[Workload]) -> PodPairs:
        """Each of these with those on its own node.  Raises MissingCapability where there is no such pair."""
        return self._some(others, "one node", lambda client, server: client.node == server.node)

    def in_turns_to(self, servers: Iterable[Workload]) -> PodPairs:
        """Return each server with a client of each operating system; the clients take turns.

        Few commands then run at once on a Windows node.
        """
        systems = [[pod for pod in self if pod.os == os] for os in SYSTEMS]
        return PodPairs(pair for clients in systems for pair in zip(cycle(clients), servers))

    def in_crowd(self, place: int, size: int) -> list[str]:
        """Return ``size`` addresses: those of these pods from ``place`` on, the rest of no pod."""
        nobodys = [str(CROWD + number) for number in range(size - len(self))]
        return [*nobodys[: place - 1], *(pod.address for pod in self), *nobodys[place - 1 :]]

    def one_per_build(self) -> Group:
        """The first pod of each Windows build; of Linux pods the first."""
        return Group(firsts(self, lambda workload: workload.build))

    def one_per_os(self) -> Group:
        return Group(firsts(self, lambda workload: workload.os))

    def playing(self, kind: str) -> Group:
        """Those of a role of this kind, ``server`` or ``client``, of either operating system."""
        return Group(workload for workload in self if workload.role.rpartition("-")[2] == kind)

    def at(self, *nodes: str) -> Group:
        """Those on these nodes, in the nodes' order.  Raises MissingCapability where one has none."""
        there = {workload.node: workload for workload in self}
        missing = [name for name in nodes if name not in there]
        if missing:
            raise MissingCapability(
                f"a pod is wanted on node {missing[0]}, and this run covers {', '.join(there) or 'no node'}",
                f"cover it: --nodes={missing[0]}",
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
        where: str,
        fits: Callable[[Workload, Workload], bool],
    ) -> PodPairs:
        """Return the pairs that fit; ``where`` names what they need.  Raises MissingCapability."""
        servers = tuple(others)
        found = PodPairs(pair for pair in self.to(servers) if fits(*pair))
        if not found:
            ends = (
                ", ".join(f"{server.role} on {server.node}" for server in (*self, *servers))
                or "there are none"
            )
            raise MissingCapability(
                f"needs a pair of pods on {where}: {ends}", "cover more nodes: --max-nodes-per-os"
            )
        return found


def _ends(pair: PodPair) -> set[tuple[str, str]]:
    """Return each end of the pair with its Windows build."""
    client, server = pair
    return {("client", client.build), ("server", server.build)}
