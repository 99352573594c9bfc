# SPDX-License-Identifier: Apache-2.0
"""The list that HNS has for a pod, compared rule by rule with the list that Felix gives to HNS.
Pure functions.

The content of rules is compared; HNS' ids only serve to name the policy of an unexpected rule.
Priorities are not compared. Neither is an order that makes no difference to any packet: Felix
writes the members of a Service in any order.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Network

from conformance.errors import ProbeBroken
from conformance.model.host import AclRule
from conformance.policy.acl_list import ANY_PROTOCOL, HnsRule, Ranges, merged, met
from conformance.policy.oracle.fields import PROTOCOLS, Range

FROM_HOST = "allow-host-to-endpoint"
"""The id of the rule that admits the node to its own pods."""
HOST = "Host"
"""The type of rules for the host's firewall."""
OF_FELIX = range(900, 65001)
"""The priorities of Felix' rules (felix dataplane/windows/policysets). CNI plugins use 65500 for
their rules, which apply until Felix' first list. AKS uses 200 for its own rules that block."""
OF_AZURE = {"168.63.129.16", "169.254.169.254"}
"""The addresses of Azure's own servers, which AKS closes to pods (Azure/AgentBaker
staging/cse/windows/azurecnifunc.ps1)."""
_FELIX_ID = re.compile(r"(?:policy|profile)-(.+)-[A-Za-z0-9_-]{16}-(\d+)")
"""Matches the id of a rule: the policy, and the part's number. Felix divides a rule with more
addresses than HNS takes into parts."""
_ANY = {"", "256", "any", "*"}


@dataclass(frozen=True)
class Difference:
    """A rule that HNS lacks, or has in addition to the rules of the policies."""

    rule: HnsRule
    is_missing: bool
    """HNS lacks the rule; otherwise no policy explains it."""
    misplaced: bool = False
    """HNS has the rule, but before or after rules with another action."""

    @property
    def origin(self) -> str:
        """Return the rule's policy and place: ``NetworkPolicy shop/web, ingress rule 2``."""
        return ", ".join(filter(None, (self.rule.policy, self.rule.where)))

    def __str__(self) -> str:
        if self.misplaced:
            return f"HNS has {self.rule} of {self.origin} at another place in the list"
        if self.is_missing:
            return f"HNS lacks {self.rule} of {self.origin}"
        return f"HNS has {self.rule} of {self.origin or 'no policy'}, which no policy requires"


def compare(expected: Sequence[HnsRule], observed: Sequence[HnsRule]) -> tuple[Difference, ...]:
    """Return the differences of two lists; none: the lists treat every packet alike."""
    lacking = Counter(rule.effect for rule in expected)
    lacking.subtract(rule.effect for rule in observed)
    found = [
        *(Difference(rule, True) for rule in _left(expected, lacking)),
        *(Difference(rule, False) for rule in _left(observed, -lacking)),
    ]
    return tuple(found or _misplaced(expected, observed))


def _left(rules: Iterable[HnsRule], counted: Counter[HnsRule]) -> Iterator[HnsRule]:
    """Yield rules until each effect has been yielded as often as ``counted`` says."""
    left = Counter(counted)
    for rule in rules:
        if left[rule.effect] > 0:
            left[rule.effect] -= 1
            yield rule


def _misplaced(expected: Sequence[HnsRule], observed: Sequence[HnsRule]) -> Iterator[Difference]:
    """Yield the first rule that precedes a rule with another action, although it should follow that
    rule.

    Both lists have the same rules.
    """
    places: dict[HnsRule, list[int]] = {}
    for place, rule in enumerate(observed):
        places.setdefault(rule.effect, []).append(place)
    stand = [places[rule.effect].pop(0) for rule in expected]
    if stand == sorted(stand):
        return
    for number, rule in enumerate(expected):
        for before in range(number):
            if stand[before] > stand[number] and _matter(expected[before], rule):
                yield Difference(rule, True, misplaced=True)
                return


def _matter(one: HnsRule, other: HnsRule) -> bool:
    """Return whether the order of two rules makes a difference to any packet."""
    if one.action == other.action or one.direction != other.direction:
        return False
    protocols = {one.protocol, other.protocol} - {ANY_PROTOCOL}
    return len(protocols) < 2 and all(
        met(first, second) or not (first and second)
        for first, second in (
            (one.local, other.local),
            (one.remote, other.remote),
            (one.local_ports, other.local_ports),
            (one.remote_ports, other.remote_ports),
        )
    )


def observed_list(acls: Iterable[AclRule]) -> tuple[HnsRule, ...]:
    """Return the access rules of an endpoint by priority, without the rules that every pod gets,
    including those of the CNI plugin.

    Raise ProbeBroken for a rule that cannot be read.
    """
    own = [
        one
        for one in acls
        if one.rule_type != HOST and one.id != FROM_HOST and not _is_the_plugins(one)
    ]
    found: list[tuple[str, HnsRule]] = []
    for one in sorted(own, key=lambda one: (one.direction, one.priority)):
        part = _FELIX_ID.fullmatch(one.id)
        rule = _read(one, part[1] if part else one.id)
        before = found[-1] if found else None
        if part and before and int(part[2]) and before[0] == one.id.rpartition("-")[0]:
            together = _together(before[1], rule)
            if together is not None:
                found[-1] = (before[0], together)
                continue
        found.append((one.id.rpartition("-")[0], rule))
    return tuple(rule for _, rule in found)


def _is_the_plugins(acl: AclRule) -> bool:
    """Return whether a rule is from the CNI plugin.

    The rule is from the plugin if it comes after Felix' last rule, or if it comes before Felix'
    first rule and blocks Azure's own servers. A policy may deny these servers, too.
    """
    return acl.priority >= OF_FELIX.stop or (
        acl.priority < OF_FELIX.start
        and (acl.action, acl.direction) == ("Block", "Out")
        and all(
            one.strip().removesuffix("/32") in OF_AZURE for one in acl.remote_addresses.split(",")
        )
    )


def _together(one: HnsRule, other: HnsRule) -> HnsRule | None:
    """Return two parts of a rule with many addresses as one rule; None if they are not parts of the
    same rule."""
    remote = merged([*one.remote, *other.remote]) if one.remote and other.remote else ()
    if replace(one, remote=remote) == replace(other, remote=remote):
        return replace(one, remote=remote)
    return None


def _read(acl: AclRule, policy: str) -> HnsRule:
    try:
        return HnsRule(
            acl.action,
            acl.direction,
            _protocol(acl.protocol),
            _networks(acl.local_addresses),
            _networks(acl.remote_addresses),
            _ports(acl.local_ports),
            _ports(acl.remote_ports),
            policy,
        )
    except ValueError as error:
        raise ProbeBroken(
            f"an access rule of HNS cannot be read: {error}", transport=str(acl)
        ) from None


def _protocol(text: str) -> int:
    word = text.strip().lower()
    return ANY_PROTOCOL if word in _ANY else PROTOCOLS[word] if word in PROTOCOLS else int(word)


def _networks(text: str) -> Ranges:
    nets = [IPv4Network(one.strip(), strict=False) for one in text.split(",") if one.strip()]
    return merged((int(net.network_address), int(net.broadcast_address)) for net in nets)


def _ports(text: str) -> Ranges:
    return merged(_port(one.strip()) for one in text.split(",") if one.strip() not in _ANY)


def _port(text: str) -> Range:
    first, _, last = text.partition("-")
    return int(first), int(last or first)
