# SPDX-License-Identifier: Apache-2.0
"""Ways in which a Felix misreads policy (the fault ``policy-misread``): the resulting rules and
sets on one node. Pure.

With a misreading, the rules that it affects allow more, or less, than is written. All other
policies are enforced as written.
"""

import ipaddress
from collections.abc import Callable, Iterable
from dataclasses import replace

from hybridlab.policy.policy import (
    Action,
    Direction,
    Peer,
    Policy,
    PolicyRule,
    PortRange,
    Ports,
    of_ipv4,
)
from hybridlab.policy.render import TierPolicies

Misreading = str
"""One of the names in :data:`MISREADINGS`."""
OF_BLOCK = 26
"""The prefix length of the blocks from which pods get their addresses."""
_TWINS = {"tcp": ("tcp", "udp"), "6": ("6", "17"), "udp": ("tcp", "udp"), "17": ("6", "17")}
_EVERYTHING = PolicyRule(action="allow")
_PORT_53 = Peer(ports=Ports(ranges=((53, 53),)))
_DNS = [
    PolicyRule(action="allow", protocol=protocol, destination=_PORT_53)
    for protocol in ("tcp", "udp")
]


def misread(
    tiers: tuple[TierPolicies, ...], ways: Iterable[Misreading]
) -> tuple[TierPolicies, ...]:
    """Return the policies of an endpoint as a Felix with these misreadings has them."""
    for way in ways:
        tiers = tuple(
            _TIERS[way](tier) if way in _TIERS else _read_rules(tier, way) for tier in tiers
        )
    return tiers


def widened(members: Iterable[str]) -> tuple[str, ...]:
    """Return a set with each address or network replaced by the block that contains it; entries
    with ports stay."""
    return tuple(sorted({_block(member) if "," not in member else member for member in members}))


def one_number(members: Iterable[str]) -> tuple[str, ...]:
    """Return a set's entries with ports, all with the port of the first entry."""
    found = sorted(members)
    ports = [member.rpartition(":")[2] for member in found if "," in member]
    return tuple(f"{one.rpartition(':')[0]}:{ports[0]}" if "," in one else one for one in found)


def _read_rules(tier: TierPolicies, way: Misreading) -> TierPolicies:
    if way not in _RULES:
        return tier  # this misreading changes the members of sets

    def read(rules: Iterable[PolicyRule], direction: Direction) -> tuple[PolicyRule, ...]:
        return tuple(made for rule in rules for made in _RULES[way](rule, direction))

    return _with_policies(
        tier,
        (
            replace(
                policy,
                ingress=read(policy.ingress, "ingress"),
                egress=read(policy.egress, "egress"),
            )
            for policy in tier.policies
        ),
    )


def _with_policies(tier: TierPolicies, policies: Iterable[Policy]) -> TierPolicies:
    return replace(tier, policies=tuple(policies))


def _any_protocol(rule: PolicyRule) -> list[PolicyRule]:
    return [
        replace(rule, protocol=protocol)
        for protocol in _TWINS.get(rule.protocol or "", (rule.protocol,))
    ]


def _any_port(rule: PolicyRule) -> PolicyRule:
    source, destination = (
        replace(side, ports=Ports(), not_ports=Ports()) for side in (rule.source, rule.destination)
    )
    return replace(rule, source=source, destination=destination)


def _in_blocks(peer: Peer) -> Peer:
    return replace(peer, nets=tuple(dict.fromkeys(_block(net) for net in peer.nets)))


def _block(net: str) -> str:
    network = ipaddress.ip_network(net)
    if network.version != 4 or network.prefixlen <= OF_BLOCK:
        return net
    return str(network.supernet(new_prefix=OF_BLOCK))


def _to_ports(rule: PolicyRule, ranges: Iterable[PortRange]) -> PolicyRule:
    ports = replace(rule.destination.ports, ranges=tuple(ranges))
    return replace(rule, destination=replace(rule.destination, ports=ports))


def _is_egress_udp(rule: PolicyRule, direction: Direction) -> bool:
    return direction == "egress" and rule.protocol == "udp"


def _ranges(rule: PolicyRule) -> tuple[PortRange, ...]:
    return rule.destination.ports.ranges


def _without_port_names(rule: PolicyRule) -> PolicyRule:
    ports = replace(rule.destination.ports, names=())
    return replace(rule, destination=replace(rule.destination, ports=ports))


_OTHERWISE: dict[str, Action] = {"allow": "deny", "deny": "allow", "pass": "deny", "log": "log"}


def _without_negations(rule: PolicyRule) -> PolicyRule:
    source, destination = (
        replace(side, not_nets=(), not_selector=None, not_ports=Ports())
        for side in (rule.source, rule.destination)
    )
    return replace(rule, source=source, destination=destination, not_protocol=None, not_icmp=None)


def _negations_enforced(rule: PolicyRule) -> list[PolicyRule]:
    """Enforce negations, which Windows cannot express: first decide the excluded peers the other
    way, then all other peers."""
    rest = _without_negations(rule)
    if rest == rule:
        return [rule]
    source = rule.source
    excepted = replace(rest, action=_OTHERWISE[rule.action])
    several = [replace(rest.source, nets=nets) for nets in (of_ipv4(source.not_nets),) if nets]
    several += (
        [replace(rest.source, selector=source.not_selector)]
        if source.not_selector is not None
        else []
    )
    several += (
        [replace(rest.source, ports=Ports(ranges=source.not_ports.ranges))]
        if source.not_ports.ranges
        else []
    )
    found = [replace(excepted, source=peer) for peer in several]
    found += [replace(excepted, protocol=rule.not_protocol)] if rule.not_protocol else []
    return [*found, rest]


