# SPDX-License-Identifier: Apache-2.0
"""Tiers of HNS rules as one list with the same decisions, as Felix flattens them on Windows.

From felix/dataplane/windows (flattener.go, endpoint_mgr.go, policysets.go GetPolicySetRules), with
two of its defects if the release has them. First, if a Pass rule and a rule after it have no port
in common, the combined rule is for any port. Second, Felix panics if the highest port that the two
rules have in common is the highest port of either rule.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal

from hybridlab.policy.policy import merged
from hybridlab.policy.policy_sets import HnsRule, Networks, PortRanges, meet
from hybridlab.profiles.model import CalicoDefects

FIRST_PRIORITY = 1000
MAX_PRIORITY = 65000
_SMALLEST_BITSET = 19
"""The initial number of bits of a set of ports (``2 ^ 16 + 1`` is 19 in Go, where ^ is exclusive
or)."""


class FelixPanic(RuntimeError):
    """A panic of Felix with this message; the same policies make it panic again."""


def tier_rules(
    policies: Iterable[Sequence[HnsRule]], end: Literal["deny", "pass"]
) -> list[HnsRule]:
    """Return the rules of a tier's policies in order, and the rule at the tier's end."""
    found: list[HnsRule] = []
    priority = FIRST_PRIORITY
    for rule in (rule for rules in policies for rule in rules):
        priority += bool(found and found[-1].action != rule.action)
        found.append(replace(rule, priority=priority))
    return [*found, HnsRule("Block" if end == "deny" else "Pass", priority=priority + 1)]


def flattened(tiers: Sequence[Sequence[HnsRule]], defects: CalicoDefects) -> list[HnsRule]:
    """Return the rules of all tiers as one list, with priorities; traffic that the last tier passes
    is blocked. Raise FelixPanic."""
    *others, last = tiers
    blocking = [replace(rule, action="Block") if rule.action == "Pass" else rule for rule in last]
    found, *behind = [*others, blocking]
    for tier in behind:
        found = [
            both
            for rule in found
            for both in (_combined(rule, tier, defects) if rule.action == "Pass" else (rule,))
        ]
    return _numbered(found)


def _combined(passing: HnsRule, behind: Iterable[HnsRule], defects: CalicoDefects) -> list[HnsRule]:
    """Return the next tier's rules, restricted to the traffic that a passing rule matches."""
    return [both for rule in behind if (both := _both(passing, rule, defects)) is not None]


def _both(rule: HnsRule, other: HnsRule, defects: CalicoDefects) -> HnsRule | None:
    """Return a rule for traffic that matches both rules, with the second rule's action and id;
    None if nothing can match.
    """
    if rule.protocol == HnsRule.protocol:
        protocol = other.protocol
    elif other.protocol in {HnsRule.protocol, rule.protocol}:
        protocol = rule.protocol
    else:
        return None
    local = _addresses(rule.local, other.local)
    remote = _addresses(rule.remote, other.remote)
    if local is None or remote is None:
        return None
    local_ports = _ports(rule.local_ports, other.local_ports, defects)
    if local_ports is None:
        return None
    remote_ports = _ports(rule.remote_ports, other.remote_ports, defects)
    if remote_ports is None:
        return None
    return replace(
        other,
        protocol=protocol,
        local=local,
        remote=remote,
        local_ports=local_ports,
        remote_ports=remote_ports,
    )


def _addresses(networks: Networks, other: Networks) -> Networks | None:
    return networks or other if not networks or not other else meet(networks, other) or None


def _ports(ranges: PortRanges, other: PortRanges, defects: CalicoDefects) -> PortRanges | None:
    """Return the ports in both lists, in order, with neighbours merged; empty: any port; None: no
    port."""
    if not ranges or not other:
        return ranges or other
    met = merged(
        (max(a, c), min(b, d)) for a, b in ranges for c, d in other if max(a, c) <= min(b, d)
    )
    length = max(_SMALLEST_BITSET, *(last + 1 for _, last in (*ranges, *other)))
    if met and defects.pass_may_panic and met[-1][1] + 1 >= length:
        raise FelixPanic("bitset said no end of range")
    return met if met or defects.pass_may_open_every_port else None


def _numbered(rules: Sequence[HnsRule]) -> list[HnsRule]:
    """Give rules rising priorities; if there are too many rules, neighbours with the same effect
    share a priority.

    A single rule keeps the priority that it had in its tier.
    """
    if len(rules) <= 1:
        return list(rules)
    always = len(rules) < MAX_PRIORITY - FIRST_PRIORITY
    priority = FIRST_PRIORITY
    found = [replace(rules[0], priority=priority)]
    for before, rule in pairwise(rules):
        priority += always or before.action != rule.action
        found.append(replace(rule, priority=priority))
    return found
