"""Who is let in and who is kept out of servers of both operating systems: the paths of tests about policy over time.

One test is about the servers of both systems at once, since each path is decided for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from itertools import cycle

from conformance.model.endpoint import OS, Pair
from conformance.pods.groups import Group, PodPairs
from conformance.pods.roles import ECHO_PORT
from conformance.pods.worker_pods import WorkerPods

OTHER_PORT = 8081
"""Another port of the echo, which servers alone have: what is wrong with one port alone shows, too."""
CROWD = IPv4Address("198.18.0.0")
"""The first of the addresses that are kept for measurements (RFC 2544) and that no pod has."""


@dataclass(frozen=True)
class Sides:
    """Friends, whom a policy lets in to the servers, and strangers, whom it keeps out."""

    friends: Group
    strangers: Group
    servers: Group
    own_node: bool = False
    """Strangers of another namespace are asked with servers of their own node alone where it has some."""
    two_ports: bool = False
    """Strangers of another namespace come by another port than the rest, where servers have one."""

    @classmethod
    def of(cls, pods: WorkerPods) -> Sides:
        """A Linux client as the friend, and one Windows client on each covered node as strangers."""
        servers = pods.servers("linux") + pods.servers("windows")
        return cls(pods.clients("linux").one_per_os(), pods.clients("windows"), servers)

    @classmethod
    def of_everybody(cls, pods: WorkerPods) -> Sides:
        """The same, with clients of another namespace on each covered Linux node among the strangers."""
        one = cls.of(pods)
        return replace(one, strangers=one.strangers + pods.elsewhere("linux"), two_ports=True)

    @classmethod
    def under_both_apis(
        cls, pods: WorkerPods, nodes: Sequence[str], os: OS, *, strangers: Group | None = None
    ) -> Sides:
        """Servers and, behind them, clients of these nodes, which two policies of these roles are about.

        The friend is a client of the other system.  Strangers, which neither policy selects, are a server of the other
        system and ``strangers`` (default: clients of another namespace on these nodes).  Raises MissingCapability where
        a node has none.
        """
        far: OS = "linux" if os == "windows" else "windows"
        away = (strangers or pods.elsewhere(os).at(*nodes)) + pods.servers(far).one_per_os()
        selected = pods.servers(os).at(*nodes) + pods.clients(os).at(*nodes)
        return cls(pods.clients(far).one_per_os(), away, selected, own_node=True, two_ports=True)

    @property
    def opened(self) -> list[Pair]:
        """By TCP and UDP: from friends to servers, by each port by which strangers are kept out, and from these to
        friends, which shows that they have a network."""
        by_other = self.friends.to(self._roomy).tcp_and_udp(OTHER_PORT) if self._away else []
        return [*self.friends.to(self.servers).tcp_and_udp(ECHO_PORT), *by_other, *self.beside]

    @property
    def beside(self) -> list[Pair]:
        """By TCP and UDP: from strangers to friends, which no policy is about."""
        return self.strangers.to(self.friends).tcp_and_udp(ECHO_PORT)

    @property
    def closed(self) -> list[Pair]:
        """By TCP and UDP: from strangers to servers, by one port or the other."""
        roomy = self._roomy
        ways = self._ways
        by_other = PodPairs(way for way in ways if way[0] in self._away and way[1] in roomy)
        usual = PodPairs(way for way in ways if way not in by_other)
        return [*usual.tcp_and_udp(ECHO_PORT), *by_other.tcp_and_udp(OTHER_PORT)]

    @property
    def open_both_ways(self) -> list[Pair]:
        """What is opened, and, by TCP and UDP, from servers to friends."""
        return [*self.opened, *self.servers.to(self.friends).tcp_and_udp(ECHO_PORT)]

    @property
    def closed_both_ways(self) -> list[Pair]:
        """What is closed, and, by TCP and UDP, from servers to strangers."""
        back = PodPairs((server, stranger) for stranger, server in self._ways)
        return [*self.closed, *back.tcp_and_udp(ECHO_PORT)]

    @property
    def pings(self) -> PodPairs:
        """From the strangers of each system, in turns, to each server: few commands run at once on a Windows node."""
        systems = [[one for one in self.strangers if one.os == os] for os in ("linux", "windows")]
        return PodPairs(
            (one, server) for some in systems for one, server in zip(cycle(some), self.servers)
        )

    @property
    def _ways(self) -> PodPairs:
        ways = self.strangers.to(self.servers)
        away = self._away
        there = {server.node for server in self.servers} if self.own_node else set()
        return PodPairs(
            way for way in ways if way[0] not in away or way[0].node not in there - {way[1].node}
        )

    @property
    def _roomy(self) -> Group:
        """Servers that are asked by another port, too."""
        return self.servers.playing("server") if self.two_ports else Group()

    @property
    def _away(self) -> Group:
        """Strangers of other namespaces than the servers'."""
        return Group(one for one in self.strangers if one.namespace != self.servers.first.namespace)

    @property
    def by_os(self) -> tuple[Group, Group]:
        return self.at("linux"), self.at("windows")

    def at(self, os: OS) -> Group:
        return Group(server for server in self.servers if server.os == os)

    def on(self, nodes: Sequence[str], os: OS) -> Sides:
        """The servers of these nodes of an operating system alone.  Raises MissingCapability where one has none."""
        return replace(self, servers=self.at(os).at(*nodes))

    def between(self, friends: Group, strangers: Group) -> Sides:
        """The same servers, and others in front of them."""
        return replace(self, friends=friends, strangers=strangers)

    def crowd(self, place: int, size: int) -> list[str]:
        """So many addresses that nobody has (of 198.18.0.0/15), with the friends' in this place of them, from 1 on."""
        strangers = [str(CROWD + number) for number in range(size - len(self.friends))]
        friends = [friend.address for friend in self.friends]
        return [*strangers[: place - 1], *friends, *strangers[place - 1 :]]

    def joined_by(self, servers: Group) -> Sides:
        """More servers, under the same policy."""
        return replace(self, servers=self.servers + servers)
