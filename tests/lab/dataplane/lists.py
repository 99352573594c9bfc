# SPDX-License-Identifier: Apache-2.0
"""ACL lists for Windows nodes that decide as given Linux programs do.

This works only for the programs of these tests: one tier per direction, no negation, and sets with
all members given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

from hybridlab.dataplane.model import Acl, EndpointProgram, Match, Tier

Sets = Mapping[str, tuple[str, ...]]
_SAID = ("protocol", "src_nets", "dst_nets", "src_sets", "dst_sets", "src_ports", "dst_ports")
_PROTOCOLS = {"tcp": 6, "udp": 17, "icmp": 1}


def with_list(program: EndpointProgram, sets: Sets | None = None) -> EndpointProgram:
    """Return the program together with its list, so that it works on both systems."""
    entries = [
        *_entries(program.ingress, "In", sets or {}),
        *_entries(program.egress, "Out", sets or {}),
    ]
    return replace(program, acls=tuple(entries))


def _entries(tiers: tuple[Tier, ...], direction: Literal["In", "Out"], sets: Sets) -> Iterator[Acl]:
    for tier in tiers:
        assert len(tiers) == 1, "flattening is Felix' business"
        for number, rule in enumerate(tier.rules):
            match = rule.match
            source, destination = _addresses(match, sets)
            ends = (destination, source) if direction == "In" else (source, destination)
            ports = (
                (match.dst_ports, match.src_ports)
                if direction == "In"
                else (match.src_ports, match.dst_ports)
            )
            if None not in ends:
                yield Acl(
                    action="Allow" if rule.action == "allow" else "Block",
                    direction=direction,
                    priority=1000 + number,
                    protocol=_number(match),
                    local=ends[0] or (),
                    remote=ends[1] or (),
                    local_ports=ports[0],
                    remote_ports=ports[1],
                )
        yield Acl(action="Block", direction=direction, priority=65000)


def _number(match: Match) -> int:
    return 256 if match.protocol is None else _PROTOCOLS.get(match.protocol) or int(match.protocol)


def _addresses(match: Match, sets: Sets) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """Return source and destination addresses; None for a set without members, which matches
    nothing."""
    assert match == Match(**{k: getattr(match, k) for k in _SAID}), (
        "a list has no words for the rest"
    )
    found: list[tuple[str, ...] | None] = []
    for nets, names in ((match.src_nets, match.src_sets), (match.dst_nets, match.dst_sets)):
        members = tuple(member for name in names for member in sets[name])
        found.append(None if names and not members else nets or members)
    return found[0], found[1]
