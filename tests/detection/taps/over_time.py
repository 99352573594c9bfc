# SPDX-License-Identifier: Apache-2.0
"""Taps that are wrong over time, on linux-2 and windows-2019: Felix uses parts of an earlier
state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from hybridlab.calico.felix_faults import Keys, Tiers
from hybridlab.calico.typha import Updates
from hybridlab.faults.lab_parts import LabParts
from hybridlab.policy.ipsets import SelectorSet
from hybridlab.policy.policy import Policy, PolicyRule
from hybridlab.policy.render import set_keys
from hybridlab.policy.resolve import Graph, PodFacts
from hybridlab.policy.selectors import NAMESPACE_LABEL, Labels
from tests.detection.taps.seams import (
    Policies,
    Put,
    edited,
    felixes,
    on_updates,
    put,
    selected,
)
from tests.detection.taps.words import RUN

Members = tuple[str, ...]
LABELLED = {"pods", "namespaces", "serviceaccounts"}
"""Resources whose labels are also labels of pods."""


def applying(lab: LabParts, tap: Callable[[Keys, str], Keys]) -> None:
    """Let the Felixes of both nodes apply other policies: ``tap`` gets the applying policies and
    the endpoint's uid."""
    for felix in felixes(lab).values():
        put(felix.faults.applying, tap)


def due(lab: LabParts, uids: Iterable[str]) -> None:
    """Let the Felixes check again which policies apply to these endpoints."""
    graph = lab.calico.typha.graph
    for uid in uids:
        felixes(lab, [graph.pod(uid).node])[graph.pod(uid).node].queue.policy.endpoint_due(uid)


def endpoints(lab: LabParts) -> list[str]:
    """Return all endpoints of both nodes."""
    return [uid for node in felixes(lab) for uid in lab.calico.typha.graph.endpoints_on(node)]


def before_updates(lab: LabParts, look: Callable[[Any, Any, str], None]) -> None:
    """Call ``look`` with each update's object, fact and resource before Typha gets the update; the
    update stays unchanged."""

    def tap(updates: Updates, resource: str) -> Updates:
        for obj, fact in updates:
            look(obj, fact, resource)
        return updates

    on_updates(lab, tap)


def made_anew(lab: LabParts) -> None:
    """Do not apply a policy to a pod if the policy was deleted and created again."""
    there = Policies()
    ever: dict[str, set[Any]] = {}
    gone: dict[str, set[Any]] = {}

    def tap(keys: Keys, uid: str) -> Keys:
        ever.setdefault(uid, set()).update(keys)
        return keys - gone.get(uid, set())

    def look(obj: Any, fact: Any, resource: str) -> None:
        key = there.key_of(obj) if fact is None else None
        there.take([(obj, fact)])
        for uid in [uid for uid, keys in ever.items() if key in keys]:
            gone.setdefault(uid, set()).add(key)

    applying(lab, tap)
    before_updates(lab, look)


def taken_labels(lab: LabParts) -> None:
    """When a pod loses a label, take its policies away until other policies apply."""
    labels: dict[str, Labels] = {}
    lost: dict[str, Keys] = {}
    graph = lab.calico.typha.graph

    def tap(keys: Keys, uid: str) -> Keys:
        now = graph.labels_of(uid)
        if labels.get(uid, {}).keys() - now.keys() and keys:
            lost[uid] = keys
        labels[uid] = now
        return frozenset() if lost.get(uid) == keys else keys

    applying(lab, tap)
    before_updates(
        lab, lambda obj, fact, resource: due(lab, endpoints(lab) if resource in LABELLED else ())
    )


def returned_members(lab: LabParts) -> None:
    """When a pod has left a set, do not make it a member of the set again."""
    were: dict[tuple[str, str], set[str]] = {}
    gone: dict[tuple[str, str], set[str]] = {}

    def tap(node: str, members: Members, name: str) -> Members:
        here = (node, name)
        gone.setdefault(here, set()).update(were.get(here, set()) - set(members))
        were[here] = set(members)
        return tuple(one for one in members if one not in gone[here])

    for node, felix in felixes(lab).items():
        put(felix.faults.set_members, partial(tap, node))


def selected_again(lab: LabParts) -> None:
    """When a policy has stopped selecting a pod, do not apply it to the pod again."""
    were: dict[str, Keys] = {}
    gone: dict[str, set[Any]] = {}

    def tap(keys: Keys, uid: str) -> Keys:
        left = were.get(uid, frozenset()) - keys
        there = lab.calico.typha.graph.policies
        gone.setdefault(uid, set()).update(key for key in left if key in there)
        were[uid] = keys
        return keys - gone[uid]

    applying(lab, tap)


