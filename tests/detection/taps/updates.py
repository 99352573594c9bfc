# SPDX-License-Identifier: Apache-2.0
"""Taps at the updates that Typha receives: policies that are read wrongly, and updates that are
lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.calico.typha import Updates
from hybridlab.faults.lab_parts import LabParts
from hybridlab.policy.ipsets import NetworkSet
from hybridlab.policy.objects import slice_members
from hybridlab.policy.policy import Peer, Policy, PolicyRule, from_spec
from hybridlab.policy.resolve import Graph, TierFacts
from hybridlab.policy.selectors import All, And, Has, In, Not, Or, Selector, parse
from tests.detection.taps.seams import Policies, Put, on_facts, on_policies, on_updates
from tests.detection.taps.words import RUN, Written

SLICES = "endpointslices.discovery.k8s.io"


def written(way: Callable[[Written, str], Written]) -> Put:
    """Let Felix read a policy as if it were written otherwise: ``way`` changes its spec."""

    def change(_: Graph, obj: Obj, policy: Policy) -> Policy:
        return from_spec(policy.key, way(policy.spec, policy.key.namespace), policy.types)

    return on_facts(change, Policy)


def of_namesakes(_: Graph, obj: Obj, policy: Policy) -> Policy:
    """Let a policy of the run also select pods of other namespaces with the labels that it
    selects."""
    reaches = policy.key.namespace.startswith(RUN) and policy.spec.get("selector")
    return replace(policy, selector=parse(policy.spec["selector"])) if reaches else policy


def read_selectors(change: Callable[[Selector], Selector]) -> Put:
    """Change the selectors of policies and of their rules."""

    def peer(one: Peer) -> Peer:
        return replace(
            one,
            selector=one.selector and change(one.selector),
            not_selector=one.not_selector and change(one.not_selector),
        )

    def rules(several: tuple[PolicyRule, ...]) -> tuple[PolicyRule, ...]:
        return tuple(
            replace(rule, source=peer(rule.source), destination=peer(rule.destination))
            for rule in several
        )

    def policy(_: Graph, obj: Obj, one: Policy) -> Policy:
        return replace(
            one,
            selector=change(one.selector),
            ingress=rules(one.ingress),
            egress=rules(one.egress),
        )

    return on_facts(policy, Policy)


def without_negations(selector: Selector) -> Selector:
    """Return a selector in which every negation matches everything."""
    if isinstance(selector, Not) or (isinstance(selector, In) and selector.negated):
        return All()
    if isinstance(selector, And | Or):
        return type(selector)(tuple(map(without_negations, selector.operands)))
    return selector


def with_labels_there(selector: Selector) -> Selector:
    """Return a selector in which a label that must not have a value must exist."""
    if isinstance(selector, In) and selector.negated:
        return And((selector, Has(selector.label)))
    if isinstance(selector, Not):
        return Not(with_labels_there(selector.operand))
    if isinstance(selector, And | Or):
        return type(selector)(tuple(map(with_labels_there, selector.operands)))
    return selector


def namespace_labels_stay(lab: LabParts) -> None:
    """Let Felix know only the first labels of each namespace."""
    known: set[str] = set()

    def tap(updates: Updates, resource: str) -> Updates:
        if resource != "namespaces":
            return updates
        heard = [
            (obj, labels)
            for obj, labels in updates
            if labels is None or obj["metadata"]["name"] not in known
        ]
        for obj, labels in heard:
            (known.discard if labels is None else known.add)(obj["metadata"]["name"])
        return heard

    on_updates(lab, tap)


def namesakes_collide(graph: Graph, there: Policies, obj: Obj, policy: Policy) -> Updates:
    """Let a policy replace a policy of the same name in another namespace."""
    own = policy.key
    rivals = [
        key
        for key in graph.policies
        if (key.name, key.kind) == (own.name, own.kind) and key.namespace != own.namespace
    ]
    return [*there.without(rivals), (obj, policy)]


def long_names_lost(_: Graph, obj: Obj, policy: Policy) -> Policy | None:
    """Lose a policy whose name is longer than a label's value may be."""
    return policy if len(policy.key.name.rpartition(".")[2]) <= 63 else None


