"""Resolved policies to what the data plane programs, for each operating system.

A rule becomes one or more matches: numbers and names of ports are alternatives, which one match cannot say.  What the
lab's data plane has no match for is reported and made to deny rather than to allow.  What Windows skips is decided in
:class:`WindowsProgramBuilder` and nowhere else: ACL lists and packet rules both come from the program that is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hybridlab.calico.ipsets import PortSet, SelectorSet, ServiceSet, SetKey, set_name
from hybridlab.calico.policy import Direction, Peer, Policy, PolicyRule
from hybridlab.calico.selectors import All, Selector
from hybridlab.dataplane.model import EndpointProgram, Match, Rule, Tier

Log = Callable[[str], None]
SKIPPED = "Skipped rule because it's not supported on Windows."
"""In Felix' words (felix/dataplane/windows/policysets)."""


@dataclass(frozen=True)
class TierPolicies:
    """The policies of one tier that apply to an endpoint, in order."""

    name: str
    end: Literal["deny", "pass"]
    policies: tuple[Policy, ...]


class ProgramBuilder:
    """How Linux gets its policy: every rule as it stands."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def endpoint(self, tiers: Sequence[TierPolicies]) -> EndpointProgram:
        """The whole policy of an endpoint.  A direction that no policy is about gets no tier."""
        return EndpointProgram(ingress=self._tiers(tiers, "ingress"), egress=self._tiers(tiers, "egress"))

    def _tiers(self, tiers: Sequence[TierPolicies], direction: Direction) -> tuple[Tier, ...]:
        return tuple(
            Tier(name=tier.name, rules=tuple(self._rules(applying, direction)), end=tier.end)
            for tier in tiers
            if (applying := [policy for policy in tier.policies if direction in policy.types])
        )

    def _rules(self, policies: Iterable[Policy], direction: Direction) -> Iterator[Rule]:
        for policy in policies:
            for number, rule in enumerate(policy.rules(direction)):
                comment = f"{policy.key} {direction} rule {number}"
                if self.skips(rule):
                    self._log(f"{SKIPPED} rule={comment}")
                else:
                    yield from self._rule(rule, comment)

    def skips(self, rule: PolicyRule) -> bool:
        """Whether the operating system leaves a rule out."""
        return False

    def _rule(self, rule: PolicyRule, comment: str) -> Iterator[Rule]:
        if rule.source.nets == () or rule.destination.nets == ():
            return  # about IPv6 only
        missing = not_emulated(rule)
        if missing:
            self._log(f"not emulated: {missing} in {comment}; the rule {_instead(rule)}")
            if rule.action != "deny":
                return
            rule = _without_missing(rule)
        base = _base(rule)
        for match in _with_destination_ports(base, rule):
            yield Rule(action=rule.action, match=match, comment=comment)


class WindowsProgramBuilder(ProgramBuilder):
    """How Windows gets its policy; rules that Felix does not express in ACLs are left out."""

    def skips(self, rule: PolicyRule) -> bool:
        """Negated matches (``except`` of an ipBlock is one), ICMP types, named ports, and Log."""
        peers = (rule.source, rule.destination)
        negated = rule.not_protocol is not None or rule.not_icmp is not None
        negated = negated or any(peer.not_nets or peer.not_selector is not None or peer.not_ports for peer in peers)
        named_port = any(peer.ports.names for peer in peers)
        return negated or named_port or rule.icmp is not None or rule.action == "log"


def program_builder(os: Literal["linux", "windows"], log: Log) -> ProgramBuilder:
    """The builder for an operating system."""
    return WindowsProgramBuilder(log) if os == "windows" else ProgramBuilder(log)


def set_keys(rule: PolicyRule) -> Iterator[SetKey]:
    """Every IP set that a rule needs."""
    for peer, is_destination in ((rule.source, False), (rule.destination, True)):
        for selector in (peer.selector, peer.not_selector):
            if selector is not None:
                yield SelectorSet(selector)
        if peer.service:
            yield ServiceSet(*peer.service, with_ports=is_destination)
    for name in rule.destination.ports.names:
        yield _port_set(rule, name)


def not_emulated(rule: PolicyRule) -> str:
    """What of a rule the data plane has no match for; empty: nothing."""
    if rule.not_icmp is not None:
        return "notICMP"
    if rule.source.ports.names:
        return "a named port in source.ports"
    if rule.source.not_ports.names or rule.destination.not_ports.names:
        return "a named port in notPorts"
    return ""


def _instead(rule: PolicyRule) -> str:
    return "denies without it" if rule.action == "deny" else "is left out"


def _without_missing(rule: PolicyRule) -> PolicyRule:
    def plain(peer: Peer) -> Peer:
        return replace(peer, not_ports=replace(peer.not_ports, names=()))

    source = plain(rule.source)
    if source.ports.names:
        source = replace(source, ports=replace(source.ports, names=(), ranges=()))
    return replace(rule, not_icmp=None, source=source, destination=plain(rule.destination))


def _base(rule: PolicyRule) -> Match:
    source, destination = rule.source, rule.destination
    icmp_type, icmp_code = rule.icmp or (None, None)
    return Match(
        protocol=rule.protocol,
        not_protocol=rule.not_protocol,
        src_nets=source.nets or (),
        not_src_nets=source.not_nets,
        dst_nets=destination.nets or (),
        not_dst_nets=destination.not_nets,
        src_sets=_sets(source.selector) + _service(source, with_ports=False),
        not_src_sets=_sets(source.not_selector),
        dst_sets=_sets(destination.selector),
        not_dst_sets=_sets(destination.not_selector),
        src_ports=source.ports.ranges,
        not_src_ports=source.not_ports.ranges,
        not_dst_ports=destination.not_ports.ranges,
        dst_ip_port_sets=_service(destination, with_ports=True),
        icmp_type=icmp_type,
        icmp_code=icmp_code,
    )


def _sets(selector: Selector | None) -> tuple[str, ...]:
    return (set_name(SelectorSet(selector)),) if selector is not None else ()


def _service(peer: Peer, *, with_ports: bool) -> tuple[str, ...]:
    return (set_name(ServiceSet(*peer.service, with_ports=with_ports)),) if peer.service else ()


def _with_destination_ports(base: Match, rule: PolicyRule) -> Iterator[Match]:
    """The alternatives for the destination's ports: the numbers in one match, each name in one of its own."""
    ports = rule.destination.ports
    if ports.ranges or not ports.names:
        yield replace(base, dst_ports=ports.ranges)
    for name in ports.names:
        yield replace(base, dst_ip_port_sets=(*base.dst_ip_port_sets, set_name(_port_set(rule, name))))


def _port_set(rule: PolicyRule, name: str) -> PortSet:
    return PortSet(rule.destination.selector or All(), rule.protocol or "tcp", name)
