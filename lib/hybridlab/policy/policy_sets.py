# SPDX-License-Identifier: Apache-2.0
"""The HNS rules that Felix makes from a policy on Windows, the rules that Felix leaves out, and the
reasons.

From felix/dataplane/windows/policysets. A rule that HNS cannot express is left out as a whole, with
a warning: negated matches, named ports, ICMP types, Log, IPv6. A rule that can match nothing is
left out without a warning: a set is empty, or networks and a set have no address in common.
"""

import hashlib
import ipaddress
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from hybridlab.policy.ipsets import SelectorSet, ServiceSet
from hybridlab.policy.policy import IPV4, Direction, Peer, Policy, PolicyKey, PolicyRule, of_ipv4
from hybridlab.policy.release import Release

ANY_PROTOCOL = 256
ID_LENGTH = 16
PER_RULE = 4000
"""The maximum number of addresses, or of ports, in one HNS rule."""
SKIPPED = "Skipped rule because it's not supported on Windows."
"""The message that Felix logs for a rule that HNS cannot express."""
_PROTOCOLS = {"tcp": 6, "udp": 17, "icmp": 1, "icmpv6": 58, "sctp": 132, "udplite": 136}

Value = TypeVar("Value")
Networks = tuple[str, ...]
PortRanges = tuple[tuple[int, int], ...]
Members = Callable[[str], Sequence[str]]
"""Returns the members of an IP set by its name."""
HnsAction = Literal["Allow", "Block", "Pass"]


@dataclass(frozen=True)
class HnsRule:
    """A rule for one direction, before tiers are flattened. Empty networks or ports mean any."""

    action: HnsAction
    protocol: int = ANY_PROTOCOL
    local: Networks = ()
    remote: Networks = ()
    local_ports: PortRanges = ()
    remote_ports: PortRanges = ()
    priority: int = 0
    id: str = ""


@dataclass(frozen=True)
class LeftOut:
    """A rule that Felix leaves out, with the reason."""

    where: str
    why: str
    warned: bool
    """True: Felix logs a warning about the rule."""


_ACTIONS: dict[str, HnsAction] = {"allow": "Allow", "deny": "Block", "pass": "Pass"}


def unsupported(rule: PolicyRule) -> str:
    """Return the reason why HNS cannot express a rule; an empty string if HNS can."""
    peers = (rule.source, rule.destination)
    if rule.ip_version not in {None, IPV4}:
        return "it is for IPv6"
    for peer, side in zip(peers, ("source", "destination"), strict=True):
        for given, name in (
            (peer.not_nets, "notNets"),
            (peer.not_ports, "notPorts"),
            (peer.not_selector, "notSelector"),
        ):
            if given:
                return f"negated match {side}.{name}"
    if rule.not_protocol is not None or rule.not_icmp is not None:
        return f"negated match {'notProtocol' if rule.not_protocol is not None else 'notICMP'}"
    if rule.icmp is not None:
        return "ICMP type or code"
    return "named port" if any(peer.ports.names for peer in peers) else ""


def rule_ids(rules: Sequence[PolicyRule], seed: str) -> tuple[str, ...]:
    """Return the id of each rule; ``seed`` identifies their policy and direction.

    As in Felix, each id is a hash of the rule and of all rules before it
    (felix/calc/rule_convert.go fillInRuleIDs). The lab hashes Calico's text of the rules. Felix
    hashes a protocol buffer, but nothing compares the lab's ids with Felix' ids.
    """
    digest = hashlib.sha224(seed.encode()).hexdigest()
    found = []
    for rule in rules:
        digest = hashlib.sha224(
            (digest + json.dumps(rule.written, sort_keys=True)).encode()
        ).hexdigest()
        found.append(digest[:ID_LENGTH])
    return tuple(found)


def _left_out(rule: PolicyRule) -> str:
    """Return the reason why a rule that HNS can express is left out; an empty string if it becomes
    HNS rules."""
    if any(peer.nets and not of_ipv4(peer.nets) for peer in (rule.source, rule.destination)):
        return ONLY_V6
    return "Log" if rule.action == "log" else ""


