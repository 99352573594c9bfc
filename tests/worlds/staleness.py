# SPDX-License-Identifier: Apache-2.0
"""Edits that a data plane does not notice: it keeps an old state while the API has a new one.

A stale data plane is defined by the objects that it uses at one end of a connection. They are made
from the objects before and after the edit.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from conformance.policy.oracle import fields
from conformance.policy.oracle.oracle import Oracle
from conformance.policy.oracle.world import World
from tests.worlds.editing import is_policy, replaced

Obj = dict[str, Any]
Objects = Sequence[Obj]
Stale = Callable[[Objects, Objects, str], list[Obj]]
"""Maps the objects before and after an edit, and the pod at whose end they are read, to the objects
that are used."""

DIRECTIONS = ("ingress", "egress")


def _by_label(objects: Objects) -> dict[str, Obj]:
    return {fields.label(obj) + str(obj.get("apiVersion")): obj for obj in objects}


def of_policies(keep: Callable[[Obj, Obj], None]) -> Stale:
    """Change policies that exist before and after the edit: ``keep`` copies the stale parts of the
    old spec into the new spec."""

    def read(before: Objects, after: Objects, pod: str) -> list[Obj]:
        old, found = _by_label(before), []
        for label, obj in _by_label(after).items():
            if is_policy(obj) and label in old and old[label] != obj:
                obj = copy.deepcopy(obj)  # noqa: PLW2901
                keep(old[label]["spec"], obj["spec"])
            found.append(obj)
        return found

    return read


def fields_stay(*names: str) -> Stale:
    """Keep the old values of these fields of a policy's spec."""

    def keep(old: Obj, new: Obj) -> None:
        for name in names:
            new.pop(name, None)
            if name in old:
                new[name] = copy.deepcopy(old[name])

    return of_policies(keep)


def _rules(old: Obj, new: Obj) -> list[tuple[Obj, Obj]]:
    """Return pairs of old and new rules at the same place, if the number of rules is unchanged."""
    found = []
    for direction in DIRECTIONS:
        before, after = old.get(direction) or [], new.get(direction) or []
        if len(before) == len(after):
            found += list(zip(before, after, strict=True))
    return found


def of_rules(*names: str) -> Stale:
    """Keep the old values of these fields of rules."""

    def keep(old: Obj, new: Obj) -> None:
        for before, after in _rules(old, new):
            for name in names:
                after.pop(name, None)
                if name in before:
                    after[name] = copy.deepcopy(before[name])

    return of_policies(keep)


def of_ends(*names: str) -> Stale:
    """Keep the old values of these fields of the ends in Calico's rules."""

    def keep(old: Obj, new: Obj) -> None:
        for before, after in _rules(old, new):
            for side in ("source", "destination"):
                for name in names:
                    (after.get(side) or {}).pop(name, None)
                    if name in (before.get(side) or {}):
                        after.setdefault(side, {})[name] = copy.deepcopy(before[side][name])

    return of_policies(keep)


def _longer_lists(old: Obj, new: Obj) -> None:
    """Leave out a rule that was added."""
    for direction in DIRECTIONS:
        if direction in new:
            new[direction] = new[direction][: len(old.get(direction) or [])]


def _shorter_lists(old: Obj, new: Obj) -> None:
    """Keep a rule that was removed, after the other rules."""
    for direction in DIRECTIONS:
        gone = [rule for rule in old.get(direction) or [] if rule not in (new.get(direction) or [])]
        if len(old.get(direction) or []) > len(new.get(direction) or []):
            new[direction] = [*(new.get(direction) or []), *gone]


def _same_order(old: Obj, new: Obj) -> None:
    """Keep the old order of rules that were moved."""
    for direction in DIRECTIONS:
        before, after = old.get(direction) or [], new.get(direction) or []
        if sorted(map(str, before)) == sorted(map(str, after)):
            new[direction] = before


def _swapped(old: Obj, new: Obj) -> None:
    """Keep the old order of rules that were moved, if nothing else of the policy changed."""
    rest = [
        {key: value for key, value in spec.items() if key not in DIRECTIONS} for spec in (old, new)
    ]
    pairs = [(old.get(direction) or [], new.get(direction) or []) for direction in DIRECTIONS]
    if rest[0] == rest[1] and all(
        sorted(map(str, one)) == sorted(map(str, other)) for one, other in pairs
    ):
        _same_order(old, new)


def _still_selected(old: Obj, new: Obj) -> None:
    """Let a Calico policy select its earlier pods in addition to its present pods."""
    if old.get("selector", "all()") != new.get("selector", "all()") and "podSelector" not in new:
        new["selector"] = f"({old.get('selector', 'all()')}) || ({new.get('selector', 'all()')})"


def _gone(before: Objects, after: Objects) -> list[Obj]:
    new = _by_label(after)
    return [obj for label, obj in _by_label(before).items() if label not in new and is_policy(obj)]


def _alike_go_too(before: Objects, after: Objects, pod: str) -> list[Obj]:
    """When a policy is deleted, lose also the policies of the same namespace and selector."""
    gone = [_place(obj) for obj in _gone(before, after)]
    return [obj for obj in after if not (is_policy(obj) and _place(obj) in gone)]


