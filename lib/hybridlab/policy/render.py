# SPDX-License-Identifier: Apache-2.0
"""Renders an endpoint's policies as the rules that the Linux data plane applies, in order.

A rule becomes one or more matches: port numbers and port names are alternatives, which a single
match cannot express. The Windows form of the same policies is in ``policy_sets``.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hybridlab.dataplane.model import EndpointProgram, Match, Rule, Tier
from hybridlab.policy.ipsets import PortSet, SelectorSet, ServiceSet, SetKey
from hybridlab.policy.policy import IPV4, Direction, Peer, Policy, PolicyRule, of_ipv4
from hybridlab.policy.selectors import All, Selector

_NAMED_PORT_PROTOCOLS = {"6": "tcp", "17": "udp", "132": "sctp"}


@dataclass(frozen=True)
class TierPolicies:
    """The policies of a tier that apply to an endpoint, in order, including staged policies."""

    name: str
    end: Literal["deny", "pass"]
    policies: tuple[Policy, ...]


def program(tiers: Sequence[TierPolicies]) -> EndpointProgram:
    """Return the whole policy of a Linux endpoint. A direction without policies has no tier."""
    return EndpointProgram(ingress=_tiers(tiers, "ingress"), egress=_tiers(tiers, "egress"))


def about(tier: TierPolicies, direction: Direction) -> list[Policy]:
    """Return the policies of a tier that apply to a direction (their ``types``)."""
    return [policy for policy in tier.policies if direction in policy.types]


def set_keys(rule: PolicyRule) -> Iterator[SetKey]:
    """Yield every IP set that a rule needs."""
    for peer, is_destination in ((rule.source, False), (rule.destination, True)):
        yield from (
            SelectorSet(selector)
            for selector in (peer.selector, peer.not_selector)
            if selector is not None
        )
        if peer.service:
            yield ServiceSet(*peer.service, with_ports=is_destination)
        yield from (
            port_set(rule, peer, name) for name in (*peer.ports.names, *peer.not_ports.names)
        )


def port_set(rule: PolicyRule, peer: Peer, name: str) -> PortSet:
    """Return the IP set of a port name on one side of a rule, for any protocol if the rule names no
    protocol."""
    protocol = rule.protocol or ""
    return PortSet(peer.selector or All(), _NAMED_PORT_PROTOCOLS.get(protocol, protocol), name)


def is_of_ipv4(rule: PolicyRule) -> bool:
    """Return whether a rule can match IPv4: neither its version nor its networks exclude it."""
    only_v6 = any(
        nets and not of_ipv4(nets)
        for peer in (rule.source, rule.destination)
        for nets in (peer.nets, peer.not_nets)
    )
    return rule.ip_version in {None, IPV4} and not only_v6


def _tiers(tiers: Sequence[TierPolicies], direction: Direction) -> tuple[Tier, ...]:
    found = []
    for tier in tiers:
        enforced = [policy for policy in about(tier, direction) if not policy.staged]
        if enforced:
            found.append(
                Tier(name=tier.name, rules=tuple(_rules(enforced, direction)), end=tier.end)
            )
    return tuple(found)


def _rules(policies: Iterable[Policy], direction: Direction) -> Iterator[Rule]:
    for policy in policies:
        for number, rule in enumerate(policy.rules(direction)):
            if is_of_ipv4(rule):
                comment = f"{policy.key} {direction} rule {number}"
                yield from (
                    Rule(action=rule.action, match=match, comment=comment)
                    for match in _matches(rule)
                )


def _matches(rule: PolicyRule) -> Iterator[Match]:
    """Yield a rule's alternatives: on each side all port numbers in one match, each port name in
    its own match.
    """
    base = _base(rule)
    source = rule.source.ports
    destination = rule.destination.ports
    sources = [replace(base, src_ports=source.ranges)] if source.ranges or not source.names else []
    sources += [
        replace(base, src_ip_port_sets=(port_set(rule, rule.source, name).name,))
        for name in source.names
    ]
    for match in sources:
        if destination.ranges or not destination.names:
            yield replace(match, dst_ports=destination.ranges)
        for name in destination.names:
            named = port_set(rule, rule.destination, name).name
            yield replace(match, dst_ip_port_sets=(*match.dst_ip_port_sets, named))


def _base(rule: PolicyRule) -> Match:
    source = rule.source
    destination = rule.destination
    icmp_type, icmp_code = rule.icmp or (None, None)
    not_icmp_type, not_icmp_code = rule.not_icmp or (None, None)
    return Match(
        protocol=rule.protocol,
        not_protocol=rule.not_protocol,
        src_nets=of_ipv4(source.nets),
        not_src_nets=of_ipv4(source.not_nets),
        dst_nets=of_ipv4(destination.nets),
        not_dst_nets=of_ipv4(destination.not_nets),
        src_sets=_sets(source.selector) + _service(source, with_ports=False),
        not_src_sets=_sets(source.not_selector),
        dst_sets=_sets(destination.selector),
        not_dst_sets=_sets(destination.not_selector),
        not_src_ports=source.not_ports.ranges,
        not_dst_ports=destination.not_ports.ranges,
        dst_ip_port_sets=_service(destination, with_ports=True),
        not_src_ip_port_sets=tuple(
            port_set(rule, source, name).name for name in source.not_ports.names
        ),
        not_dst_ip_port_sets=tuple(
            port_set(rule, destination, name).name for name in destination.not_ports.names
        ),
        icmp_type=icmp_type,
        icmp_code=icmp_code,
        not_icmp_type=not_icmp_type,
        not_icmp_code=not_icmp_code,
    )


def _sets(selector: Selector | None) -> tuple[str, ...]:
    return (SelectorSet(selector).name,) if selector is not None else ()


def _service(peer: Peer, *, with_ports: bool) -> tuple[str, ...]:
    return (ServiceSet(*peer.service, with_ports=with_ports).name,) if peer.service else ()
