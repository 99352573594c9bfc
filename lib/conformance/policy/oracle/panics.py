# SPDX-License-Identifier: Apache-2.0
"""Policies that crash Felix on Windows from v3.29 on. Felix crashes again after each start, which
affects every pod of the node.

The cause is a Pass rule with ports, and a rule with ports in a later tier, if their highest common
port is the highest port of both (felix/dataplane/windows/flattener.go, run at v3.31.7 and v3.32.1).
"""

from collections.abc import Iterator, Sequence
from itertools import product

from conformance.policy.oracle.fields import Range
from conformance.policy.oracle.oracle import InForce, Oracle
from conformance.policy.oracle.policies import DIRECTIONS, Direction
from conformance.policy.oracle.rules import Rule
from conformance.policy.oracle.switches import WINDOWS
from conformance.policy.oracle.world import Pod, World

Entry = tuple[int | None, tuple[Range, ...], tuple[Range, ...]]


def panics(oracle: Oracle, pod: Pod) -> list[str]:
    """Return the pairs of rules that may end Felix on the node of a Windows pod: ``NetworkPolicy
    a/p, ingress rule 1, and ...``.

    Addresses are ignored: rules that no packet can match together are named, too.
    """
    found = []
    for direction in DIRECTIONS:
        order = oracle.in_force(pod, direction, WINDOWS)
        for place, one in enumerate(order):
            for named, passing in _rules(one, direction):
                if passing.action == "Pass":
                    found += [
                        f"{named} and {other}"
                        for other in _behind(oracle, passing, order[place + 1 :], direction)
                    ]
    return found


def _behind(
    oracle: Oracle, passing: Rule, order: Sequence[InForce], direction: Direction
) -> Iterator[str]:
    for one in order:
        for named, rule in _rules(one, direction):
            pairs = product(_entries(passing, oracle.world), _entries(rule, oracle.world))
            if any(map(_meet, *zip(*pairs, strict=True))):
                yield named


def _entries(rule: Rule, world: World) -> list[Entry]:
    """Return protocol, source ports and destination ports of the entries that Windows has for a
    rule; a rule to a Service has an entry for each port."""
    service = rule.destination.service
    if not service:
        return [(rule.protocol, rule.source.ports, rule.destination.ports)]
    backends = world.backends_of(service) or ()
    every = sorted(frozenset().union(*(one.ports for one in backends)))
    return [(protocol, (), ((port, port),)) for protocol, port in every] or [(None, (), ())]


def _meet(one: Entry, other: Entry) -> bool:
    protocols = {one[0], other[0]} - {None}
    return len(protocols) <= 1 and (_ends_alike(one[1], other[1]) or _ends_alike(one[2], other[2]))


def _rules(one: InForce, direction: Direction) -> Iterator[tuple[str, Rule]]:
    for group in one.groups:
        for policy in group:
            yield from (
                (f"{policy.label}, {rule.where}", rule)
                for rule in policy.rules[direction]
                if not rule.is_skipped(WINDOWS)
            )


def _ends_alike(one: tuple[Range, ...], other: tuple[Range, ...]) -> bool:
    highest = {max(last for _, last in ports) for ports in (one, other) if ports}
    return bool(one and other) and len(highest) == 1
