# SPDX-License-Identifier: Apache-2.0
"""The open paths between ends under some policies: as documented ("the promise"), on Windows and by
release, and the causes of differences.

Pure: objects in, paths out. Ports are grouped into ranges that every policy treats alike, so that
no port is left out. Ends are grouped likewise, so that each pair of groups is decided only once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from conformance.errors import UsageProblem
from conformance.policy.oracle import fields
from conformance.policy.oracle.fields import PROTOCOLS, Obj, Range
from conformance.policy.oracle.oracle import Decision, Oracle, Verdict, of_way
from conformance.policy.oracle.panics import panics
from conformance.policy.oracle.policies import DIRECTIONS, Direction
from conformance.policy.oracle.rules import ANYBODY, Packet, Peer, is_at
from conformance.policy.oracle.switches import Column, Minor, Switch, Switches, columns_of
from conformance.policy.oracle.world import Pod, World
from conformance.policy.unread import unjudged
from conformance.policy.validation import check_no_doubles, check_object, check_policy

SOURCE_PORT = 40000
ECHO = {4: (PROTOCOLS["icmp"], (8, 0)), 6: (PROTOCOLS["icmpv6"], (128, 0))}
"""Protocol, and type and code, of the echo request that ping sends, by IP version."""
ICMP = frozenset(number for number, _ in ECHO.values())
EVERY_PORT: Range = (1, 65535)


@dataclass(frozen=True, eq=False)
class End:
    """A pod on an operating system, or an address that belongs to no pod."""

    name: str
    addresses: Mapping[int, int]
    """The addresses by IP version."""
    pod: Pod | None = None
    os: str = ""
    """The operating system; empty: the end is no pod."""
    unjudged: str = ""
    """Why the policies at this pod cannot be judged."""


@dataclass(frozen=True)
class Difference:
    """The reason why the policies at an end decide in a column otherwise than documented."""

    column: str
    direction: Direction
    promised: Decision
    found: Decision
    departures: tuple[Switch, ...]


@dataclass(frozen=True)
class Answer:
    """The results for a protocol between two ends, at ports that every column treats alike."""

    family: int
    protocol: int
    ports: tuple[Range, ...]
    """The ports; empty: the protocol has none."""
    verdicts: tuple[Verdict, ...]
    """The verdicts, in the order of the columns."""
    differences: tuple[Difference, ...]


@dataclass(frozen=True)
class Way(Answer):
    """An answer for two ends."""

    source: End
    destination: End


@dataclass(frozen=True, eq=False)
class Own:
    """The data that decide at some ends in a direction: one object for groups with equal data."""

    policies: tuple[int, ...]
    """Indexes of the policies that select these ends, in the list of all policies."""
    peers: tuple[int, ...]
    """Indexes of all peers in the rules of these policies."""
    node: str
    """The node of these ends, if an end has an address of this node; empty otherwise."""
    families: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Group:
    """Ends that every policy treats alike."""

    ends: tuple[End, ...]
    own: Mapping[Direction, Own]
    """The data that decide at these ends, by direction; empty: these ends are no pods."""
    observations: tuple[int, ...]
    """A number for each peer of the rules. Groups with the same number for a peer are alike to this
    peer."""

    @property
    def first(self) -> End:
        """Return the end that stands for the group."""
        return self.ends[0]


Segment = tuple[Range, tuple[Decision, ...], tuple[Difference, ...]]
Decided = dict[tuple[int, int], list[Segment]]
"""Ranges of ports with their decisions, by IP version and protocol."""


class Reach:
    """The paths between all pods of some objects, and further addresses."""

    def __init__(self, objects: Sequence[Obj], addresses: Iterable[str] = ()) -> None:
        """Set up the evaluation. Raise UsageProblem, in one line, for objects without a verdict."""
        check_no_doubles(objects)
        self.world = World(objects)
        self.oracle = Oracle(self.world, objects)
        self._refuse(objects)
        self.unjudged = unjudged(self.world, self.oracle.policies)
        self.columns = columns_of([(3, 32)] if self._depends_on_release else [])
        self._rules = {
            (number, direction): listed
            for number, policy in enumerate(self.oracle.policies)
            for direction, listed in policy.rules.items()
        }
        every = [rule for listed in self._rules.values() for rule in listed]
        self._peers = [
            peer
            for rule in every
            for peer in (rule.source, rule.destination)
            if peer is not ANYBODY
        ]
        self._places = {id(peer): place for place, peer in enumerate(self._peers)}
        self._protocols = sorted({6, 17, *(rule.protocol for rule in every if rule.protocol)})
        services = {peer.service for peer in self._peers if peer.service}
        self.world.unknown_services |= services - self.world.backends.keys()
        pods = list(self._pods())
        self.ends = [*pods, *_strangers(addresses, pods)]
        self._properties: dict[tuple[Any, ...], int] = {}
        self._decided: dict[tuple[Any, ...], Decided] = {}
        self._decided_for: dict[tuple[Own, Group], Decided] = {}
        self._answers: dict[tuple[int, int], tuple[Answer, ...]] = {}
        self._alike: dict[tuple[Answer, ...], tuple[Answer, ...]] = {}

    def _refuse(self, objects: Sequence[Obj]) -> None:
        """Raise UsageProblem for objects that can be read but give no answer, such as no pods."""
        for obj in objects:
            check_object(obj)
        if not self.world.pods:
            raise UsageProblem("these files contain no pod, so there is no path to judge")
        for policy, tier in self.oracle.without_tier.items():
            raise UsageProblem(
                f"{policy} is in tier {tier[:80]}, which no file describes, so that its order is not known"
            )
        for one in self.oracle.policies:
            check_policy(one)

    @cached_property
    def groups(self) -> list[Group]:
        """Return the ends in groups that every policy treats alike, in the order of the ends."""
        found: dict[tuple[Any, ...], list[End]] = {}
        for end in self.ends:
            found.setdefault(self._signature(end), []).append(end)
        owns: dict[tuple[Any, ...], Own] = {}
        return [
            Group(
                tuple(ends),
                {
                    way: owns.setdefault((way, *one), Own(*one[:4]))
                    for way, one in zip(DIRECTIONS, known, strict=False)
                },
                observations,
            )
            for (observations, _, _, *known), ends in found.items()
        ]

    @cached_property
    def group_of(self) -> dict[int, Group]:
        """Return the group of each end, by the end's identity (``id``)."""
        return {id(end): group for group in self.groups for end in group.ends}

    def ways(self) -> Iterator[Way]:
        """Yield every path, ordered by destination, then by source."""
        for destination in self.ends:
            for source in self.ends:
                if is_pair(source, destination):
                    yield from (
                        Way(**vars(one), source=source, destination=destination)
                        for one in self.between(source, destination)
                    )

    def between(self, source: End, destination: End) -> tuple[Answer, ...]:
        """Return the answers for every protocol from one end to another. Pairs of ends with equal
        answers get the same object."""
        here = self.group_of[id(source)]
        there = self.group_of[id(destination)]
        leaving = self._decide(here, there, "egress", (source, destination))
        coming = self._decide(there, here, "ingress", (source, destination))
        key = (id(leaving), id(coming))
        if key not in self._answers:
            answers = tuple(_combined(leaving, coming))
            self._answers[key] = self._alike.setdefault(answers, answers)
        return self._answers[key]

    def packet(self, ends: tuple[End, End], family: int, protocol: int, port: int) -> Packet:
        """Return the first packet of a connection, or an echo request."""
        source, destination = (end.addresses[family] for end in ends)
        if protocol in ICMP:
            return Packet(source, destination, protocol, icmp=ECHO[family][1])
        return Packet(source, destination, protocol, port, SOURCE_PORT)

    def decision(
        self, end: End, direction: Direction, packet: Packet, column: Column
    ) -> Decision | None:
        """Return the decision of an end's policies about a packet in a column; None if the end is
        no pod."""
        if not end.pod:
            return None
        if end.unjudged:
            return Decision(Verdict.NOT_JUDGED, why=end.unjudged)
        return self.oracle.explain(end.pod, direction, packet, *self._reading(end, column))

    def _reading(self, end: End, column: Column) -> tuple[Switches, Minor | None]:
        """Return the departures of an end in a column, and the release if it matters."""
        return column.on(end.os), column.release if self._depends_on_release else None

    def panics(self) -> dict[str, list[str]]:
        """Return the rules that may crash Felix from release v3.29 on, by the names of the Windows
        pods on whose nodes Felix would crash."""
        return {
            end.name: rules
            for end in self.ends
            if end.pod and end.os == "windows" and (rules := panics(self.oracle, end.pod))
        }

    @cached_property
    def of_unknown_system(self) -> list[str]:
        """Return the pods whose operating system no object determines."""
        return sorted(name for name, pod in self.world.pods.items() if not pod.os)

    @cached_property
    def selecting_nobody(self) -> list[str]:
        """Return the policies that select no pod."""
        return [
            one.label
            for one in self.oracle.policies
            if not any(map(one.concerns, self.world.pods.values()))
        ]

    @cached_property
    def _depends_on_release(self) -> bool:
        """Return whether releases sort these policies differently, or differ in which of their
        kinds they read."""
        places = [(policy.tier, policy.order) for policy in self.oracle.policies]
        return len(set(places)) < len(places) or not all(
            policy.is_read_by((3, 31)) and policy.is_read_by((3, 32))
            for policy in self.oracle.policies
        )

    def _pods(self) -> Iterator[End]:
        """Yield the pods. A pod whose operating system is unknown comes once for each system."""
        for name, pod in sorted(self.world.pods.items()):
            why = self.unjudged.get(name, "")
            addresses = {_family(one): one for one in (pod.address, pod.second) if one}
            yield from (
                End(name, addresses, pod, system, why)
                for system in ((pod.os,) if pod.os else ("linux", "windows"))
            )

    def _signature(self, end: End) -> tuple[Any, ...]:
        """Return all data by which policies at this end, or about this end, decide."""
        observed = tuple(
            self._properties.setdefault(self._seen(end, peer), len(self._properties))
            for peer in self._peers
        )
        pod = end.pod
        families = tuple(end.addresses)
        if pod is None:
            return observed, families, self._hosts(end)
        concerning = [
            number for number, policy in enumerate(self.oracle.policies) if policy.concerns(pod)
        ]
        own = []
        for way in DIRECTIONS:
            numbers = tuple(one for one in concerning if (one, way) in self._rules)
            places = tuple(self._places_of(numbers, way))
            node = pod.node if pod.node in self._asked_nodes else ""
            known = tuple(observed[place] for place in places)
            own.append((numbers, places, node, families, end.os, end.unjudged, known))
        return observed, families, self._hosts(end), *own

    def _places_of(self, numbers: Iterable[int], way: Direction) -> Iterator[int]:
        for number in numbers:
            for rule in self._rules[number, way]:
                yield from (
                    self._places[id(peer)]
                    for peer in (rule.source, rule.destination)
                    if peer is not ANYBODY
                )

    def _seen(self, end: End, peer: Peer) -> tuple[Any, ...]:
        """Return everything about an end that a peer can match."""
        members: list[tuple[int, bool]] = []
        if peer.service:
            for number, backend in enumerate(self.world.backends_of(peer.service) or ()):
                members += [
                    (number, address in backend.unready)
                    for address in end.addresses.values()
                    if address in backend.addresses
                ]
        names = {*peer.named, *peer.not_named}
        ports = frozenset(port for port in (end.pod and end.pod.ports) or () if port[0] in names)
        at = tuple(is_at(peer, one, self.world) for one in end.addresses.values())
        return at, tuple(members), ports

    @cached_property
    def _asked_nodes(self) -> set[str]:
        """Return the nodes that have an address of an end."""
        every = {address for end in self.ends for address in end.addresses.values()}
        return {node for node, addresses in self.world.hosts.items() if addresses & every}

    def _hosts(self, end: End) -> frozenset[str]:
        return frozenset(
            node
            for node in self._asked_nodes
            if not self.world.hosts[node].isdisjoint(end.addresses.values())
        )

    def _decide(
        self, at: Group, other: Group, direction: Direction, ends: tuple[End, End]
    ) -> Decided:
        """Return the decisions of one group's policies about another group.

        They are cached under a key of all data that they can depend on.
        """
        if not at.first.pod:
            return self._decided.setdefault((), {})  # one object for all: a key of answers has it
        own = at.own[direction]
        if (own, other) not in self._decided_for:
            families = tuple(sorted({*own.families} & other.first.addresses.keys()))
            key = (
                own,
                tuple(other.observations[place] for place in own.peers),
                families,
                self._hosts(other.first) if own.node else "",
            )
            if key not in self._decided:
                alike = self._read_alike(at.first, at.first.pod, direction)
                self._decided[key] = self._asked(own, direction, families, ends, alike)
            self._decided_for[own, other] = self._decided[key]
        return self._decided_for[own, other]

    def _asked(
        self,
        own: Own,
        direction: Direction,
        families: Sequence[int],
        ends: tuple[End, End],
        alike: Sequence[int],
    ) -> Decided:
        """Return the decisions of the policies at one end about the other end."""
        ranges = self._told_apart(own.policies, direction)
        return {
            (family, protocol): [
                self._segment(
                    ends, direction, self.packet(ends, family, protocol, ports[0]), ports, alike
                )
                for ports in (ranges if protocol not in ICMP else [EVERY_PORT])
            ]
            for family in families
            for protocol in self._protocols
            if protocol not in ICMP or protocol == ECHO[family][0]
        }

    def _read_alike(self, end: End, pod: Pod, direction: Direction) -> list[int]:
        """Return, for each column, the index of the first column that reads the policies at an end
        in the same way."""
        asked = [self._reading(end, column) for column in self.columns]
        readings = [(self.oracle.in_force(pod, direction, *one), one[0]) for one in asked]
        return [readings.index(reading) for reading in readings]

    def _segment(
        self,
        ends: tuple[End, End],
        direction: Direction,
        packet: Packet,
        ports: Range,
        alike: Sequence[int],
    ) -> Segment:
        end = ends[0] if direction == "egress" else ends[1]
        asked = {
            place: self.decision(end, direction, packet, self.columns[place])
            for place in set(alike)
        }
        decisions = tuple(one for one in (asked[place] for place in alike) if one)
        differences = tuple(
            Difference(
                column.name,
                direction,
                decisions[0],
                found,
                self._departures(end, direction, packet, column),
            )
            for column, found in zip(self.columns, decisions, strict=True)
            if found.verdict is not decisions[0].verdict
        )
        return ports, decisions, differences

    def _departures(
        self, end: End, direction: Direction, packet: Packet, column: Column
    ) -> tuple[Switch, ...]:
        assert end.pod is not None
        reading = self._reading(end, column)
        found = self.oracle.departures(end.pod, direction, packet, *reading)
        return tuple(switch for switch in Switch if switch in found)

    def _told_apart(self, numbers: Iterable[int], way: Direction) -> list[Range]:
        """Return all ports as ranges that no rule of these policies divides."""
        cuts = {1, 65536}.union(
            *(self._cuts(rule.destination) for one in numbers for rule in self._rules[one, way])
        )
        return [(first, after - 1) for first, after in pairwise(sorted(cuts))]

    def _cuts(self, peer: Peer) -> Iterator[int]:
        for first, last in (*peer.ports, *peer.not_ports):
            yield max(first, 1)
            yield last + 1
        names = {*peer.named, *peer.not_named}
        ports = [port for name, _, port in self._named_ports if name in names]
        if peer.service:
            backends = self.world.backends_of(peer.service) or ()
            ports += [port for backend in backends for _, port in backend.ports]
        for port in ports:
            yield port
            yield port + 1

    @cached_property
    def _named_ports(self) -> frozenset[tuple[str, int, int]]:
        return frozenset().union(*(pod.ports or () for pod in self.world.pods.values()))


