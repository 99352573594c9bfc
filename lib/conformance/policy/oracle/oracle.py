# SPDX-License-Identifier: Apache-2.0
"""What becomes of a packet at a pod under policies: allowed, denied, or not said by any document, and by which rule.

Objects in, verdicts out; no clock, nothing read or asked.  The promise is Calico's and Kubernetes' reference; what
Windows and its releases make of it are switches (``switches``).  Not said, and never to be judged: what depends on the
order of policies that say the same order, on members of a Service that are not ready, on HTTP, and what a pod sends to
itself.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from itertools import combinations, groupby

from conformance.policy.oracle import fields
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
from conformance.policy.oracle.rules import Packet, Peer, Rule
from conformance.policy.oracle.switches import PROMISE, Switch, Switches
from conformance.policy.oracle.world import Pod, World


class Verdict(Enum):
    """What becomes of a packet."""

    ALLOWED = "allowed"
    DENIED = "denied"
    NOT_SAID = "not said"


@dataclass(frozen=True)
class Decision:
    """A verdict, and what decided it."""

    verdict: Verdict
    tier: str = ""
    policy: str = ""
    """``NetworkPolicy shop/web``; empty: the end of the tier, or no policy at all."""
    rule: str = ""
    """``ingress rule 2``."""
    why: str = ""
    """What else there is to say: which rules passed the packet on, or why nothing is said."""

    def __str__(self) -> str:
        decided = f"{self.policy}, {self.rule}, in tier {self.tier}" if self.rule else ""
        end = f"the end of tier {self.tier}" if self.tier else ""
        by = decided or (f"{self.policy} in tier {self.tier}" if self.policy else end)
        said = " ".join(
            part for part in (f"by {by}" if by else "", f"({self.why})" if self.why else "") if part
        )
        return f"{self.verdict.value} {said}".rstrip()


def of_way(ends: Iterable[Decision]) -> Verdict:
    """Of a way between two ends: denied where either denies, and not said where the other does not settle it."""
    verdicts = {decision.verdict for decision in ends}
    return next(
        one for one in (Verdict.DENIED, Verdict.NOT_SAID, Verdict.ALLOWED) if one in verdicts
    )


@dataclass(frozen=True)
class InForce:
    """A tier with the policies that concern a pod in a direction, in their order; together: those of the same order."""

    tier: Tier
    groups: tuple[tuple[Policy, ...], ...]


Ports = tuple[tuple[Range, ...] | None, tuple[Range, ...] | None]
"""Source's and destination's ports; None: any."""
ANY_PORTS: Ports = (None, None)


class Oracle:
    """Verdicts of some policies in a world."""

    def __init__(self, world: World, objects: Iterable[Obj]) -> None:
        """``objects``: policies and tiers; others are passed over.  Raises UsageProblem for what cannot be read."""
        given = list(objects)
        self.world = world
        self.tiers = tiers(given)
        self.policies = policies(given)
        self._in_force: dict[tuple[Pod, Direction, bool], tuple[InForce, ...]] = {}

    @property
    def without_tier(self) -> dict[str, str]:
        """Policies whose tier no object describes, each with its tier: taken to be the last, with Deny at its end."""
        return {
            policy.label: policy.tier for policy in self.policies if policy.tier not in self.tiers
        }

    def verdict(
        self, pod: Pod, direction: Direction, packet: Packet, switches: Switches = PROMISE
    ) -> Verdict:
        """What becomes of a packet at the pod, which is one of its ends."""
        return self.explain(pod, direction, packet, switches).verdict

    def explain(
        self, pod: Pod, direction: Direction, packet: Packet, switches: Switches = PROMISE
    ) -> Decision:
        """The verdict, with tier, policy and rule that decided."""
        if packet.source == packet.destination:
            return Decision(Verdict.NOT_SAID, why="a pod that sends to itself")
        if direction == "ingress" and packet.source in self.world.hosts.get(pod.node, ()):
            return Decision(Verdict.ALLOWED, why="a node reaches its own pods")
        order = self.in_force(pod, direction, switches)
        if not order:
            return Decision(Verdict.ALLOWED, why="no policy")
        found = _Walk(order, direction, packet, self.world, switches).decided()
        if found.verdict is not Verdict.NOT_SAID and self._ready_only is not None:
            other = _Walk(order, direction, packet, self._ready_only, switches).decided()
            if other.verdict is not found.verdict:
                return replace(
                    found, verdict=Verdict.NOT_SAID, why="members of a Service that are not ready"
                )
        return found

    def departures(
        self, pod: Pod, direction: Direction, packet: Packet, switches: Switches
    ) -> Switches:
        """The fewest of the switches that give the verdict that all of them give; none: it is the promise's."""
        wanted = self.verdict(pod, direction, packet, switches)
        ordered = sorted(switches, key=list(Switch).index)
        for size in range(len(ordered)):
            for some in combinations(ordered, size):
                if self.verdict(pod, direction, packet, frozenset(some)) is wanted:
                    return frozenset(some)
        return switches

    def in_force(
        self, pod: Pod, direction: Direction, switches: Switches = PROMISE
    ) -> tuple[InForce, ...]:
        """The tiers that are asked, in their order: those with a policy that concerns the pod in that direction."""
        key = (pod, direction, Switch.STAGED in switches)
        if key not in self._in_force:
            self._in_force[key] = tuple(self._ordered(*key))
        return self._in_force[key]

    def _ordered(self, pod: Pod, direction: Direction, staged: bool) -> Iterator[InForce]:
        mine: dict[str, list[Policy]] = {}
        for policy in self.policies:
            if (staged or not policy.staged) and direction in policy.rules and policy.concerns(pod):
                mine.setdefault(policy.tier, []).append(policy)
        there = (self.tiers.get(name) or Tier(name, LAST, "Deny") for name in mine)
        for tier in sorted(
            there, key=lambda tier: (tier.name not in self.tiers, tier.order, tier.name)
        ):
            by_order = sorted(mine[tier.name], key=lambda policy: policy.order)
            yield InForce(
                tier,
                tuple(tuple(same) for _, same in groupby(by_order, lambda policy: policy.order)),
            )

    @cached_property
    def _ready_only(self) -> World | None:
        """The world without members of Services that are not ready, where they could matter."""
        every = (
            rule for policy in self.policies for listed in policy.rules.values() for rule in listed
        )
        of_services = any(
            peer.service for rule in every for peer in (rule.source, rule.destination)
        )
        return self.world.only_ready() if of_services else None