def of_one_api(keys: Keys, kind: str) -> Keys:
    """Return those policies that belong to the API of this kind."""
    of_kubernetes = kind.startswith("Kubernetes")
    return frozenset(key for key in keys if key.kind.startswith("Kubernetes") == of_kubernetes)


def other_apis_go(lab: LabParts) -> None:
    """When a policy is edited, take the policies of the other API away from its pods, until other
    policies apply."""
    lost: dict[str, tuple[Keys, str]] = {}
    graph = lab.calico.typha.graph

    def tap(keys: Keys, uid: str) -> Keys:
        at, kind = lost.get(uid, (None, ""))
        return of_one_api(keys, kind) if at == keys else keys

    def look(_: Any, fact: Any, resource: str) -> None:
        if isinstance(fact, Policy) and edited(graph, fact):
            pods = [uid for node in felixes(lab) for uid in selected(graph, node, fact.key)]
            lost.update((uid, (graph.keys_for(uid), fact.key.kind)) for uid in pods)
            due(lab, pods)

    applying(lab, tap)
    before_updates(lab, look)


def other_apis_go_too(lab: LabParts) -> None:
    """When a policy is deleted, take also the policies of the other API away from its pods, until
    other policies apply."""
    there = Policies()
    loses: dict[str, str] = {}
    lost: dict[str, tuple[Keys, str]] = {}
    graph = lab.calico.typha.graph

    def tap(keys: Keys, uid: str) -> Keys:
        if uid in loses:
            lost[uid] = keys, loses.pop(uid)
        at, kind = lost.get(uid, (None, ""))
        return of_one_api(keys, kind) if at == keys else keys

    def look(obj: Any, fact: Any, resource: str) -> None:
        gone = there.key_of(obj) if fact is None else None
        there.take([(obj, fact)])
        if gone is not None:
            pods = [uid for node in felixes(lab) for uid in selected(graph, node, gone)]
            loses.update(dict.fromkeys(pods, gone.kind))

    applying(lab, tap)
    before_updates(lab, look)


def last_of_several(lab: LabParts) -> None:
    """If a policy selects several pods of a node, do not notify the last of them of edited
    rules."""
    deaf: dict[str, set[str]] = {node: set() for node in felixes(lab)}

    def tap(node: str, held: Members, programmed: Members) -> Members:
        now = tuple(uid for uid in programmed if uid in deaf[node])
        deaf[node].clear()
        return (*held, *now)

    def look(_: Any, fact: Any, resource: str) -> None:
        graph = lab.calico.typha.graph
        if isinstance(fact, Policy) and edited(graph, fact):
            for node, ends in deaf.items():
                pods = selected(graph, node, fact.key)
                ends.update(pods[-1:] if len(pods) > 1 else ())

    for node, felix in felixes(lab).items():
        put(felix.faults.held, partial(tap, node))
    before_updates(lab, look)


def of_edited(
    change: Callable[[tuple[PolicyRule, ...], tuple[PolicyRule, ...]], tuple[PolicyRule, ...]],
) -> Put:
    """Let Felix read an edited policy wrongly: ``change`` takes the present and the first rules of
    a direction, and returns the rules that are applied."""

    def put_it(lab: LabParts) -> None:
        first: dict[Any, Policy] = {}

        def policy(now: Policy) -> Policy:
            was = first.setdefault(now.key, now)
            if (now.ingress, now.egress) == (was.ingress, was.egress):
                return now
            return replace(
                now,
                ingress=change(now.ingress, was.ingress),
                egress=change(now.egress, was.egress),
            )

        def tap(tiers: Tiers) -> Tiers:
            return tuple(
                replace(tier, policies=tuple(map(policy, tier.policies))) for tier in tiers
            )

        for felix in felixes(lab).values():
            put(felix.faults.policies, tap)

    return put_it


def ports_of_datagrams(
    now: tuple[PolicyRule, ...], was: tuple[PolicyRule, ...]
) -> tuple[PolicyRule, ...]:
    """Return the present rules with the first ports in rules about UDP."""

    def rule(one: PolicyRule, before: PolicyRule) -> PolicyRule:
        ports = before.destination.ports if one.protocol == "udp" else one.destination.ports
        return replace(one, destination=replace(one.destination, ports=ports))

    return (*map(rule, now, was), *now[len(was) :])


