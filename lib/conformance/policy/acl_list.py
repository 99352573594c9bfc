# SPDX-License-Identifier: Apache-2.0
"""The access rules that Felix on Windows gives HNS for a pod: a pure function of policies, pod and
release.

    oracle = Oracle(World(objects), objects)
    expected = acl_list(oracle, oracle.world.pods["shop/web"], (3, 31))
    compare(expected, observed)  # conformance.policy.acl_differences

Sources: felix/dataplane/windows (policysets.go, flattener.go, endpoint_mgr.go) of v3.31.7 and
v3.32.1.  Proven by the lists that this Go code gives (tests/golden/windows-policy and
windows-policy-2).  Left out are rules that Felix gives every pod, whatever its policies: access
from the node itself, and the rules of type Host.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, summarize_address_range

from conformance.errors import SuiteError, UsageProblem
from conformance.policy.oracle import fields
from conformance.policy.oracle.fields import IPV6, Range
from conformance.policy.oracle.oracle import InForce, Oracle
from conformance.policy.oracle.policies import DEFAULT_TIER, DIRECTIONS, Direction, Policy
from conformance.policy.oracle.rules import Peer, Rule
from conformance.policy.oracle.switches import RELEASES, Minor, Switch, Switches, as_shipped
from conformance.policy.oracle.world import Backend, Member, Pod, World

ANY_PROTOCOL = 256
_ACTIONS = {"Allow": "Allow", "Deny": "Block", "Pass": "Pass"}
SHOWN = 4
"""The maximum number of a rule's addresses in its text."""
_SMALLEST_BITSET = 19
"""The initial number of bits of Felix' set of ports (``2 ^ 16 + 1`` in Go, where ^ is exclusive
or)."""

Ranges = tuple[Range, ...]
"""Addresses or ports, sorted, neighbours merged; empty: any."""


class FelixPanics(SuiteError):
    """Policies that make Felix end, so that HNS gets no list."""


@dataclass(frozen=True)
class HnsRule:
    """An access rule of HNS."""

    action: str
    """``Allow`` or ``Block``."""
    direction: str = ""
    """``In`` or ``Out``."""
    protocol: int = ANY_PROTOCOL
    local: Ranges = ()
    remote: Ranges = ()
    local_ports: Ranges = ()
    remote_ports: Ranges = ()
    policy: str = ""
    """``NetworkPolicy shop/web``, ``the end of tier default`` or ``no policy``."""
    where: str = ""
    """The rule's place, ``ingress rule 2``; empty if it comes from no rule of a policy."""

    @property
    def effect(self) -> "HnsRule":
        """Return the rule without its origin."""
        return replace(self, policy="", where="")

    def __str__(self) -> str:
        """Return ``Allow In tcp/80 from 10.0.0.1``."""
        name = _NAMES.get(self.protocol, str(self.protocol))
        ends = (("local", self.local, self.local_ports), ("remote", self.remote, self.remote_ports))
        said = [
            f"{side} {_addresses_text(addresses)}{_ports_text(ports)}"
            for side, addresses, ports in ends
            if addresses or ports
        ]
        return " ".join((self.action, self.direction, name, *said))


_NAMES = {ANY_PROTOCOL: "any", **{number: name for name, number in fields.PROTOCOLS.items()}}


def acl_list(
    oracle: Oracle, pod: Pod, release: Minor, switches: Switches | None = None
) -> tuple[HnsRule, ...]:
    """Return the rules of a pod on a Windows node, in order, ingress before egress.

    ``switches``: departures from the documents; None: the departures of the release as shipped.
    With ``WINDOWS`` alone the list has none of the release's defects.

    Raise UsageProblem for a release that is not in RELEASES, and for policies with a part that is
    not known; FelixPanics if Felix ends, so that there is no list.
    """
    if release not in RELEASES:
        known = " to ".join(f"v{major}.{minor}" for major, minor in (RELEASES[0], RELEASES[-1]))
        raise UsageProblem(f"v{release[0]}.{release[1]}: the suite knows the lists of {known}")
    switches = as_shipped(release) if switches is None else switches
    combines = Switch.COMBINED_PORTS in switches
    found: list[HnsRule] = []
    for direction, shown in zip(DIRECTIONS, ("In", "Out"), strict=True):
        in_force = oracle.in_force(pod, direction, switches, release)
        tiers = [_tier(one, direction, oracle.world, switches) for one in in_force]
        if all(one.tier.name != DEFAULT_TIER for one in in_force):
            profile = f"the profile of namespace {pod.namespace}"
            tiers.append([HnsRule("Allow", policy=profile), HnsRule("Block", policy=profile)])
        found += (replace(rule, direction=shown) for rule in _flattened(tiers, combines))
    return tuple(found)


