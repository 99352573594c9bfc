# SPDX-License-Identifier: Apache-2.0
"""Who reaches whom under some policies, by the promise, on Windows and by release, and why where these differ.

Pure: objects in, ways out; ``reach_text`` prints them.  Ports are judged in the ranges in which no policy tells them
apart, so that nothing is left out between two of them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from conformance.errors import UsageProblem
from conformance.policy.oracle import fields
from conformance.policy.oracle.fields import PROTOCOLS, Obj, Range
from conformance.policy.oracle.oracle import Decision, Oracle, Verdict, of_way
from conformance.policy.oracle.panics import panics
from conformance.policy.oracle.policies import Direction, Policy
from conformance.policy.oracle.rules import Packet, Peer, Rule
from conformance.policy.oracle.switches import PROMISE, WINDOWS, Switch, Switches, alike
from conformance.policy.oracle.world import Pod, World

COLUMNS: dict[str, Switches] = {"PROMISE": PROMISE, "WINDOWS": WINDOWS, **alike()}
"""What is asked, by the heading that it stands under."""
SOURCE_PORT = 40000
ECHO = (8, 0)
"""Of ICMP, the request that ping sends."""


@dataclass(frozen=True)
class End:
    """A pod, or an address of nobody's."""

    name: str
    address: int
    pod: Pod | None = None

    @property
    def os(self) -> str:
        """Empty: it is no pod."""
        return self.pod.os if self.pod else ""


@dataclass(frozen=True)
class Difference:
    """Why one end decides otherwise in a column than is promised."""

    column: str
    direction: Direction
    promised: Decision
    found: Decision
    departures: tuple[Switch, ...]


@dataclass(frozen=True)
class Way:
    """From one end to another by a protocol, at ports that no column tells apart."""

    source: End
    destination: End
    protocol: int
    ports: tuple[Range, ...]
    """Empty: the protocol has none."""
    verdicts: tuple[Verdict, ...]
    """By column."""
    differences: tuple[Difference, ...]


class Reach:
    """The ways between all pods of some objects, and addresses beside them."""

    def __init__(self, objects: Sequence[Obj], addresses: Iterable[str] = ()) -> None:
        """Raises UsageProblem, one line, for what cannot be read and where nothing could be said."""
        _no_doubles(objects)
        self.world = World(objects)
        self.oracle = Oracle(self.world, objects)
        if not self.world.pods:
            raise UsageProblem("no pod in these files: there is nobody to reach")
        for policy, tier in self.oracle.without_tier.items():
            raise UsageProblem(
                f"{policy} is in tier {tier}, which no file describes, so that its order is not known"
            )
        pods = [End(name, pod.address, pod) for name, pod in sorted(self.world.pods.items())]
        self.ends = [*pods, *(End(text, fields.address(text)) for text in addresses)]
        for one in self.oracle.policies:
            _allowed(one)
        rules = [
            rule
            for policy in self.oracle.policies
            for each in policy.rules.values()
            for rule in each
        ]
        self._protocols = sorted(
            {6, 17, *(rule.protocol for rule in rules if rule.protocol and not rule.ipv6)}
        )
        self._ranges = _told_apart(rules, self.world)

    def ways(self) -> Iterator[Way]:
        """Every way, by destination, then by source."""
        for destination in self.ends:
            for source in self.ends:
                if source is not destination and (source.pod or destination.pod):
                    yield from self._between(source, destination)

    def panics(self) -> dict[str, list[str]]:
        """Of Windows pods, by name, what may end Felix on their nodes from v3.29 on."""
        found = {
            name: panics(self.oracle, pod)
            for name, pod in self.world.pods.items()
            if pod.os == "windows"
        }
        return {name: rules for name, rules in found.items() if rules}

    @property
    def passed_over(self) -> list[str]:
        """Objects that are neither of the world nor policies."""
        policies = ("Policy", "Tier")
        return [
            label for label in self.world.unread if not label.partition(" ")[0].endswith(policies)
        ]

    def _between(self, source: End, destination: End) -> Iterator[Way]:
        for protocol in self._protocols:
            judged = []
            for ports in self._ranges if protocol != PROTOCOLS["icmp"] else [None]:
                icmp = None if ports else ECHO
                packet = Packet(
                    source.address,
                    destination.address,
                    protocol,
                    ports and ports[0],
                    ports and SOURCE_PORT,
                    icmp,
                )
                judged.append((ports, *self._judged(source, destination, packet)))
            by_answer = sorted(judged, key=lambda one: _key(one[1], one[2]))
            for _, same in groupby(by_answer, lambda one: _key(one[1], one[2])):
                listed = list(same)
                ranges = _joined([one[0] for one in listed if one[0]])
                yield Way(source, destination, protocol, ranges, *listed[0][1:])

    def _judged(
        self, source: End, destination: End, packet: Packet
    ) -> tuple[tuple[Verdict, ...], tuple[Difference, ...]]:
        ends: list[tuple[Pod, Direction]] = []
        if source.pod:
            ends.append((source.pod, "egress"))
        if destination.pod:
            ends.append((destination.pod, "ingress"))
        verdicts = []
        differences = []
        promised = [self.oracle.explain(pod, direction, packet) for pod, direction in ends]
        for column, switches in COLUMNS.items():
            found = []
            for (pod, direction), promise in zip(ends, promised, strict=True):
                decision = promise
                if pod.os == "windows" and switches:
                    decision = self.oracle.explain(pod, direction, packet, switches)
                found.append(decision)
                if decision.verdict is not promise.verdict:
                    departures = self.oracle.departures(pod, direction, packet, switches)
                    ordered = tuple(switch for switch in Switch if switch in departures)
                    differences.append(Difference(column, direction, promise, decision, ordered))
            verdicts.append(of_way(found))
        return tuple(verdicts), tuple(differences)


