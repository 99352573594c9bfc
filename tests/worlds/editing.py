# SPDX-License-Identifier: Apache-2.0
"""Edits of policy objects, from which wrong readings are built."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

Obj = dict[str, Any]
Edit = Callable[[Obj], Obj | None]
"""Maps a private copy of an object to the object that a wrong reading makes of it; None: the object
is lost."""

SIDES = ("source", "destination")
DIRECTIONS = ("ingress", "egress")
WORLD = (
    "Namespace",
    "ServiceAccount",
    "Pod",
    "Node",
    "EndpointSlice",
    "NetworkSet",
    "GlobalNetworkSet",
)


def is_policy(obj: Obj) -> bool:
    return str(obj["kind"]).endswith("NetworkPolicy")


def policies_of(kind: Callable[[Obj], bool], edit: Callable[[Obj], object]) -> Edit:
    """Edit in place the spec of each policy of a kind."""

    def edited(obj: Obj) -> Obj:
        if is_policy(obj) and kind(obj):
            edit(obj["spec"])
        return obj

    return edited


def is_kubernetes(obj: Obj) -> bool:
    return (
        str(obj["apiVersion"]).startswith("networking.k8s.io")
        or obj["kind"] == "StagedKubernetesNetworkPolicy"
    )


def is_calico(obj: Obj) -> bool:
    return not is_kubernetes(obj)


def is_global(obj: Obj) -> bool:
    return str(obj["kind"]).endswith("GlobalNetworkPolicy")


def each_rule(edit: Callable[[Obj, str], Obj | None]) -> Edit:
    """Edit each rule of Calico's policies; None: the rule is lost."""

    def edited(spec: Obj) -> None:
        for direction in DIRECTIONS:
            if spec.get(direction):
                read = (edit(rule, direction) for rule in spec[direction])
                spec[direction] = [rule for rule in read if rule is not None]

    return policies_of(is_calico, edited)


def without(*keys: str) -> Edit:
    """Remove these fields from each rule of Calico's policies."""
    return each_rule(lambda rule, _: {key: value for key, value in rule.items() if key not in keys})


def each_end(edit: Callable[[Obj], object], sides: Sequence[str] = SIDES) -> Edit:
    """Edit in place the ends of Calico's rules."""

    def edited(rule: Obj, _: str) -> Obj:
        for side in sides:
            if rule.get(side):
                edit(rule[side])
        return rule

    return each_rule(edited)


def end_without(*keys: str) -> Edit:
    """Remove these fields from the ends of Calico's rules."""

    def edited(end: Obj) -> None:
        for key in keys:
            end.pop(key, None)

    return each_end(edited)


def end_first(key: str) -> Edit:
    """Keep only the first entry of a list at the ends of Calico's rules."""
    return each_end(lambda end: end.update({key: end[key][:1]}) if end.get(key) else None)


def ranges(edit: Callable[[int, int], str]) -> Edit:
    """Edit each range of ports in Calico's rules, given by its first and last port."""

    def edited(end: Obj) -> None:
        for key in ("ports", "notPorts"):
            if end.get(key):
                end[key] = [
                    edit(*map(int, port.split(":")))
                    if re.fullmatch(r"\d+:\d+", str(port))
                    else port
                    for port in end[key]
                ]

    return each_end(edited)


def action(given: str, taken: str | None) -> Edit:
    """Replace an action by another; None: lose its rules."""

    def edited(rule: Obj, _: str) -> Obj | None:
        if rule["action"] != given:
            return rule
        return {**rule, "action": taken} if taken else None

    return each_rule(edited)


def each_list(edit: Callable[[list[Any]], list[Any]]) -> Edit:
    """Edit the list of rules of each direction of every policy."""

    def edited(spec: Obj) -> None:
        for direction in DIRECTIONS:
            if spec.get(direction):
                spec[direction] = edit(spec[direction])

    return policies_of(lambda _: True, edited)


def spec_of(kind: Callable[[Obj], bool], **values: Any) -> Edit:
    """Replace the values of fields in policies' specs, if the fields are set."""

    def edited(spec: Obj) -> None:
        spec.update({key: value for key, value in values.items() if key in spec})

    return policies_of(kind, edited)


def of_kind(kind: str, edit: Callable[[Obj], Obj | None]) -> Edit:
    """Edit the objects of one kind."""
    return lambda obj: edit(obj) if obj["kind"] == kind else obj


def kubernetes_entries(what: str, edit: Callable[[Obj], object]) -> Edit:
    """Edit in place the ``peers`` or the ``ports`` of Kubernetes' rules."""
    keys = {
        "peers": {"ingress": "from", "egress": "to"},
        "ports": {"ingress": "ports", "egress": "ports"},
    }[what]

    def edited(spec: Obj) -> None:
        for direction in DIRECTIONS:
            for rule in spec.get(direction) or []:
                for entry in rule.get(keys[direction]) or []:
                    edit(entry)

    return policies_of(is_kubernetes, edited)


def own_namespace(peer: Obj) -> None:
    """Search for a Kubernetes peer in its policy's own namespace, whatever its namespaceSelector
    is."""
    if "namespaceSelector" in peer:
        peer.pop("namespaceSelector")
        peer.setdefault("podSelector", {})


def with_expressions(edit: Callable[[Obj], object]) -> Edit:
    """Edit in place each selector with expressions in Kubernetes' policies."""

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if "matchExpressions" in value:
                edit(value)
            for inner in list(value.values()):
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    return policies_of(is_kubernetes, walk)


def selectors(edit: Callable[[str], str]) -> Edit:
    """Edit the texts of Calico's selectors."""

    def walk(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {inner: walk(one, inner) for inner, one in value.items()}
        if isinstance(value, list):
            return [walk(one) for one in value]
        return edit(value) if isinstance(value, str) and key.lower().endswith("selector") else value

    def edited(obj: Obj) -> Obj:
        return obj if obj["kind"] in WORLD else {**obj, "spec": walk(obj.get("spec") or {})}

    return edited


def replaced(pattern: str, by: str) -> Edit:
    """Replace a form of Calico's selectors by another."""
    return selectors(lambda text: re.sub(pattern, by, text))


def lost(kind: Callable[[Obj], bool]) -> Edit:
    """Ignore the objects of a kind."""
    return lambda obj: None if kind(obj) else obj


def unlabelled(kind: str) -> Edit:
    """Ignore the own labels of a kind's objects."""

    def edited(obj: Obj) -> Obj:
        obj["metadata"].pop("labels", None)
        return obj

    return of_kind(kind, edited)
