"""Who is let in and who is kept out of servers of both operating systems: the paths of tests about policy over time.

One test is about the servers of both systems at once, since each path is decided for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address

from conformance.model.endpoint import OS, Pair
from conformance.pods.groups import Group
from conformance.pods.roles import ECHO_PORT
from conformance.pods.worker_pods import WorkerPods

CROWD = IPv4Address("198.18.0.0")
"""The first of the addresses that are kept for measurements (RFC 2544) and that no pod has."""


@dataclass(frozen=True)
class Sides:
    """Friends, whom a policy lets in to the servers, and strangers, whom it keeps out."""

    friends: Group
    strangers: Group
    servers: Group

    @classmethod
    def of(cls, pods: WorkerPods) -> Sides:
        """A Linux client as the friend, and one Windows client on each covered node as strangers."""
        servers = pods.servers("linux") + pods.servers("windows")
        return cls(pods.clients("linux").one_per_os(), pods.clients("windows"), servers)

    @property
    def opened(self) -> list[Pair]:
        """By TCP and UDP: from friends to servers, and, that strangers have a network, from them to friends."""
        return [*self.friends.to(self.servers).tcp_and_udp(ECHO_PORT), *self.beside]

    @property
    def beside(self) -> list[Pair]:
        """By TCP and UDP: from strangers to friends, which no policy is about."""
        return self.strangers.to(self.friends).tcp_and_udp(ECHO_PORT)

    @property
    def closed(self) -> list[Pair]:
        """By TCP and UDP: from strangers to servers."""
        return self.strangers.to(self.servers).tcp_and_udp(ECHO_PORT)

    @property
    def open_both_ways(self) -> list[Pair]:
        """What is opened, and, by TCP and UDP, from servers to friends."""
        return [*self.opened, *self.servers.to(self.friends).tcp_and_udp(ECHO_PORT)]

    @property
    def closed_both_ways(self) -> list[Pair]:
        """What is closed, and, by TCP and UDP, from servers to strangers."""
        return [*self.closed, *self.servers.to(self.strangers).tcp_and_udp(ECHO_PORT)]

    def at(self, os: OS) -> Group:
        """The servers of an operating system."""
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
