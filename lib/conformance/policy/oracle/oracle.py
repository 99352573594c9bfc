# SPDX-License-Identifier: Apache-2.0
"""The verdict on a packet at a pod under policies: allowed, denied, or undocumented, and the
deciding rule.

Objects in, verdicts out; no clock, no reads, no requests. The documented verdict ("the promise")
follows Calico's and Kubernetes' reference; the departures of Windows and of releases are switches
(``switches``).

Never judged, since undocumented: effects of the order of policies with equal order, of members of a
Service that are not ready, and of HTTP; packets that a pod sends to itself.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property, partial
from itertools import groupby

from conformance.policy.oracle.fields import Obj, Range
from conformance.policy.oracle.policies import (
    DEFAULT_TIER,
    LAST,
    Direction,
    Policy,
    Tier,
    policies,
    tiers,
)
from conformance.policy.oracle.rules import ACTIONS, NOT_KNOWN, Packet, Peer, Rule, within
from conformance.policy.oracle.switches import PROMISE, Minor, Switch, Switches, subsets
from conformance.policy.oracle.world import Pod, World
from conformance.policy.truth import Truth, all_of


class Verdict(Enum):
    """The result for a packet."""

    ALLOWED = "allowed"
    DENIED = "denied"
    NOT_SAID = "not said"
    NOT_JUDGED = "not judged"
    """A policy of a kind that the oracle does not read may decide the packet."""


@dataclass(frozen=True)
class Decision:
    """A verdict, and the rule or policy that decided it."""

    verdict: Verdict
    tier: str = ""
    policy: str = ""
    """The policy, ``NetworkPolicy shop/web``; empty: the end of the tier decided, or there is no
    policy."""
    rule: str = ""
    """``ingress rule 2``."""
    why: str = ""
    """Further explanation: the rules that passed the packet on, or why there is no verdict."""

    def __str__(self) -> str:
        decided = f"{self.policy}, {self.rule}, in tier {self.tier}" if self.rule else ""
        end = f"the end of tier {self.tier}" if self.tier else ""
        by = decided or (f"{self.policy} in tier {self.tier}" if self.policy else end)
        said = " ".join(
            part for part in (f"by {by}" if by else "", f"({self.why})" if self.why else "") if part
        )
        return f"{self.verdict.value} {said}".rstrip()


def of_way(ends: Iterable[Decision]) -> Verdict:
    """Return the verdict of a path: denied if either end denies. Otherwise, if an end has no
    verdict, the path has none."""
    verdicts = {decision.verdict for decision in ends}
    return next(
        one
        for one in (Verdict.DENIED, Verdict.NOT_JUDGED, Verdict.NOT_SAID, Verdict.ALLOWED)
        if one in verdicts
    )


@dataclass(frozen=True)
class InForce:
    """A tier with the policies that apply to a pod in a direction, in their order. Policies of
    equal order form a group."""

    tier: Tier
    groups: tuple[tuple[Policy, ...], ...]


Outcomes = dict[Verdict, Decision]
Ports = tuple[tuple[Range, ...] | None, tuple[Range, ...] | None]
"""The ports of source and destination; None: any."""
ANY_PORTS: Ports = (None, None)


class Oracle:
    """Computes the verdicts that some policies give in a world."""

    def __init__(self, world: World, objects: Iterable[Obj]) -> None:
        """Set up the oracle. ``objects``: policies and tiers; other objects are ignored. Raise
        UsageProblem for an object that cannot be read."""
        given = list(objects)
        self.world = world
        self.tiers = tiers(given)
        self.policies = policies(given)
        self._in_force: dict[tuple[Pod, Direction, bool, Minor | None], tuple[InForce, ...]] = {}

    @property
    def without_tier(self) -> dict[str, str]:
        """Return the policies whose tier no object describes, each with its tier. Such a tier is
        assumed to be the last, with Deny at its end."""
        return {
            policy.label: policy.tier for policy in self.policies if policy.tier not in self.tiers
        }

    def verdict(
        self,
        pod: Pod,
        direction: Direction,
        packet: Packet,
        switches: Switches = PROMISE,
        release: Minor | None = None,
    ) -> Verdict:
        """Return the verdict on a packet at the pod, which is its source or its destination."""
        return self.explain(pod, direction, packet, switches, release).verdict

    def explain(
        self,
        pod: Pod,
        direction: Direction,
        packet: Packet,
        switches: Switches = PROMISE,
        release: Minor | None = None,
    ) -> Decision:
        """Return the verdict, with the tier, policy and rule that decided.

        ``release``: the release of Calico; it orders policies of equal order, and decides which
        kinds are read.
        """
        if packet.source == packet.destination:
            return Decision(Verdict.NOT_SAID, why="a pod that sends to itself")
        if direction == "ingress" and packet.source in self.world.hosts.get(pod.node, ()):
            return Decision(Verdict.ALLOWED, why="a node reaches its own pods")
        if packet.family == 6 and switches:
            return Decision(Verdict.NOT_SAID, why="Calico for Windows does not support IPv6")
        order = self.in_force(pod, direction, switches, release)
        if not order:
            return Decision(Verdict.ALLOWED, why="no policy")
        found = Walk(order, direction, packet, self.world, switches).decided()
        if found.verdict is not Verdict.NOT_SAID and self._ready_only is not None:
            other = Walk(order, direction, packet, self._ready_only, switches).decided()
            if other.verdict is not found.verdict:
                return replace(
                    found, verdict=Verdict.NOT_SAID, why="members of a Service that are not ready"
                )
        return found

    def departures(
        self,
        pod: Pod,
        direction: Direction,
        packet: Packet,
        switches: Switches,
        release: Minor | None = None,
    ) -> Switches:
        """Return the smallest set of switches that gives the same verdict as all switches; empty:
        the documented verdict is the same."""
        asked = partial(self.verdict, pod, direction, packet, release=release)
        wanted = asked(switches)
        return next(some for some in subsets(switches) if asked(some) is wanted)

    def in_force(
        self,
        pod: Pod,
        direction: Direction,
        switches: Switches = PROMISE,
        release: Minor | None = None,
    ) -> tuple[InForce, ...]:
        """Return the tiers with a policy that applies to this pod and direction, in order."""
        key = (pod, direction, Switch.STAGED in switches, release)
        if key not in self._in_force:
            self._in_force[key] = tuple(self._ordered(*key))
        return self._in_force[key]

    def _ordered(
        self, pod: Pod, direction: Direction, staged: bool, release: Minor | None
    ) -> Iterator[InForce]:
        mine: dict[str, list[Policy]] = {}
        for policy in self.policies:
            is_there = (staged or not policy.staged) and direction in policy.rules
            is_read = release is None or policy.is_read_by(release)
            if is_there and is_read and policy.concerns(pod):
                mine.setdefault(policy.tier, []).append(policy)
        there = (self.tiers.get(name) or Tier(name, LAST, "Deny") for name in mine)
        for tier in sorted(
            there, key=lambda tier: (tier.name not in self.tiers, tier.order, tier.name)
        ):
            yield InForce(tier, _grouped(mine[tier.name], release))

    @cached_property
    def _ready_only(self) -> World | None:
        """Return the world with only ready members of Services; None if no rule names a Service, or
        every member is ready, so the verdicts are the same."""
        every = (
            rule for policy in self.policies for listed in policy.rules.values() for rule in listed
        )
        of_services = any(
            peer.service for rule in every for peer in (rule.source, rule.destination)
        )
        return self.world.only_ready() if of_services else None


def _grouped(policies: Iterable[Policy], release: Minor | None) -> tuple[tuple[Policy, ...], ...]:
    """Return policies in their order, in groups. The order within a group is unknown."""

    def key(policy: Policy) -> tuple[float, str]:
        return policy.order, policy.tie(release) if release else ""

    return tuple(tuple(same) for _, same in groupby(sorted(policies, key=key), key))


class Walk:
    """The evaluation of a packet in the tiers of a pod."""

    def __init__(
        self,
        order: tuple[InForce, ...],
        direction: Direction,
        packet: Packet,
        world: World,
        switches: Switches,
    ) -> None:
        self.order = order
        self.direction = direction
        self.packet = packet
        self.world = world
        self.switches = switches
        self.combines = Switch.COMBINED_PORTS in switches
        self.last_is_denied = Switch.LAST_PASS in switches and any(
            one.tier.name == DEFAULT_TIER for one in order
        )

    def decided(self) -> Decision:
        found = self.outcomes()
        if len(found) == 1:
            return found[0]
        said = " or ".join(one.policy or f"the end of tier {one.tier}" for one in found)
        why = self._unknown_service() or f"{said}: these have the same order"
        return replace(found[0], verdict=Verdict.NOT_SAID, rule="", policy="", why=why)

    def _unknown_service(self) -> str:
        """Return the message that names a Service in the rules with unknown members; an empty
        string if all members are known."""
        peers = (
            peer
            for one in self.order
            for group in one.groups
            for policy in group
            for rule in policy.rules[self.direction]
            for peer in (rule.source, rule.destination)
        )
        unknown = [
            "/".join(peer.service)
            for peer in peers
            if peer.service and self.world.backends_of(peer.service) is None
        ]
        return f"the members of Service {unknown[0]} are not known" if unknown else ""

    def outcomes(self) -> list[Decision]:
        """Return the possible decisions about the packet, one for each verdict: several if policies
        of equal order differ, or if a part cannot be read."""
        return list(self._tier(0, ANY_PORTS, ()).values())

    def _tier(self, place: int, ports: Ports, passed: tuple[str, ...]) -> Outcomes:
        """Return the possible outcomes from this tier on; none if the packet does not have these
        ports.

        ``ports``: the ports of the Pass rules that led here; they matter only if ports are combined
        wrongly.
        """
        found: Outcomes = {}
        for group in self.order[place].groups:
            # each policy of a group may come first, so each is evaluated
            decided = [self._policy(policy, place, ports, passed, found) for policy in group]
            if any(decided):
                return found
        self._met(self.order[place].tier.end, place, ports, passed, found=found)
        return found

    def _policy(
        self,
        policy: Policy,
        place: int,
        ports: Ports,
        passed: tuple[str, ...],
        found: Outcomes,
    ) -> bool:
        """Add the result of the first matching rule; return whether a rule certainly matches."""
        if policy.staged:
            staged = (*passed, f"{policy.label} is staged and ends its tier")
            return self._met(self.order[place].tier.end, place, ports, staged, found=found)
        asked = (
            (rule, about, met)
            for rule in policy.rules[self.direction]
            if not rule.is_skipped(self.switches)
            for about, met in self._alternatives(rule, ports)
            if about is not False
        )
        for rule, about, met in asked:
            by = (policy.label, rule.where)
            outcomes: Outcomes = {}
            decides = [
                self._met(action, place, met, passed, found=outcomes, by=by)
                for action in ([rule.action] if rule.action else ACTIONS)
            ]
            if outcomes and rule.http:
                tier = self.order[place].tier.name
                outcomes = {Verdict.NOT_SAID: Decision(Verdict.NOT_SAID, tier, *by, "HTTP")}
            found.update(
                {verdict: one for verdict, one in outcomes.items() if verdict not in found}
            )
            if about and any(decides):
                return True
        return False

    def _alternatives(self, rule: Rule, ports: Ports) -> Iterator[tuple[Truth, Ports]]:
        """Yield whether a rule matches the packet, and the remaining ports. For a rule to a
        Service, yield them once for each port, since Windows has an entry for each port."""
        packet = self.packet
        service = rule.destination.service if self.combines else None
        is_known = NOT_KNOWN not in (packet.port, packet.protocol)
        backends = self.world.backends_of(service) if service and is_known else None
        if backends is None:
            yield self._ports(rule, ports)
            return
        is_alone = Switch.SERVICE_ALONE in self.switches
        sources = ports[0] if is_alone else _combined(ports[0], rule.source)
        there = (one.ports for one in backends if packet.destination in one.addresses)
        for protocol, port in sorted(frozenset().union(*there)):
            if protocol == packet.protocol:
                asked = replace(packet, port=port)
                about = rule.about(asked, self.world, self.switches, ports=False)
                yield about, (sources, _combined(ports[1], Peer(ports=((port, port),))))

    def _ports(self, rule: Rule, ports: Ports) -> tuple[Truth, Ports]:
        """Return whether a rule matches the packet, and the remaining ports."""
        numbered = not any(
            peer.named or peer.not_ports or peer.not_named
            for peer in (rule.source, rule.destination)
        )
        if not self.combines or not numbered:
            return rule.about(self.packet, self.world, self.switches), ports
        about = rule.about(self.packet, self.world, self.switches, ports=False)
        return about, (_combined(ports[0], rule.source), _combined(ports[1], rule.destination))

    def _within(self, ports: Ports) -> Truth:
        numbers = (self.packet.source_port, self.packet.port)
        return all_of(
            listed is None or within(number, listed)
            for number, listed in zip(numbers, ports, strict=True)
        )

    def _met(
        self,
        action: str,
        place: int,
        ports: Ports,
        passed: tuple[str, ...],
        *,
        found: Outcomes,
        by: tuple[str, str] = ("", ""),
    ) -> bool:
        """Add the result of an action on the packet; return whether the action certainly applies.

        ``by``: policy and rule; empty if the end of the tier acts.
        """
        tier = self.order[place].tier.name
        if action == "Pass" and place + 1 < len(self.order):
            text = f"passed by {', '.join(filter(None, by)) or f'tier {tier}'}"
            behind = self._tier(place + 1, ports, (*passed, text))
            found.update({verdict: one for verdict, one in behind.items() if verdict not in found})
            return bool(behind)
        inside = self._within(ports)
        if inside is False:
            return False
        if action == "Pass":
            passed = (*passed, "the last tier passes the packet")
        allowed = action == "Allow" or (action == "Pass" and not self.last_is_denied)
        verdict = Verdict.ALLOWED if allowed else Verdict.DENIED
        found.setdefault(verdict, Decision(verdict, tier, *by, "; ".join(passed)))
        return bool(inside)


def _combined(behind: tuple[Range, ...] | None, peer: Peer) -> tuple[Range, ...] | None:
    """Return the ports of Pass rules combined with those of the next rule, as on Windows."""
    if behind is None or not peer.ports:
        return behind or peer.ports or None
    met = [
        (max(a, c), min(b, d)) for a, b in behind for c, d in peer.ports if max(a, c) <= min(b, d)
    ]
    return tuple(met) or None  # without a common port: any port, which is the defect