def selecting(oracle: Oracle, pod: Pod, release: Minor) -> list[str]:
    """Return the policies that Felix of a release enforces at a pod."""
    switches = as_shipped(release)
    return list(
        dict.fromkeys(
            policy.label
            for direction in DIRECTIONS
            for one in oracle.in_force(pod, direction, switches, release)
            for group in one.groups
            for policy in group
        )
    )


def merged(ranges: Iterable[Range]) -> Ranges:
    """Return the ranges sorted, with overlapping and adjacent ranges merged."""
    found: list[Range] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return tuple(found)


def _tier(one: InForce, direction: Direction, world: World, switches: Switches) -> list[HnsRule]:
    """Return the rules of a tier's policies, followed by the rule for the end of the tier."""
    found: list[HnsRule] = []
    for policy in (policy for group in one.groups for policy in group):
        if policy.staged:
            break  # Felix has no rules of a staged policy, and reads no policy after it
        for rule in policy.rules[direction]:
            found += _rules(rule, policy, direction, world, switches)
    end = "Block" if one.tier.end == "Deny" else "Pass"
    return [*found, HnsRule(end, policy=f"the end of tier {one.tier.name}")]


def _rules(
    rule: Rule, policy: Policy, direction: Direction, world: World, switches: Switches
) -> Iterator[HnsRule]:
    """Yield HNS' rules for a policy's rule; none if HNS cannot express it or no address can
    match."""
    if rule.unread:
        raise UsageProblem(f"{policy.label}, {rule.where}: {rule.unread}")
    ends = (rule.source, rule.destination)
    if (
        rule.is_skipped(switches)
        or rule.family == 6
        or any(peer.nets and all(first >= IPV6 for first, _ in peer.nets) for peer in ends)
    ):
        return
    made = HnsRule(_ACTIONS[rule.action], policy=policy.label, where=rule.where)
    if rule.destination.service:
        alone = Switch.SERVICE_ALONE in switches
        yield from _to_service(rule.destination.service, rule, made, world, alone=alone)
        return
    source, destination = [_addresses(peer, world) for peer in ends]
    if source is None or destination is None:
        return
    ports = [merged(peer.ports) for peer in ends]
    here, there = (1, 0) if direction == "ingress" else (0, 1)
    yield replace(
        made,
        protocol=ANY_PROTOCOL if rule.protocol is None else rule.protocol,
        local=(source, destination)[here],
        remote=(source, destination)[there],
        local_ports=ports[here],
        remote_ports=ports[there],
    )


def _to_service(
    service: tuple[str, str], rule: Rule, made: HnsRule, world: World, *, alone: bool
) -> Iterator[HnsRule]:
    """Yield a rule for each protocol and port of a Service.

    ``alone``: the other conditions of the policy's rule are ignored, which is a defect (XPOL-7).
    """
    source = () if alone else _addresses(rule.source, world)
    if source is None:
        return
    ports = () if alone else merged(rule.source.ports)
    yield from (
        replace(
            made,
            protocol=protocol,
            local=source,
            remote=addresses,
            local_ports=ports,
            remote_ports=((port, port),),
        )
        for protocol, port, addresses in _by_port(service, world)
        if alone or rule.protocol in {None, protocol}
    )


def _by_port(service: tuple[str, str], world: World) -> Iterator[tuple[int, int, Ranges]]:
    """Yield each protocol and port of a Service, with the addresses of its members there."""
    found: dict[tuple[int, int], set[int]] = {}
    for backend in _members_of(service, world):
        for there in backend.ports:
            found.setdefault(there, set()).update(backend.addresses)
    for (protocol, port), addresses in found.items():
        if ranges := _of_ipv4(addresses):
            yield protocol, port, ranges


def _members_of(service: tuple[str, str], world: World) -> Sequence[Backend]:
    """Return a Service's members, ready or not, as Felix uses them."""
    backends = world.backends_of(service)
    if backends is None:
        raise UsageProblem(f"the members of Service {'/'.join(service)} are not known")
    return backends


def _of_ipv4(addresses: Iterable[int]) -> Ranges:
    return merged((one, one) for one in addresses if one < IPV6)


def _addresses(peer: Peer, world: World) -> Ranges | None:
    """Return the addresses that an end of a rule may have: an empty list for any address, None for
    no address."""
    parts: list[Ranges] = []
    if peer.nets:
        parts.append(merged(one for one in peer.nets if one[0] < IPV6))
    if peer.choose:
        parts.append(merged(_chosen(peer, world)))
    if peer.service:
        members = _members_of(peer.service, world)
        parts.append(_of_ipv4(one for backend in members for one in backend.addresses))
    if not all(parts):
        return None
    found: Ranges = ()
    for part in parts:
        found = met(found, part)
        if not found:
            return None
    return found


