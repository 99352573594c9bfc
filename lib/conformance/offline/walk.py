# SPDX-License-Identifier: Apache-2.0
"""The evaluation of one pair of ends, step by step through tiers, policies and rules, in each
column."""

import fnmatch
from collections.abc import Iterator
from itertools import product
from typing import Any

from conformance.errors import UsageProblem
from conformance.offline.summary import WORDS, named, some
from conformance.policy.oracle import fields
from conformance.policy.oracle.oracle import of_way
from conformance.policy.oracle.policies import Direction
from conformance.policy.oracle.rules import Packet
from conformance.policy.oracle.switches import Column
from conformance.policy.reach import ICMP, End, Reach, has_address, is_pair


def ends_of(reach: Reach, text: str) -> list[End]:
    """Return the ends that a word names: a pod, a pattern of pods, or an address.  Raise
    UsageProblem if there is none."""
    found = [
        end for end in reach.ends if fnmatch.fnmatchcase(end.name, text) or has_address(end, text)
    ]
    if not found:
        names = some(list(dict.fromkeys(end.name for end in reach.ends)), 5)
        raise UsageProblem(f"{text}: no pod or address here has this name; known names: {names}")
    return found


def at_port(protocol: str, port: Any, where: str) -> tuple[int, int]:
    """Return the numbers of a protocol and a port; an echo request has no port. Raise
    UsageProblem."""
    number = fields.protocol(protocol, f"{where}protocol")
    if number in ICMP:
        return number, 0
    if type(port) is not int or not 1 <= port <= 65535:
        given = "none" if port is None else fields.shown(port)
        raise UsageProblem(f"{where}port: a number from 1 to 65535 is expected, not {given}")
    return number, port


def pairs(reach: Reach, source: str, destination: str) -> Iterator[tuple[End, End]]:
    """Yield the pairs of ends that two words name.  Raise UsageProblem if there is none."""
    found = [
        pair
        for pair in product(ends_of(reach, source), ends_of(reach, destination))
        if is_pair(*pair)
    ]
    if not found:
        raise UsageProblem(f"there is no answer for {source} and {destination}")
    yield from found


def lines(reach: Reach, pair: tuple[End, End], protocol: int, port: int) -> Iterator[str]:
    """Yield the evaluation of a packet between two ends, by column. Columns with the same steps
    share a section."""
    for family in sorted(pair[0].addresses.keys() & pair[1].addresses.keys()):
        packet = reach.packet(pair, family, protocol, port)
        walks: dict[tuple[str, ...], list[str]] = {}
        for column in reach.columns:
            walks.setdefault(tuple(_walk(reach, pair, packet, column)), []).append(column.name)
        for walk, names in walks.items():
            yield f"{', '.join(names)}: {walk[0]}"
            yield from walk[1:]
    if not pair[0].addresses.keys() & pair[1].addresses.keys():
        yield "the ends have no address of the same IP version: no packet can be sent"


def _walk(reach: Reach, pair: tuple[End, End], packet: Packet, column: Column) -> Iterator[str]:
    sides: tuple[tuple[End, Direction], ...] = ((pair[0], "egress"), (pair[1], "ingress"))
    decisions = [reach.decision(end, way, packet, column) for end, way in sides]
    yield WORDS[of_way(one for one in decisions if one)]
    for (end, way), decision in zip(sides, decisions, strict=True):
        if decision is not None:
            yield f"  {way} of {named(end)}: {decision}"
            yield from _steps(reach, end, way, packet, column)


def _steps(reach: Reach, end: End, way: Direction, packet: Packet, column: Column) -> Iterator[str]:
    """Yield the tiers and policies that are evaluated, and whether each of their rules matches the
    packet."""
    assert end.pod is not None
    switches = column.on(end.os)
    for one in reach.oracle.in_force(end.pod, way, switches, column.release):
        yield f"    tier {one.tier.name} (default action: {one.tier.end})"
        for policy in (policy for group in one.groups for policy in group):
            yield f"      {policy.label}{' (staged)' if policy.staged else ''}"
            for rule in policy.rules[way]:
                skipped = [
                    f"skipped: {switch.claim}" for switch in rule.skipped_for if switch in switches
                ]
                about = rule.about(packet, reach.world, switches)
                text = {
                    True: "matches",
                    False: "does not match",
                    None: "not known whether it matches",
                }[about]
                yield f"        {rule.where}, {rule.action}: {', '.join(skipped) or text}"
