# SPDX-License-Identifier: Apache-2.0
"""The verdict of policy on a packet that opens a connection: by an ACL list or by a Linux program.

Pure: nothing is sent. On Windows, a list is read as HNS reads it: the entry with the lowest
priority number that matches decides, and if no entry matches, the packet is blocked. Entries for
the host's firewall do not count.
"""

import ipaddress
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from hybridlab.dataplane.model import Acl, EndpointProgram, Match, Rule, Tier

NUMBERS = {"icmp": 1, "tcp": 6, "udp": 17, "icmpv6": 58, "sctp": 132, "udplite": 136}
_NAMES = {number: name for name, number in NUMBERS.items()}
_ICMP = NUMBERS["icmp"]
_ANY_PROTOCOL = 256
_HALF = {"ingress": "In", "egress": "Out"}

Members = Callable[[str], Sequence[str]]
PortRanges = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Packet:
    """A packet at the endpoint that it leaves (``egress``) or reaches (``ingress``)."""

    direction: str
    source: str
    destination: str
    protocol: int
    source_port: int | None = None
    destination_port: int | None = None
    icmp: tuple[int, int] | None = None
    """(type, code)."""


def allowed_by_list(acls: Sequence[Acl], packets: Iterable[Packet]) -> list[bool]:
    """Return, for each packet, whether an ACL list allows it."""
    ordered = sorted(
        (acl for acl in acls if acl.rule_type == "Switch"), key=lambda acl: acl.priority
    )
    halves = {way: [acl for acl in ordered if acl.direction == half] for way, half in _HALF.items()}
    return [_listed(halves[packet.direction], packet) for packet in packets]


def allowed_by_program(program: EndpointProgram, members: Members, packet: Packet) -> bool:
    """Return True if a Linux program allows a packet; after its last tier the profile allows."""
    for tier in program.ingress if packet.direction == "ingress" else program.egress:
        verdict = _verdict(tier, members, packet)
        if verdict != "pass":
            return verdict == "allow"
    return True


def _listed(acls: Sequence[Acl], packet: Packet) -> bool:
    return next((acl.action == "Allow" for acl in acls if _acl_matches(acl, packet)), False)


def _acl_matches(acl: Acl, packet: Packet) -> bool:
    if acl.protocol not in (_ANY_PROTOCOL, packet.protocol):
        return False
    remote = packet.source
    remote_port = packet.source_port
    local = packet.destination
    local_port = packet.destination_port
    if packet.direction == "egress":
        remote, remote_port, local, local_port = local, local_port, remote, remote_port
    return (
        (not acl.local or _inside(local, acl.local))
        and (not acl.remote or _inside(remote, acl.remote))
        and (not acl.local_ports or _among(local_port, acl.local_ports))
        and (not acl.remote_ports or _among(remote_port, acl.remote_ports))
    )


def _verdict(tier: Tier, members: Members, packet: Packet) -> str:
    deciding = (rule for rule in tier.rules if rule.action != "log")
    return next(
        (rule.action for rule in deciding if _rule_matches(rule, members, packet)), tier.end
    )


def _rule_matches(rule: Rule, members: Members, packet: Packet) -> bool:
    match = rule.match
    return (
        _protocol_matches(match, packet)
        and _addresses_match(match, members, packet)
        and _ports_match(match, members, packet)
        and _icmp_matches(match, packet)
    )


def _protocol_matches(match: Match, packet: Packet) -> bool:
    if match.protocol is not None and _number(match.protocol) != packet.protocol:
        return False
    return match.not_protocol is None or _number(match.not_protocol) != packet.protocol


def _addresses_match(match: Match, members: Members, packet: Packet) -> bool:
    source = packet.source
    destination = packet.destination
    return (
        (not match.src_nets or _inside(source, match.src_nets))
        and (not match.dst_nets or _inside(destination, match.dst_nets))
        and not _inside(source, match.not_src_nets)
        and not _inside(destination, match.not_dst_nets)
        and all(_inside(source, members(name)) for name in match.src_sets)
        and all(_inside(destination, members(name)) for name in match.dst_sets)
        and not any(_inside(source, members(name)) for name in match.not_src_sets)
        and not any(_inside(destination, members(name)) for name in match.not_dst_sets)
    )


def _ports_match(match: Match, members: Members, packet: Packet) -> bool:
    source = _member(packet.source, packet.protocol, packet.source_port)
    destination = _member(packet.destination, packet.protocol, packet.destination_port)
    return (
        (not match.src_ports or _among(packet.source_port, match.src_ports))
        and (not match.dst_ports or _among(packet.destination_port, match.dst_ports))
        and not _among(packet.source_port, match.not_src_ports)
        and not _among(packet.destination_port, match.not_dst_ports)
        and all(source in members(name) for name in match.src_ip_port_sets)
        and all(destination in members(name) for name in match.dst_ip_port_sets)
        and not any(source in members(name) for name in match.not_src_ip_port_sets)
        and not any(destination in members(name) for name in match.not_dst_ip_port_sets)
    )


def _icmp_matches(match: Match, packet: Packet) -> bool:
    if match.icmp_type is None and match.not_icmp_type is None:
        return True
    if packet.protocol != _ICMP or packet.icmp is None:
        return False
    if match.icmp_type is not None and not _is_icmp(packet.icmp, match.icmp_type, match.icmp_code):
        return False
    return match.not_icmp_type is None or not _is_icmp(
        packet.icmp, match.not_icmp_type, match.not_icmp_code
    )


def _is_icmp(icmp: tuple[int, int], kind: int, code: int | None) -> bool:
    return icmp[0] == kind and code in {None, icmp[1]}


def _number(protocol: str) -> int:
    return int(protocol) if protocol.isdigit() else NUMBERS.get(protocol, _ANY_PROTOCOL)


def _member(address: str, protocol: int, port: int | None) -> str:
    return f"{address},{_NAMES.get(protocol, protocol)},{port}"


def _among(port: int | None, ranges: PortRanges) -> bool:
    return port is not None and any(first <= port <= last for first, last in ranges)


def _inside(address: str, networks: Sequence[str]) -> bool:
    return any(_contains(network, address) for network in networks)


@lru_cache(maxsize=65536)
def _contains(network: str, address: str) -> bool:
    return ipaddress.ip_address(address) in ipaddress.ip_network(network)