class _Walk:
    """One packet's way through the tiers of a pod."""

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
        found = self._tier(0, ANY_PORTS, ())
        if len(found) == 1:
            return found[0]
        said = " or ".join(one.policy or f"the end of tier {one.tier}" for one in found)
        return replace(
            found[0], verdict=Verdict.NOT_SAID, rule="", policy="", why=f"{said}: of the same order"
        )

    def _tier(self, place: int, ports: Ports, passed: tuple[str, ...]) -> list[Decision]:
        """What can become of it from this tier on, one decision for each verdict; none: its ports are not these.

        ``ports``: those of the Pass rules that led here, which matter only where ports combine wrongly.
        """
        tier = self.order[place].tier
        groups = self.order[place].groups
        for group in groups:
            found: dict[Verdict, Decision] = {}
            for policy in group:
                for decision in self._policy(policy, place, ports, passed):
                    found.setdefault(decision.verdict, decision)
            if found:
                return list(found.values())
        return self._met(tier.end, place, ports, passed)

    def _policy(
        self, policy: Policy, place: int, ports: Ports, passed: tuple[str, ...]
    ) -> list[Decision]:
        """What its first rule that is about the packet makes of it; none: no rule is."""
        if policy.staged:
            staged = (*passed, f"{policy.label} is staged and ends its tier")
            return self._met(self.order[place].tier.end, place, ports, staged)
        for rule in policy.rules[self.direction]:
            if not rule.left_out_by.isdisjoint(self.switches):
                continue
            met = self._ports(rule, ports)
            if met is None:
                continue
            found = self._met(rule.action, place, met, passed, (policy.label, rule.where))
            if found and rule.http:
                return [
                    Decision(
                        Verdict.NOT_SAID,
                        self.order[place].tier.name,
                        policy.label,
                        rule.where,
                        "HTTP",
                    )
                ]
            if found:
                return found
        return []

    def _ports(self, rule: Rule, ports: Ports) -> Ports | None:
        """The ports that are left when a rule is about the packet; None: it is not."""
        numbered = not any(
            peer.named or peer.not_ports or peer.not_named
            for peer in (rule.source, rule.destination)
        )
        if not self.combines or not numbered:
            return ports if rule.about(self.packet, self.world, self.switches) else None
        if not rule.about(self.packet, self.world, self.switches, ports=False):
            return None
        return _combined(ports[0], rule.source), _combined(ports[1], rule.destination)

    def _within(self, ports: Ports) -> bool:
        source, destination = ports
        return (source is None or fields.within(self.packet.source_port, source)) and (
            destination is None or fields.within(self.packet.port, destination)
        )

    def _met(
        self,
        action: str,
        place: int,
        ports: Ports,
        passed: tuple[str, ...],
        by: tuple[str, str] = ("", ""),
    ) -> list[Decision]:
        """What an action makes of the packet; ``by``: policy and rule, empty where the end of the tier acts."""
        tier = self.order[place].tier.name
        if action == "Pass" and place + 1 < len(self.order):
            return self._tier(
                place + 1,
                ports,
                (*passed, f"passed by {', '.join(filter(None, by)) or f'tier {tier}'}"),
            )
        if not self._within(ports):
            return []
        if action == "Pass":
            passed = (*passed, "the last tier passes it")
        allowed = action == "Allow" or (action == "Pass" and not self.last_is_denied)
        verdict = Verdict.ALLOWED if allowed else Verdict.DENIED
        return [Decision(verdict, tier, *by, "; ".join(passed))]


def _combined(behind: tuple[Range, ...] | None, peer: Peer) -> tuple[Range, ...] | None:
    """Ports of Pass rules together with those of the rule behind them, as Felix on Windows combines them."""
    if behind is None or not peer.ports:
        return behind or peer.ports or None
    met = [
        (max(a, c), min(b, d)) for a, b in behind for c, d in peer.ports if max(a, c) <= min(b, d)
    ]
    return tuple(met) or None  # none in common: any port, which is the defect