def first_labels_stay(lab: LabParts) -> None:
    """On linux-2 and windows-2019, apply to a pod for ever the policies that selected its first
    labels."""
    first: dict[str, Labels] = {}
    graph = lab.calico.typha.graph

    def tap(keys: Keys, uid: str) -> Keys:
        labels = first.setdefault(uid, graph.labels_of(uid))
        return frozenset(
            key for key, policy in graph.policies.items() if policy.selector.matches(labels)
        )

    def look(_: Any, fact: Any, resource: str) -> None:
        if "polic" in resource:
            due(lab, endpoints(lab))

    applying(lab, tap)
    before_updates(lab, look)


def policies_stay(lab: LabParts) -> None:
    """On linux-2, keep paths closed that a policy closed, even when no policy applies any more."""
    last: list[Tiers] = []

    def tap(tiers: Tiers) -> Tiers:
        last[:] = [tiers] if tiers else last
        return tiers or (last[0] if last else tiers)

    for felix in felixes(lab, ["linux-2"]).values():
        put(felix.faults.policies, tap)


def everybody(lab: LabParts) -> dict[str, PodFacts]:
    """Return all endpoints of the cluster, by uid."""
    graph = lab.calico.typha.graph
    return {uid: graph.pod(uid) for node in lab.calico.nodes for uid in graph.endpoints_on(node)}


def new_pods_are_no_members(lab: LabParts) -> None:
    """On linux-3 and windows-2022, limit a selector's members to pods that existed when a policy
    first named the selector."""
    there: dict[str, frozenset[str]] = {}

    def tap(members: Members, name: str) -> Members:
        pods = everybody(lab)
        old = there.setdefault(name, frozenset(pods)) & pods.keys()
        addresses = {pods[uid].address for uid in old}
        return tuple(member for member in members if member in addresses)

    def look(_: Any, fact: Any, resource: str) -> None:
        for name in [name for name in there if not lab.calico.typha.graph.has_set(name)]:
            del there[name]

    for felix in felixes(lab, ("linux-3", "windows-2022")).values():
        put(felix.faults.set_members, tap)
    before_updates(lab, look)


def new_pods_are_members(lab: LabParts) -> None:
    """Make a pod that is newer than a policy a member of all of the policy's selectors for pods of
    the pod's namespace."""
    later: dict[str, frozenset[str]] = {}
    graph = lab.calico.typha.graph

    def look(_: Any, fact: Any, resource: str) -> None:
        if not isinstance(fact, PodFacts) or not fact.namespace.startswith(RUN):
            return
        if not graph.is_on(fact.uid, fact.node):
            later[fact.uid] = frozenset(sets_about(graph, fact.namespace))
        for name in later.get(fact.uid, ()) if fact.address else ():
            for felix in lab.calico.felixes.values():
                felix.queue.policy.set_due(name)

    def tap(members: Members, name: str) -> Members:
        pods = everybody(lab)
        more = {pods[uid].address for uid, names in later.items() if name in names and uid in pods}
        return tuple(sorted({*members, *filter(None, more)}))

    for felix in lab.calico.felixes.values():
        put(felix.faults.set_members, tap)
    before_updates(lab, look)


def sets_about(graph: Graph, namespace: str) -> Iterable[str]:
    """Return the names of the sets with selectors for pods of a namespace."""
    for policy in graph.policies.values():
        for rule in (*policy.ingress, *policy.egress):
            for key in set_keys(rule):
                if isinstance(key, SelectorSet):
                    required = dict(key.selector.required())
                    if required.get(NAMESPACE_LABEL) == namespace:
                        yield key.name


PUTS: dict[str, Put] = {
    "updates first-labels-stay": first_labels_stay,
    "over-time policies-stay": policies_stay,
    "new-pods-are-no-members": new_pods_are_no_members,
    "new-pods-are-members-whatever-their-labels": new_pods_are_members,
    "over-time made-anew": made_anew,
    "over-time taken-labels": taken_labels,
    "over-time returned-members": returned_members,
    "over-time selected-again": selected_again,
    "over-time other-apis-go": other_apis_go,
    "over-time last-of-several": last_of_several,
    "over-time other-apis-go-too": other_apis_go_too,
    "over-time reversed-rules": of_edited(lambda now, was: now[::-1]),
    "over-time ports-of-datagrams": of_edited(ports_of_datagrams),
}
"""Map the name of each tap to the function that puts it at its seams."""
