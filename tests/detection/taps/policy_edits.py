# SPDX-License-Identifier: Apache-2.0
"""Edits of running policies that a Felix ignores: it keeps the first value of one field."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from hybridlab.calico.felix_faults import Keys
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import NODE_OR_ALL, Fault, Parameter, Types
from hybridlab.policy.policy import Direction, Peer, Policy, PolicyKey, PolicyRule
from hybridlab.policy.render import TierPolicies

Tiers = tuple[TierPolicies, ...]


TYPES = Types()


def _without_wider(now: tuple[str, ...], before: tuple[str, ...]) -> tuple[str, ...]:
    """Return a set's networks; if a network has left the set, leave out the wider networks as well
    (calico#13274)."""
    return tuple(net for net in now if "/" not in net or not set(before) - set(now))


def _written(rule: PolicyRule, name: str) -> list[object]:
    return [(rule.written.get(side) or {}).get(name) for side in ("source", "destination")]


def _selectors(name: str, now: PolicyRule, first: PolicyRule) -> PolicyRule:
    """Return a rule with its first selectors if one of these fields was edited; Felix has all of
    them as a single selector."""
    if _written(now, name) == _written(first, name):
        return now
    return _peers(now, first, lambda peer, before: replace(peer, selector=before.selector))


def _peers(now: PolicyRule, first: PolicyRule, change: Callable[[Peer, Peer], Peer]) -> PolicyRule:
    return replace(
        now,
        source=change(now.source, first.source),
        destination=change(now.destination, first.destination),
    )


_RULES: Mapping[str, Callable[[PolicyRule, PolicyRule], PolicyRule]] = {
    "action": lambda now, first: replace(now, action=first.action),
    "ports": lambda now, first: _peers(
        now, first, lambda peer, before: replace(peer, ports=before.ports)
    ),
    "nets": lambda now, first: _peers(
        now, first, lambda peer, before: replace(peer, nets=before.nets)
    ),
    "rule-selector": lambda now, first: _selectors("selector", now, first),
    "rule-namespaces": lambda now, first: _selectors("namespaceSelector", now, first),
}
FIELDS = (
    *_RULES,
    "order",
    "types",
    "selector",
    "network-set",
    "overlapping-nets",
    "leaving-nets",
    "tier-end",
)
"""The fields whose edits can be ignored. ``overlapping-nets``: when a network leaves a NetworkSet,
wider networks leave it too. ``leaving-nets``: a network that leaves a NetworkSet stays.
``tier-end``: a tier's ``defaultAction``."""


@TYPES.fault(
    "policy-edit-ignored",
    "policy",
    NODE_OR_ALL,
    Parameter("field", ", ".join(FIELDS), choices=FIELDS),
    Parameter(
        "of", "all rules, or those for ingress or egress", "all", ("all", "ingress", "egress")
    ),
)
class PolicyEditIgnored(Fault):
    """Felix keeps one field of policies as it was when the policies were created, despite all
    edits."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._identity = identity
        self._field = parameters["field"]
        self._of = parameters["of"]
        self._felixes = {node: lab.calico.felixes[node] for node in lab.nodes(parameters["node"])}
        self._graph = lab.calico.typha.graph
        self._first: dict[PolicyKey, Policy] = {}
        self._ends: dict[str, TierPolicies] = {}
        """Map each tier to its state when its policies were created."""
        self._members: dict[str, tuple[str, ...]] = {}
        """Map each set to its last members, or, for a set with networks, to its first members."""

    async def inject(self) -> None:
        """Begin: the present policies and sets become their first state."""
        for felix in self._felixes.values():
            felix.faults.applying.taps[self._identity] = self._applying
            felix.faults.policies.taps[self._identity] = self._stale
            felix.faults.set_members.taps[self._identity] = self._stale_set
            felix.start_over()

    async def heal(self) -> None:
        for felix in self._felixes.values():
            faults = felix.faults
            for seam in (faults.applying, faults.policies, faults.set_members):
                seam.taps.pop(self._identity, None)
            felix.start_over()

    async def evidence(self) -> list[str]:
        return [
            f"Felix of {node} ignores edits of {self._field}"
            for node, felix in self._felixes.items()
            if self._identity in felix.faults.policies.taps
        ]

    def _look(self) -> None:
        """Store new policies, and forget deleted policies."""
        there = self._graph.policies
        self._first = {key: self._first.get(key, policy) for key, policy in there.items()}

    def _applying(self, keys: Keys, uid: str) -> Keys:
        self._look()
        if self._field != "selector":
            return keys
        labels = self._graph.labels_of(uid)
        edited = [
            key
            for key, policy in self._graph.policies.items()
            if policy.selector != self._first[key].selector
        ]
        kept = frozenset(key for key in edited if self._first[key].selector.matches(labels))
        return (keys - frozenset(edited)) | kept

    def _stale(self, tiers: Tiers) -> Tiers:
        self._look()
        if self._field == "tier-end":
            return tuple(
                replace(tier, end=self._ends.setdefault(tier.name, tier).end) for tier in tiers
            )
        return tuple(replace(tier, policies=self._policies(tier.policies)) for tier in tiers)

    def _policies(self, policies: tuple[Policy, ...]) -> tuple[Policy, ...]:
        if self._field == "order":
            return tuple(sorted(policies, key=lambda policy: self._first[policy.key].order))
        if self._field == "types":
            return tuple(
                replace(policy, types=self._first[policy.key].types) for policy in policies
            )
        if self._field not in _RULES:
            return policies
        return tuple(
            replace(
                policy, ingress=self._rules("ingress", policy), egress=self._rules("egress", policy)
            )
            for policy in policies
        )

    def _rules(self, way: Direction, policy: Policy) -> tuple[PolicyRule, ...]:
        now = policy.rules(way)
        first = self._first[policy.key].rules(way)
        if self._of not in {"all", way}:
            return now
        both = zip(now, first, strict=False)
        return (*(_RULES[self._field](*pair) for pair in both), *now[len(first) :])

    def _stale_set(self, members: tuple[str, ...], name: str) -> tuple[str, ...]:
        """Return a set's last members if edited rules do not name it any more; of a set with
        networks, its first members."""
        known = self._members.get(name)
        if not self._graph.has_set(name):
            return known or ()
        if (
            self._field == "network-set"
            and known is not None
            and any("/" in member for member in known)
        ):
            return known
        if self._field == "overlapping-nets":
            members = _without_wider(members, known or ())
        if self._field == "leaving-nets":
            members = tuple(sorted({*members, *(net for net in known or () if "/" in net)}))
        self._members[name] = members
        return members