def _chosen(peer: Peer, world: World) -> Iterator[Range]:
    """Yield the IPv4 addresses of the members that a peer's selectors select."""
    assert peer.choose is not None
    nowhere = set(world.without_address)
    members: list[Member] = [pod for name, pod in world.pods.items() if name not in nowhere]
    for member in [*members, *world.sets]:
        truth = peer.choose(member)
        if truth is None:
            raise UsageProblem(f"it is not known whether a selector selects {member}")
        if truth:
            held = member.nets if not isinstance(member, Pod) else _of_pod(member)
            yield from (one for one in held if one[0] < IPV6)


def _of_pod(pod: Pod) -> Iterator[Range]:
    yield from ((address, address) for address in (pod.address, pod.second) if address is not None)


def met(one: Ranges, other: Ranges) -> Ranges:
    """Return the intersection of two lists of ranges; an empty list means any value.

    Two lists without a common value also give an empty list: the caller must check this before.
    """
    if not one or not other:
        return one or other
    pairs = ((max(a, c), min(b, d)) for a, b in one for c, d in other)
    return merged((first, last) for first, last in pairs if first <= last)


# --- tiers, as a single list ---------------------------------------------------------------------


def _flattened(tiers: Sequence[Sequence[HnsRule]], combines: bool) -> list[HnsRule]:
    """Return the tiers as one list; traffic that the last tier passes is blocked.

    ``combines``: if a Pass rule and a rule after it have no common port, the result applies to any
    port, which is a defect (XPOL-6).
    """
    last = [replace(one, action="Block") if one.action == "Pass" else one for one in tiers[-1]]
    found, *behind = [*tiers[:-1], last]
    for tier in behind:
        found = [
            both
            for rule in found
            for both in (_behind(rule, tier, combines) if rule.action == "Pass" else (rule,))
        ]
    return list(found)


def _behind(passing: HnsRule, tier: Iterable[HnsRule], combines: bool) -> Iterator[HnsRule]:
    """Yield the rules of a tier, limited to the traffic that a Pass rule passes to the tier."""
    for rule in tier:
        protocols = {passing.protocol, rule.protocol} - {ANY_PROTOCOL}
        local = met(passing.local, rule.local)
        remote = met(passing.remote, rule.remote)
        is_local = bool(local) or not (passing.local and rule.local)
        is_remote = bool(remote) or not (passing.remote and rule.remote)
        if len(protocols) > 1 or not (is_local and is_remote):
            continue
        local_ports = _common_ports(passing, rule, passing.local_ports, rule.local_ports, combines)
        remote_ports = _common_ports(
            passing, rule, passing.remote_ports, rule.remote_ports, combines
        )
        if local_ports is not None and remote_ports is not None:
            yield replace(
                rule,
                protocol=next(iter(protocols), ANY_PROTOCOL),
                local=local,
                remote=remote,
                local_ports=local_ports,
                remote_ports=remote_ports,
            )


def _common_ports(
    passing: HnsRule, rule: HnsRule, one: Ranges, other: Ranges, combines: bool
) -> Ranges | None:
    """Return the ports that two rules have in common; None if there is none.

    With ``combines``, the result for two rules without a common port is any port. Raise FelixPanics
    for ports on which Felix ends.
    """
    common = met(one, other)
    if not combines:
        return common if common or not (one and other) else None
    length = max(_SMALLEST_BITSET, *(last + 1 for _, last in (*one, *other, (0, 0))))
    if one and other and common and common[-1][1] + 1 >= length:
        raise FelixPanics(
            f"Felix panics on {passing.policy}, {passing.where} and {rule.policy}, {rule.where}: "
            "their highest common port is the highest of both"
        )
    return common


def _addresses_text(ranges: Ranges) -> str:
    texts = [_range_text(IPv4Address(first), IPv4Address(last)) for first, last in ranges]
    more = f" and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
    return ",".join(texts[:SHOWN]) + more or "any"


def _range_text(first: IPv4Address, last: IPv4Address) -> str:
    """Return addresses as text; a range that is a network is written as a network."""
    found = list(summarize_address_range(first, last))
    return str(found[0]).removesuffix("/32") if len(found) == 1 else f"{first}-{last}"


def _ports_text(ports: Ranges) -> str:
    texts = (str(first) if first == last else f"{first}-{last}" for first, last in ports)
    return f":{','.join(texts)}" if ports else ""