class PolicySets:
    """The HNS rules of policies; ``members`` is called when rules are made."""

    def __init__(self, release: Release, members: Members) -> None:
        self._release = release
        self._members = members
        self._ids: dict[tuple[PolicyKey, Direction], tuple[Policy, tuple[str, ...]]] = {}

    def rules(self, policy: Policy, direction: Direction) -> list[HnsRule | LeftOut]:
        found: list[HnsRule | LeftOut] = []
        for number, (rule, rule_id) in enumerate(
            zip(policy.rules(direction), self._rule_ids(policy, direction), strict=True)
        ):
            where = f"{policy.key} {direction} rule {number}"
            made = self._rule(rule, direction)
            if isinstance(made, str):
                found.append(LeftOut(where, made, warned=made not in _SILENT))
                continue
            name = f"policy-{self._release.policy_id(policy.key)}-{rule_id}"
            found += (replace(rule, id=f"{name}-{at}") for at, rule in enumerate(made))
        return found

    def _rule_ids(self, policy: Policy, direction: Direction) -> tuple[str, ...]:
        known, ids = self._ids.get((policy.key, direction), (None, ()))
        if known is not policy:
            seed = f"pol-{'in' if direction == 'ingress' else 'out'}-default/{self._release.policy_name(policy.key)}"
            ids = rule_ids(policy.rules(direction), seed)
            self._ids[policy.key, direction] = (policy, ids)
        return ids

    def _rule(self, rule: PolicyRule, direction: Direction) -> list[HnsRule] | str:
        """Return the HNS rules of a rule, or the reason why there are none."""
        if why := unsupported(rule) or _left_out(rule):
            return why
        action = _ACTIONS[rule.action]
        if rule.destination.service:
            return self._service_rule(rule, action, direction)
        source = self._addresses(rule.source)
        destination = self._addresses(rule.destination)
        if source is None or destination is None:
            return NO_ADDRESS
        protocol = ANY_PROTOCOL if rule.protocol is None else protocol_number(rule.protocol)
        ends = (rule.destination, destination), (rule.source, source)
        (here, local), (there, remote) = ends if direction == "ingress" else reversed(ends)
        return [
            HnsRule(action, protocol, local_part, remote_part, local_ports, remote_ports)
            for local_part in _chunks(local)
            for local_ports in _chunks(here.ports.ranges)
            for remote_part in _chunks(remote)
            for remote_ports in _chunks(there.ports.ranges)
        ]

    def _service_rule(
        self, rule: PolicyRule, action: HnsAction, direction: Direction
    ) -> list[HnsRule] | str:
        """Return the HNS rules of a rule with destination.services: one for each protocol and
        port, with all addresses.
        """
        assert rule.destination.service is not None
        grouped: dict[tuple[int, int], list[str]] = {}
        for member in self._members(ServiceSet(*rule.destination.service, with_ports=True).name):
            address, protocol, port = member.split(",")
            grouped.setdefault((protocol_number(protocol), int(port)), []).append(address)
        made = [
            HnsRule(action, protocol, (), tuple(addresses), (), ((port, port),))
            for (protocol, port), addresses in grouped.items()
        ]
        if not self._release.defects.service_rules_match_members_only:
            made = [both for item in made if (both := self._narrowed(item, rule, direction))]
        return made or NO_ADDRESS

    def _narrowed(
        self, hns_rule: HnsRule, rule: PolicyRule, direction: Direction
    ) -> HnsRule | None:
        """Return a service's rule, restricted by the policy rule's other criteria; None if
        nothing can match.
        """
        protocol = None if rule.protocol is None else protocol_number(rule.protocol)
        source = self._addresses(rule.source)
        if source is None or direction == "ingress" or protocol not in {None, hns_rule.protocol}:
            return None
        return HnsRule(
            hns_rule.action,
            hns_rule.protocol,
            source,
            hns_rule.remote,
            rule.source.ports.ranges,
            hns_rule.remote_ports,
        )

    def _addresses(self, peer: Peer) -> Networks | None:
        """Return the members of a peer's sets, restricted to the peer's networks; without sets, its
        networks. Empty: any address; None: no address matches."""
        nets = of_ipv4(peer.nets)
        found: list[str] = []
        sets = [SelectorSet(peer.selector).name] if peer.selector is not None else []
        sets += [ServiceSet(*peer.service, with_ports=False).name] if peer.service else []
        for name in sets:
            members = self._members(name)
            if not members:
                return None
            found += [text if "/" in text else f"{text}/32" for text in members]
        if not sets:
            return tuple(sorted(nets))
        return tuple(sorted(set(found))) if not nets else meet(nets, found) or None


NO_ADDRESS = (
    "no address can match it: a set has no members, or networks and sets have none in common"
)
ONLY_V6 = "its networks are IPv6 only"
_SILENT = frozenset({NO_ADDRESS, ONLY_V6})


def protocol_number(protocol: str) -> int:
    """Return HNS' number of a protocol; a protocol that Felix does not know counts as any
    protocol."""
    return int(protocol) if protocol.isdigit() else _PROTOCOLS.get(protocol, ANY_PROTOCOL)


def meet(networks: Sequence[str], other: Sequence[str]) -> Networks:
    """Return the intersection of two lists of networks."""
    there = [_parsed(net) for net in other]
    met = set()
    for text in networks:
        net = _parsed(text)
        met |= {
            str(max(net, beside, key=lambda n: n.prefixlen))
            for beside in there
            if net.overlaps(beside)
        }
    return tuple(sorted(met))


def _parsed(net: str) -> ipaddress.IPv4Network:
    return ipaddress.IPv4Network(net)


def _chunks(values: tuple[Value, ...]) -> Iterator[tuple[Value, ...]]:
    """Yield a side's addresses or ports in groups that fit into one rule; a single empty group
    means any."""
    yield from (
        values[start : start + PER_RULE] for start in range(0, max(len(values), 1), PER_RULE)
    )