def is_pair(source: End, destination: End) -> bool:
    """Return whether an answer is computed for two ends: they must differ, and at least one of
    them must be a pod."""
    return source.name != destination.name and bool(source.pod or destination.pod)


def has_address(end: End, text: str) -> bool:
    """Return whether a text is an address of an end."""
    try:
        return fields.ip(text) in end.addresses.values()
    except UsageProblem:
        return False


def _strangers(addresses: Iterable[str], pods: Sequence[End]) -> Iterator[End]:
    """Yield an end for each address that belongs to no pod."""
    for text in dict.fromkeys(addresses):
        address = fields.ip(text)
        if not any(has_address(end, text) for end in pods):
            yield End(text, {_family(address): address})


def _family(address: int) -> int:
    return 6 if address >= fields.IPV6 else 4


def _combined(leaving: Decided, coming: Decided) -> Iterator[Answer]:
    """Yield the combined answers of both ends. Ports with the same answer are joined."""
    for family, protocol in leaving or coming:
        found: dict[tuple[Any, ...], list[Range]] = {}
        for ports, decisions, differences in _overlapping(
            leaving.get((family, protocol)), coming.get((family, protocol))
        ):
            verdicts = tuple(map(of_way, zip(*decisions, strict=True)))
            found.setdefault((verdicts, differences), []).append(ports)
        for (verdicts, differences), ranges in found.items():
            listed = () if protocol in ICMP else fields.joined(ranges)
            yield Answer(family, protocol, listed, verdicts, differences)


def _overlapping(
    one: Sequence[Segment] | None, other: Sequence[Segment] | None
) -> Iterator[tuple[Range, list[tuple[Decision, ...]], tuple[Difference, ...]]]:
    if one is None or other is None:
        yield from ((ports, [decided], why) for ports, decided, why in one or other or ())
        return
    here = 0
    there = 0
    while here < len(one) and there < len(other):
        (first, last), decided, why = one[here]
        (begin, end), beside, because = other[there]
        yield (max(first, begin), min(last, end)), [decided, beside], (*why, *because)
        here += last <= end
        there += end <= last