def kinds_collide(graph: Graph, there: Policies, obj: Obj, policy: Policy) -> Updates:
    """Let a policy and a policy of another kind with the same name and namespace replace each
    other: one of them stays, in whatever order they were created."""
    own = policy.key
    rivals = [
        key for key in graph.policies if (key.name, key.namespace) == (own.name, own.namespace)
    ]
    if any(key.kind > own.kind for key in rivals):
        return []
    return [*there.without(rivals), (obj, policy)]


def tiers_by_name(_: Graph, obj: Obj, tier: TierFacts) -> TierFacts:
    """Order a run's tiers by their names instead of their orders."""
    ours = tier.name.startswith(RUN)
    return replace(tier, order=float(sum(map(ord, tier.name[-3:])))) if ours else tier


def first_fact(kind: type, keep: Callable[[Any, Any], Any]) -> Put:
    """Let Felix know only the first state of edited objects: ``keep`` takes the present fact and
    the first fact."""

    def put_it(lab: LabParts) -> None:
        first: dict[str, Any] = {}

        def change(_: Graph, obj: Obj, fact: Any) -> Any:
            return keep(fact, first.setdefault(obj["metadata"]["uid"], fact))

        on_facts(change, kind)(lab)

    return put_it


def first_labels(now: NetworkSet, first: NetworkSet) -> NetworkSet:
    """Return a NetworkSet with its first labels."""
    return replace(now, labels=first.labels)


def edits_ignored(graph: Graph, obj: Obj, policy: Policy) -> Policy | None:
    """Ignore all edits of a Kubernetes policy."""
    known = policy.key in graph.policies and policy.key.kind == "KubernetesNetworkPolicy"
    return None if known else policy


def removals_take_all(lab: LabParts) -> None:
    """When a policy is deleted, delete all other policies of its namespace as well."""
    there = Policies()

    def tap(updates: Updates, _: str) -> Updates:
        made: list[tuple[Obj, Any]] = []
        for obj, fact in updates:
            key = there.key_of(obj) if fact is None else None
            if key is None:
                made += there.take([(obj, fact)])
                continue
            policies = lab.calico.typha.graph.policies
            made += there.without([other for other in policies if other.namespace == key.namespace])
        return made

    on_updates(lab, tap)


def ready_backends_alone(lab: LabParts) -> None:
    """Limit a rule that names a Service to the Service's ready backends."""

    def ready(obj: Obj) -> Obj:
        endpoints = [
            one
            for one in obj.get("endpoints") or ()
            if (one.get("conditions") or {}).get("ready") is not False
        ]
        return {**obj, "endpoints": endpoints}

    def tap(updates: Updates, resource: str) -> Updates:
        if resource != SLICES:
            return updates
        return [(obj, fact if fact is None else slice_members(ready(obj))) for obj, fact in updates]

    on_updates(lab, tap)


PUTS: dict[str, Put] = {
    "written of-namesakes": on_facts(of_namesakes, Policy),
    "updates namespace-labels-stay": namespace_labels_stay,
    "updates namesakes-collide": on_policies(namesakes_collide),
    "updates long-names-lost": on_facts(long_names_lost, Policy),
    "updates kinds-collide": on_policies(kinds_collide),
    "updates tiers-by-name": on_facts(tiers_by_name, TierFacts),
    "updates edits-of-tiers-ignored": first_fact(TierFacts, lambda now, first: first),
    "updates labels-of-sets-stay": first_fact(NetworkSet, first_labels),
    "updates edits-ignored": on_facts(edits_ignored, Policy),
    "updates removals-take-all": removals_take_all,
    "negations-are-ignored": read_selectors(without_negations),
    "missing-labels-equal-all": read_selectors(with_labels_there),
    "slices ready-alone": ready_backends_alone,
}
"""Map the name of each tap to the function that puts it at its seam."""
