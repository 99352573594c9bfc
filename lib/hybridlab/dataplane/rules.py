# SPDX-License-Identifier: Apache-2.0
"""A policy rule of a Linux node as nft text, with named sets. The module only returns text.

The entries of a Windows endpoint's ACL list are in ``acl_rules``.
"""

import hashlib
import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from hybridlab.dataplane.model import Match, Rule

SetKind = Literal["addresses", "endpoints"]
"""``addresses``: addresses and networks; ``endpoints``: ``address,protocol,port``."""

DENY = "goto deny"
"""A chain of the policy table that drops silently; faults make it answer."""
_NEVER = None
_SAFE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,60}")
_COMMENT_MAX = 120
"""The longest comment, in bytes; the kernel stores 128 with the terminator and a header."""


@dataclass
class Rendered:
    """A chain's rules and the named sets they need."""

    rules: list[str] = field(default_factory=list)
    sets: set[tuple[SetKind, str]] = field(default_factory=set)


def append_rule(rule: Rule, *, accept: str, next_tier: str, into: Rendered) -> None:
    """Append the rule; append nothing if its match can never hold."""
    criteria = _match(rule.match, into.sets)
    if criteria is _NEVER:
        return
    # A namespace's own kernel log has no reader, so logging is counted instead of written.
    verdict = {"allow": accept, "deny": DENY, "pass": next_tier, "log": "counter"}[rule.action]
    into.rules.append(" ".join([*criteria, verdict, *comment(rule.comment)]))


def _match(match: Match, sets: set[tuple[SetKind, str]]) -> list[str] | None:
    parts: list[str | None] = [*_protocol(match)]
    parts += _networks("saddr", match.src_nets, match.not_src_nets)
    parts += _networks("daddr", match.dst_nets, match.not_dst_nets)
    parts += ports("sport", match.src_ports, match.not_src_ports)
    parts += ports("dport", match.dst_ports, match.not_dst_ports)
    kinds: tuple[tuple[str, str, SetKind, tuple[str, ...]], ...] = (
        ("ip saddr", "", "addresses", match.src_sets),
        ("ip saddr", "!= ", "addresses", match.not_src_sets),
        ("ip daddr", "", "addresses", match.dst_sets),
        ("ip daddr", "!= ", "addresses", match.not_dst_sets),
        ("ip saddr . meta l4proto . th sport", "", "endpoints", match.src_ip_port_sets),
        ("ip saddr . meta l4proto . th sport", "!= ", "endpoints", match.not_src_ip_port_sets),
        ("ip daddr . meta l4proto . th dport", "", "endpoints", match.dst_ip_port_sets),
        ("ip daddr . meta l4proto . th dport", "!= ", "endpoints", match.not_dst_ip_port_sets),
    )
    for selector, operator, kind, names in kinds:
        sets |= {(kind, name) for name in names}
        parts += [f"{selector} {operator}@{nft_set_name(kind, name)}" for name in names]
    parts += _icmp(match)
    return None if any(part is _NEVER for part in parts) else [part for part in parts if part]


def _icmp(match: Match) -> list[str]:
    parts = []
    if match.icmp_type is not None:
        parts.append(f"icmp type {match.icmp_type}")
    if match.icmp_code is not None:
        parts.append(f"icmp code {match.icmp_code}")
    if match.not_icmp_type is not None and match.not_icmp_code is None:
        parts.append(f"icmp type != {match.not_icmp_type}")
    elif match.not_icmp_type is not None:
        both = match.not_icmp_type << 8 | (match.not_icmp_code or 0)
        parts.append(f"meta l4proto icmp @th,0,16 != {both:#06x}")  # type and code are adjacent
    return parts


def nft_set_name(kind: SetKind, name: str) -> str:
    """Return the nft name of an IP set: readable if the characters allow it, otherwise a hash."""
    if not _SAFE_NAME.fullmatch(name):
        readable = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:30]
        name = f"{readable}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
    return f"{'s' if kind == 'addresses' else 'p'}-{name}"


SET_DECLARATION: dict[SetKind, str] = {
    "addresses": "type ipv4_addr; flags interval;",
    "endpoints": "type ipv4_addr . inet_proto . inet_service;",
}


def set_elements(kind: SetKind, members: Iterable[str]) -> list[str]:
    """Return members as nft elements, without overlaps, sorted."""
    if kind == "endpoints":
        return sorted({" . ".join(member.split(",")) for member in members})
    return collapsed(members)


def collapsed(networks: Iterable[str]) -> list[str]:
    """Return networks as nft elements, without overlaps."""
    given = set(networks)
    if not any("/" in member and not member.endswith("/32") for member in given):
        return sorted(member.removesuffix("/32") for member in given)
    collapsed = ipaddress.collapse_addresses(ipaddress.IPv4Network(n, strict=False) for n in given)
    return [str(network).removesuffix("/32") for network in collapsed]


def _protocol(match: Match) -> list[str]:
    parts = []
    if match.protocol is not None:
        parts.append(f"meta l4proto {match.protocol}")
    elif match.src_ports or match.dst_ports or match.not_src_ports or match.not_dst_ports:
        parts.append("meta l4proto { tcp, udp, udplite, sctp }")
    if match.not_protocol is not None:
        parts.append(f"meta l4proto != {match.not_protocol}")
    return parts


def _networks(
    direction: str, wanted: tuple[str, ...], unwanted: tuple[str, ...]
) -> list[str | None]:
    parts: list[str | None] = []
    if wanted:
        parts.append(any_of(f"ip {direction}", "", collapsed(wanted)))
    if unwanted:
        networks = collapsed(unwanted)
        parts.append(
            _NEVER if networks == ["0.0.0.0/0"] else any_of(f"ip {direction}", "!= ", networks)
        )
    return parts


def ports(
    direction: str, wanted: tuple[tuple[int, int], ...], unwanted: tuple[tuple[int, int], ...] = ()
) -> list[str | None]:
    """Return the match of ``sport`` or ``dport``."""
    parts: list[str | None] = []
    if wanted:
        parts.append(any_of(f"th {direction}", "", ranges(wanted)))
    if unwanted:
        parts.append(any_of(f"th {direction}", "!= ", ranges(unwanted)))
    return parts


def ranges(ports: tuple[tuple[int, int], ...]) -> list[str]:
    """Return port ranges without overlaps, as nft requires them in one set."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ports):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return [str(first) if first == last else f"{first}-{last}" for first, last in merged]


def any_of(selector: str, operator: str, values: list[str]) -> str:
    """Return a match for any of these values; with the operator ``!= ``, return a match for every
    other value."""
    if values == ["0.0.0.0/0"]:
        return ""
    if len(values) == 1:
        return f"{selector} {operator}{values[0]}"
    return f"{selector} {operator}{{ {', '.join(values)} }}"


def comment(text: str) -> list[str]:
    """Return a rule's comment, cut to the length that the kernel stores; return an empty list if
    there is no text."""
    clean = (
        text.replace('"', "'").replace("\n", " ").encode()[:_COMMENT_MAX].decode(errors="ignore")
    )
    return [f'comment "{clean}"'] if clean else []