def _place(obj: Obj) -> tuple[Any, ...]:
    return (
        obj["kind"],
        obj["apiVersion"],
        obj["metadata"].get("namespace"),
        str(obj["spec"].get("selector")),
    )


def _shared_ends_go_too(before: Objects, after: Objects, pod: str) -> list[Obj]:
    """When a policy is deleted, let other policies' rules with the same selectors match nothing."""
    gone = {str(end) for obj in _gone(before, after) for end in _ends(obj["spec"])}
    found = copy.deepcopy(list(after))
    for obj in found:
        for end in _ends(obj["spec"]) if is_policy(obj) else ():
            if str(end) in gone:
                end["selector"] = "!all()"
    return found


def _ends(spec: Obj) -> Iterator[Obj]:
    """Yield the ends of Calico's rules that have selectors."""
    for direction in DIRECTIONS:
        for rule in spec.get(direction) or []:
            yield from (
                end
                for side in ("source", "destination")
                if (end := rule.get(side) or {}).get("selector")
            )


def _new_sets(before: Objects, after: Objects, pod: str) -> list[Obj]:
    old = _by_label(before)
    return [
        obj
        for label, obj in _by_label(after).items()
        if label in old or obj["kind"] != "NetworkSet"
    ]


def _members_stay(before: Objects, after: Objects, pod: str) -> list[Obj]:
    """Give other pods their old labels in addition to their present labels: former members of a set
    stay members."""
    old, found = _by_label(before), list(after)
    for label, obj in _by_label(after).items():
        if obj["kind"] == "Pod" and obj["metadata"]["name"] != pod and old.get(label, obj) != obj:
            meta = old[label]["metadata"]
            found.append({**old[label], "metadata": {**meta, "name": f"{meta['name']}-before"}})
    return found


def _new_policies(before: Objects, after: Objects, pod: str) -> list[Obj]:
    old = _by_label(before)
    return [obj for label, obj in _by_label(after).items() if label in old or not is_policy(obj)]


def _gone_policies(before: Objects, after: Objects, pod: str) -> list[Obj]:
    return [*after, *_gone(before, after)]


def _kinds_stay(*kinds: str) -> Stale:
    def read(before: Objects, after: Objects, pod: str) -> list[Obj]:
        old = _by_label(before)
        return [
            old.get(label, obj) if obj["kind"] in kinds else obj
            for label, obj in _by_label(after).items()
        ]

    return read


def _of_sets(part: str) -> Stale:
    """Keep the old value of one part of each NetworkSet."""

    def read(before: Objects, after: Objects, pod: str) -> list[Obj]:
        old = _by_label(before)
        return [
            {**obj, part: old[label][part]} if obj["kind"] == "NetworkSet" and label in old else obj
            for label, obj in _by_label(after).items()
        ]

    return read


def _of_tiers(name: str) -> Stale:
    """Keep the old value of a field of each tier."""

    def read(before: Objects, after: Objects, pod: str) -> list[Obj]:
        old, found = _by_label(before), []
        for label, obj in _by_label(after).items():
            kept = (
                {name: old[label]["spec"][name]}
                if label in old and name in old[label].get("spec", {})
                else {}
            )
            rest = {key: value for key, value in (obj.get("spec") or {}).items() if key != name}
            found.append(
                {**obj, "spec": rest | kept} if obj["kind"] == "Tier" and label in old else obj
            )
        return found

    return read


def _own_labels(before: Objects, after: Objects, pod: str) -> list[Obj]:
    """Use the old labels of the pod itself: the same policies still select it."""
    return _pods(before, after, lambda name: name == pod)


def _members(before: Objects, after: Objects, pod: str) -> list[Obj]:
    """Use the old labels of other pods: the members of a rule's selectors stay the same."""
    return _pods(before, after, lambda name: name != pod)


def _pods(before: Objects, after: Objects, stale: Callable[[str], bool]) -> list[Obj]:
    old = _by_label(before)
    return [
        old[label]
        if obj["kind"] == "Pod" and stale(obj["metadata"]["name"]) and label in old
        else obj
        for label, obj in _by_label(after).items()
    ]


def _labels(kept: Callable[[Obj, Obj], Obj]) -> Stale:
    """Make each pod's labels from its old and its present labels."""

    def read(before: Objects, after: Objects, pod: str) -> list[Obj]:
        old, found = _by_label(before), []
        for label, obj in _by_label(after).items():
            meta = obj["metadata"]
            if obj["kind"] == "Pod" and label in old:
                meta = {
                    **meta,
                    "labels": kept(
                        old[label]["metadata"].get("labels") or {}, meta.get("labels") or {}
                    ),
                }
            found.append({**obj, "metadata": meta})
        return found

    return read


