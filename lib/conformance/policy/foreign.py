# SPDX-License-Identifier: Apache-2.0
"""The possible effect of another owner's policy on a path, on the node that enforces it.

True: the policy certainly has the effect; False: it certainly does not; None: it may have the
effect. The answer is None if a part of the policy or of an end cannot be read, or if the ways in
which the node may enforce policies (its columns) give different answers.

The oracle evaluates each policy alone. Other policies of its tier could cancel the effect, but are
ignored: the result is then excused too often rather than too rarely. The policies in the next tiers
are assumed to be the run's own: a policy that closes, or opens, the remaining traffic.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from conformance.errors import UsageProblem
from conformance.policy.oracle import fields
from conformance.policy.oracle.admin import ADMIN
from conformance.policy.oracle.fields import Range
from conformance.policy.oracle.oracle import Decision, InForce, Verdict, Walk
from conformance.policy.oracle.policies import (
    DEFAULT_TIER,
    DIRECTIONS,
    LAST,
    TIER,
    Direction,
    Policy,
    Tier,
    policy_of,
)
from conformance.policy.oracle.rules import NOT_KNOWN, Packet, Peer, Rule
from conformance.policy.oracle.switches import PROMISE, Switch, Switches, subsets
from conformance.policy.oracle.world import Backend, Member, NetworkSet, World
from conformance.policy.truth import Truth, all_of

Observed = Literal["closed", "open"]

ECHO = (8, 0)
"""Type and code of ICMP's echo request, which ping sends."""
WANTED = {"closed": Verdict.DENIED, "open": Verdict.ALLOWED}
RUN = "a policy of the run"
BEHIND = {"closed": ("Deny", "Allow"), "open": ("Allow", "Deny")}
"""For each observation, the actions that the run's own policies are assumed to have: the action for
ports that the path does not have, then the action for all other traffic."""