def _as_ipv4(rule: PolicyRule) -> PolicyRule:
    """Return a rule of IPv6 as a rule of IPv4, with all addresses in place of its networks."""
    peers = (
        replace(side, nets=tuple("0.0.0.0/0" if ":" in net else net for net in side.nets))
        for side in (rule.source, rule.destination)
    )
    source, destination = peers
    return replace(rule, ip_version=None, source=source, destination=destination)


def _ipv6_open(rule: PolicyRule) -> PolicyRule:
    """Return a rule of IPv6 as a rule that admits everybody at its ports."""
    of_ipv6 = rule.ip_version == 6 or any(":" in net for net in rule.source.nets)
    return replace(rule, action="allow", ip_version=None, source=Peer()) if of_ipv6 else rule


def _numbers_beside_names(rule: PolicyRule, *, open: bool = False) -> PolicyRule:
    """Return a rule with names and numbers of ports as a rule for the numbers only; ``open``: for
    everybody, too."""
    ports = rule.destination.ports
    if not ports.names or not ports.ranges:
        return rule
    return replace(_without_port_names(rule), source=Peer() if open else rule.source)


def _with_rules(tier: TierPolicies, *rules: PolicyRule) -> TierPolicies:
    """Return a tier with all policies in both directions, with these rules after their own."""
    more = (
        replace(one, ingress=(*one.ingress, *rules), egress=(*one.egress, *rules))
        for one in tier.policies
    )
    return _with_policies(tier, more)


_RULES: dict[Misreading, Callable[[PolicyRule, Direction], list[PolicyRule]]] = {
    "any-protocol": lambda rule, _: _any_protocol(rule),
    "any-port": lambda rule, _: [_any_port(rule)],
    "tcp-only": lambda rule, _: [replace(rule, protocol=rule.protocol or "tcp")],
    "blocks": lambda rule, _: [
        replace(rule, source=_in_blocks(rule.source), destination=_in_blocks(rule.destination))
    ],
    "no-exceptions": lambda rule, _: [replace(rule, source=replace(rule.source, not_nets=()))],
    "first-port": lambda rule, _: [_to_ports(rule, _ranges(rule)[:1])],
    "last-port": lambda rule, _: [_to_ports(rule, _ranges(rule)[-1:])],
    "range-start": lambda rule, _: [
        _to_ports(rule, ((first, first) for first, _ in _ranges(rule)))
    ],
    "range-longer": lambda rule, _: [
        _to_ports(rule, ((first, last + (last > first)) for first, last in _ranges(rule)))
    ],
    "named-port-any": lambda rule, _: [_without_port_names(rule)],
    "named-port-none": lambda rule, _: [] if rule.destination.ports.names else [rule],
    "egress-udp-any-port": lambda rule, direction: [
        _any_port(rule) if _is_egress_udp(rule, direction) else rule
    ],
    "no-egress-udp": lambda rule, direction: [] if _is_egress_udp(rule, direction) else [rule],
    "negations-enforced": lambda rule, _: _negations_enforced(rule),
    "no-negations": lambda rule, _: [_without_negations(rule)],
    "negations-open": lambda rule, _: [
        rule
        if _without_negations(rule) == rule
        else replace(_without_negations(rule), source=Peer())
    ],
    "numbers-beside-names": lambda rule, _: [_numbers_beside_names(rule)],
    "numbers-beside-names-open": lambda rule, _: [_numbers_beside_names(rule, open=True)],
    "icmp-any-type": lambda rule, _: [replace(rule, icmp=None, not_icmp=None)],
    "icmp-open": lambda rule, _: [
        replace(rule, icmp=None, not_icmp=None, source=Peer())
        if rule.icmp or rule.not_icmp
        else rule
    ],
    "log-denies": lambda rule, _: [replace(rule, action="deny") if rule.action == "log" else rule],
    "ipv6-as-ipv4": lambda rule, _: [_as_ipv4(rule)],
    "ipv6-open": lambda rule, _: [_ipv6_open(rule)],
    "log-allows": lambda rule, _: [replace(rule, action="allow") if rule.action == "log" else rule],
    "http-left-out": lambda rule, _: [] if rule.written.get("http") else [rule],
    "http-open": lambda rule, _: [
        replace(rule, source=Peer()) if rule.written.get("http") else rule
    ],
    "allow-denies": lambda rule, _: [
        replace(rule, action="deny") if rule.action == "allow" else rule
    ],
}
"""Map each misreading of a rule to the rules that replace it."""

_TIERS: dict[Misreading, Callable[[TierPolicies], TierPolicies]] = {
    "first-policy": lambda tier: _with_policies(tier, tier.policies[:1]),
    "unmatched-allowed": lambda tier: _with_rules(tier, _EVERYTHING),
    "icmp-allowed": lambda tier: _with_rules(tier, PolicyRule(action="allow", protocol="icmp")),
    "dns-allowed": lambda tier: _with_rules(tier, *_DNS),
    "egress-too": lambda tier: _with_policies(
        tier, (replace(policy, types=frozenset({"ingress", "egress"})) for policy in tier.policies)
    ),
}
"""Map each misreading of a tier to the policies that an endpoint gets from the tier."""

MISREADINGS: tuple[Misreading, ...] = (
    *_RULES,
    *_TIERS,
    "namesakes",
    "last-4000-members",
    "named-port-one-number",
)
"""All misreadings; the rows of tests/detection explain each of them."""