def _no_doubles(objects: Iterable[Obj]) -> None:
    seen = set()
    for obj in objects:
        group = str(obj.get("apiVersion") or "").partition("/")[0]
        if (group, label := fields.label(obj)) in seen:
            raise UsageProblem(f"{label} is there twice")
        seen.add((group, label))


def _allowed(policy: Policy) -> None:
    """Raise UsageProblem for what can be read, and Calico's or Kubernetes' validation refuses all the same."""
    for rule in (rule for each in policy.rules.values() for rule in each):
        for end in (rule.source, rule.destination):
            _check_ports(rule, end, f"{policy.label} {rule.where}")
            if policy.label.startswith("Kubernetes "):
                _check_exceptions(end, f"{policy.label} {rule.where}")


def _check_ports(rule: Rule, end: Peer, where: str) -> None:
    with_ports = {PROTOCOLS["tcp"], PROTOCOLS["udp"], PROTOCOLS["sctp"]}
    if rule.protocol not in with_ports and (end.has_ports or end.not_ports or end.not_named):
        raise UsageProblem(f"{where}: ports want protocol TCP, UDP or SCTP beside them")


def _check_exceptions(end: Peer, where: str) -> None:
    for first, last in end.not_nets or ():
        around = ((low, high) for low, high in end.nets or () if low <= first and last <= high)
        if not any(block != (first, last) for block in around):
            raise UsageProblem(f"{where}: an exception is no smaller part of its ipBlock")


def _key(verdicts: tuple[Verdict, ...], differences: tuple[Difference, ...]) -> str:
    return f"{[verdict.value for verdict in verdicts]} {differences}"


def _told_apart(rules: Iterable[Rule], world: World) -> list[Range]:
    """All ports, in the ranges that no rule cuts."""
    cuts = {1, 65536}
    for rule in rules:
        for first, last in (*rule.destination.ports, *rule.destination.not_ports):
            cuts |= {max(first, 1), last + 1}
    for pod in world.pods.values():
        for _, _, number in pod.ports:
            cuts |= {number, number + 1}
    for backends in world.backends.values():
        for _, number in (port for backend in backends for port in backend.ports):
            cuts |= {number, number + 1}
    return [(first, after - 1) for first, after in pairwise(sorted(cuts))]


def _joined(ranges: Iterable[Range]) -> tuple[Range, ...]:
    found: list[Range] = []
    for first, last in sorted(ranges):
        if found and found[-1][1] + 1 == first:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return tuple(found)