def _without_new_sets(before: Objects, after: Objects, pod: str) -> list[Obj]:
    """Keep old rules if the edit brings no new selector. New selectors make new sets, which a data
    plane notices (XPOL-12)."""
    old = _by_label(before)
    there = {text for obj in before if is_policy(obj) for text in _selectors(obj["spec"])}
    found = []
    for label, obj in _by_label(after).items():
        read = obj
        if is_policy(obj) and label in old and set(_selectors(obj["spec"])) <= there:
            kept = {
                name: old[label]["spec"][name] for name in DIRECTIONS if name in old[label]["spec"]
            }
            read = {
                **obj,
                "spec": {key: obj["spec"][key] for key in obj["spec"].keys() - set(DIRECTIONS)}
                | kept,
            }
        found.append(read)
    return found


def _selectors(value: Any, key: str = "") -> Iterator[str]:
    """Yield the selectors of a policy's rules."""
    if key.lower().endswith("selector") or key == "serviceAccounts":
        yield str(value)
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _selectors(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _selectors(inner)


def _later_tiers(before: Objects, after: Objects, pod: str) -> list[Obj]:
    """Keep the old policies of a pod's second and later tiers (XPOL-13)."""
    old, oracle = _by_label(before), Oracle(World(after), after)
    own = next(one for one in oracle.world.pods.values() if one.name == pod)
    later = {
        tier.tier.name for way in ("ingress", "egress") for tier in oracle.in_force(own, way)[1:]
    }
    found = []
    for label, obj in _by_label(after).items():
        tier = (obj.get("spec") or {}).get("tier", "default") if is_policy(obj) else ""
        found.append(old[label] if tier in later and label in old else obj)
    return found


def _names_lost(label: str) -> Stale:
    """Selectors by ``label`` no longer match namespaces whose labels have changed."""

    def read(before: Objects, after: Objects, pod: str) -> list[Obj]:
        old = _by_label(before)
        gone = [
            obj["metadata"]["name"]
            for key, obj in _by_label(after).items()
            if obj["kind"] == "Namespace" and old.get(key, obj) != obj
        ]
        asked = "|".join(re.escape(f"{label} == '{name}'") for name in gone)
        return [obj for one in after if (obj := replaced(asked, "!all()")(one) if gone else one)]

    return read


def _accounts_lost(before: Objects, after: Objects, pod: str) -> list[Obj]:
    """When other pods get new labels, remove them from the members of their service account."""
    old, found = _by_label(before), []
    for label, obj in _by_label(after).items():
        moved = (
            obj["kind"] == "Pod" and obj["metadata"]["name"] != pod and old.get(label, obj) != obj
        )
        found.append(
            {**obj, "spec": {**obj["spec"], "serviceAccountName": "nobody"}} if moved else obj
        )
    return found


STALE: dict[str, Stale] = {
    "rules edited in place stay": fields_stay("ingress", "egress"),
    "rules edited in place stay until a set comes": _without_new_sets,
    "rules of later tiers stay": _later_tiers,
    "actions stay": of_rules("action"),
    "protocols stay": of_rules("protocol", "notProtocol"),
    "ports stay": of_ends("ports", "notPorts"),
    "nets stay": of_ends("nets", "notNets"),
    "selectors of rules stay": of_ends(
        "selector", "notSelector", "namespaceSelector", "serviceAccounts"
    ),
    "Kubernetes' peers stay": of_rules("from", "to"),
    "Kubernetes' ports stay": of_rules("ports"),
    "added rules are not there": of_policies(_longer_lists),
    "removed rules are still there": of_policies(_shorter_lists),
    "the order of rules stays": of_policies(_same_order),
    "rules that change places alone stay": of_policies(_swapped),
    "the order of policies stays": fields_stay("order"),
    "selectors of policies stay": fields_stay(
        "selector", "namespaceSelector", "podSelector", "serviceAccountSelector"
    ),
    "Kubernetes' policies select the same pods": fields_stay("podSelector"),
    "what a policy selected is still selected": of_policies(_still_selected),
    "types stay": fields_stay("types", "policyTypes"),
    "new policies are not there": _new_policies,
    "removed policies are still there": _gone_policies,
    "policies of a removed one's selector go too": _alike_go_too,
    "what a removed policy's rules select goes too": _shared_ends_go_too,
    "new NetworkSets are not there": _new_sets,
    "networks of NetworkSets stay": _of_sets("spec"),
    "labels of NetworkSets stay": _of_sets("metadata"),
    "ends of tiers stay": _of_tiers("defaultAction"),
    "orders of tiers stay": _of_tiers("order"),
    "labels of namespaces stay": _kinds_stay("Namespace"),
    "labels of a policy's own pod stay": _own_labels,
    "labels of other pods stay": _members,
    "members that went are still there": _members_stay,
    "labels that went are still there": _labels(lambda old, new: old | new),
    "relabelled pods lose their service account": _accounts_lost,
    "relabelled namespaces lose projectcalico.org/name": _names_lost("projectcalico.org/name"),
    "relabelled namespaces lose kubernetes.io/metadata.name": _names_lost(
        "kubernetes.io/metadata.name"
    ),
    "labels that came are not there": _labels(
        lambda old, new: {key: new[key] for key in new if key in old}
    ),
}
"""Map a description of what stays to the stale data plane."""