@dataclass(frozen=True, kw_only=True)
class End:
    """An end of a path, as selectors match it."""

    member: Member | None = None
    """The pod or other member at this end. None: no pod has the end's address, or the address is
    not known."""
    address: int = NOT_KNOWN
    columns: tuple[Switches, ...] = (PROMISE,)
    """The ways in which the end's node may enforce policies: as documented, or as its release
    does."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """A path in one direction, from the viewpoint of the end that enforces the policy."""

    direction: Direction
    end: End
    """The end at which the policy is enforced."""
    other: End
    protocol: str = ""
    """``TCP``, ``UDP``, ``ICMP``; empty: not known."""
    ports: tuple[int, ...] = ()
    """The destination ports that a packet may have: a Service's and its backend's; empty: not
    known."""

    @property
    def packets(self) -> Iterator[Packet]:
        """Yield the first packet of a connection, once for each port that the packet may have."""
        protocol = fields.PROTOCOLS.get(self.protocol.lower(), NOT_KNOWN)
        ends = [self.other.address, self.end.address]
        source, destination = ends if self.direction == "ingress" else reversed(ends)
        if self.protocol == "ICMP":
            yield Packet(source, destination, protocol, icmp=ECHO)
            return
        yield from (
            Packet(source, destination, protocol, port, NOT_KNOWN)
            for port in self.ports or (NOT_KNOWN,)
        )


class Ends(World):
    """The world of a single path: its two ends, and the network sets that may hold their
    addresses."""

    def __init__(self, way: Way, policy: "ForeignPolicy") -> None:
        super().__init__(())
        self.sets = list(policy.sets)
        self.backends = dict(policy.services)
        self.way = way

    def members(self, address: int, *, of_destination: bool) -> Sequence[Member] | None:
        is_end = of_destination == (self.way.direction == "ingress")
        end = self.way.end if is_end else self.way.other
        if address == NOT_KNOWN and (end.member is None or self.sets):
            return None
        return [*([end.member] if end.member else []), *self.at(address)]

    def backends_of(self, service: tuple[str, str]) -> Sequence[Backend] | None:
        return self.backends.get(service)


@dataclass(frozen=True, kw_only=True)
class ForeignPolicy:
    """A policy, with its tier."""

    kind: str
    name: str
    namespace: str
    """The policy's namespace; empty: it is cluster-scoped."""
    api: str
    uid: str
    version: str
    """The resourceVersion: a policy with an equal version is unchanged."""
    spec: Mapping[str, Any]
    tier: Tier = TIER
    sets: tuple[NetworkSet, ...] = ()
    """Network sets of the cluster, if the policy's rules have selectors."""
    services: Mapping[tuple[str, str], list[Backend]] = field(default_factory=dict)
    """The members of the Services that the policy's rules name."""

    @property
    def label(self) -> str:
        """Return kind and name, ``NetworkPolicy demo/deny``. The tier is added unless it is the
        default tier."""
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        tier = "" if self.tier.name == DEFAULT_TIER else f" (tier {self.tier.name})"
        return f"{self.kind} {name}{tier}"

    @cached_property
    def policy(self) -> Policy:
        """Return the policy in the oracle's form; parts that cannot be read may select and decide
        anything."""
        if self.kind == "HostEndpoint":
            return self._anything(lambda member: member.namespace == self.namespace, ())
        meta = {"name": self.name, "namespace": self.namespace}
        obj = {"apiVersion": self.api, "kind": self.kind, "metadata": meta, "spec": self.spec}
        try:
            found = policy_of(obj, strict=False)
        except UsageProblem as problem:
            return self._anything(lambda member: None, (Rule("", RUN, unread=str(problem)),))
        assert found is not None
        return found

    def _anything(self, concerns: Any, rules: tuple[Rule, ...]) -> Policy:
        return Policy(self.label, self.tier.name, LAST, concerns, dict.fromkeys(DIRECTIONS, rules))

    def selects(self, end: End, direction: Direction) -> Truth:
        """Return whether the policy selects this end, in this direction."""
        if not any(self._is_there(direction, column) for column in end.columns):
            return False
        return self.policy.concerns(end.member) if end.member else None

    def could(self, way: Way, observed: Observed) -> Truth:
        """Return whether the policy could cause this result: closed by a Deny or by default, open
        by an Allow or by a Pass of the remaining traffic."""
        found = {self.gives(way, observed, column) for column in way.end.columns}
        return found.pop() if len(found) == 1 else None

    def explained(self, way: Way, observed: Observed) -> str:
        """Describe how the node of a path reads the policy differently from the documents; an empty
        string if it reads the policy as documented."""
        promised = self._effect(way, observed, PROMISE)
        for column in way.end.columns if not promised else ():
            effect = self._effect(way, observed, column)
            if effect is not False and effect is not promised:
                fewest = next(
                    some for some in subsets(column) if self._effect(way, observed, some) is effect
                )
                reasons = [self._reason(one, way.direction) for one in Switch if one in fewest]
                does = "deny" if observed == "closed" else "allow"
                return f"Windows reads this policy as {does}: {'; '.join(reasons)}"
        return ""

    def _reason(self, switch: Switch, direction: Direction) -> str:
        rules = self.policy.rules.get(direction, ())
        names = [name for rule in rules for name in rule.skipped_for.get(switch, ())]
        if not names:
            since = f" (from v{switch.since[0]}.{switch.since[1]} on)" if switch.since else ""
            return f"{switch.statement}{since}, {switch.claim}"
        if self.api.startswith("networking.k8s.io/") or "Kubernetes" in self.kind:
            names = ["except" if name == "notNets" else name for name in names]
        return f"it skips {', '.join(dict.fromkeys(names))}, {switch.claim}"

    def _is_there(self, direction: Direction, column: Switches) -> bool:
        """Return whether the policy is in force in a direction."""
        return direction in self.policy.rules and (
            not self.policy.staged or Switch.STAGED in column
        )

    def gives(self, way: Way, observed: Observed, column: Switches) -> Truth:
        """Return whether the policy could cause this result if the node enforces the policy as a
        column says."""
        selected = self.selects(way.end, way.direction)
        return (
            False if selected is False else all_of((self._effect(way, observed, column), selected))
        )

    def _effect(self, way: Way, observed: Observed, column: Switches) -> Truth:
        """Return whether the policy could cause this result in a column, provided it selects the
        end."""
        return self._is_there(way.direction, column) and self._given(way, observed, column)

    def _given(self, way: Way, observed: Observed, column: Switches) -> Truth:
        order = self._order(way, observed)
        found: list[Decision] = []
        for packet in way.packets:
            ends = Ends(way, self)
            for world in filter(None, (ends, ends.only_ready())):
                found += Walk(order, way.direction, packet, world, column).outcomes()
        if not any(one.verdict in (WANTED[observed], Verdict.NOT_SAID) for one in found):
            return False
        # if a policy of the run decides, the result depends on which policies the run has
        surely = all(one.verdict is WANTED[observed] and one.policy != RUN for one in found)
        return True if surely else None

    def _order(self, way: Way, observed: Observed) -> tuple[InForce, ...]:
        """Return the tiers that a path passes: the policy's own, and the run's policies if these
        decide the remaining traffic."""
        other, rest = BEHIND[observed]
        rules = [Rule(other, RUN, destination=Peer(ports=(port,))) for port in self._others(way)]
        every = {way.direction: (*rules, Rule(rest, RUN))}
        run = Policy(RUN, DEFAULT_TIER, LAST, lambda member: True, every)
        # the tiers that Calico makes for administrators' policies end with Pass
        tier = replace(self.tier, end="Pass") if self.kind in ADMIN else self.tier
        own = InForce(tier, ((self.policy,),))
        if self.tier.name == DEFAULT_TIER:
            return (InForce(tier, ((self.policy,), (run,))),) if observed == "open" else (own,)
        behind = InForce(TIER, ((run,),))
        if self.tier.order > TIER.order:
            return (behind, own) if observed == "open" else (own,)
        return (own, behind)

    def _others(self, way: Way) -> Iterator[Range]:
        """Yield, for each Pass rule with ports, a port that neither the rule nor the path has.

        A rule of the run for that port matters only if a release combines ports wrongly.
        """
        for rule in self.policy.rules[way.direction]:
            listed = rule.destination.ports if rule.action == "Pass" else ()
            for port in (port for first, last in listed for port in (first - 1, last + 1)):
                is_port = 0 < port < 65536 and port not in way.ports
                if is_port and not fields.within(port, listed):
                    yield port, port
                    break
