# SPDX-License-Identifier: Apache-2.0
"""Edits of policies' objects, from which wrong readings are put together."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

Obj = dict[str, Any]
Edit = Callable[[Obj], Obj | None]
"""From an object, a copy of its own, to what a wrong reading makes of it; None: it is lost."""

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
    """Edits the spec of policies of a kind in place."""

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
    """Edits each rule of Calico's policies; None: the rule is lost."""

    def edited(spec: Obj) -> None:
        for direction in DIRECTIONS:
            if spec.get(direction):
                read = (edit(rule, direction) for rule in spec[direction])
                spec[direction] = [rule for rule in read if rule is not None]

    return policies_of(is_calico, edited)


def without(*keys: str) -> Edit:
    """Each rule of Calico's without some fields of its own."""
    return each_rule(lambda rule, _: {key: value for key, value in rule.items() if key not in keys})


def each_end(edit: Callable[[Obj], object], sides: Sequence[str] = SIDES) -> Edit:
    """Edits in place what Calico's rules say of ends."""

    def edited(rule: Obj, _: str) -> Obj:
        for side in sides:
            if rule.get(side):
                edit(rule[side])
        return rule

    return each_rule(edited)


def end_without(*keys: str) -> Edit:
    """The ends of Calico's rules without some fields."""

    def edited(end: Obj) -> None:
        for key in keys:
            end.pop(key, None)

    return each_end(edited)


def end_first(key: str) -> Edit:
    """The ends of Calico's rules with the first entry of a list alone."""
    return each_end(lambda end: end.update({key: end[key][:1]}) if end.get(key) else None)


def ranges(edit: Callable[[int, int], str]) -> Edit:
    """The ranges among ports of Calico's rules, each by its first and last port."""

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
    """An action taken for another; None: its rules are lost."""

    def edited(rule: Obj, _: str) -> Obj | None:
        if rule["action"] != given:
            return rule
        return {**rule, "action": taken} if taken else None

    return each_rule(edited)


def each_list(edit: Callable[[list[Any]], list[Any]]) -> Edit:
    """The rules of a direction, of every policy, as a list."""

    def edited(spec: Obj) -> None:
        for direction in DIRECTIONS:
            if spec.get(direction):
                spec[direction] = edit(spec[direction])

    return policies_of(lambda _: True, edited)


def spec_of(kind: Callable[[Obj], bool], **values: Any) -> Edit:
    """Fields of policies' specs that are taken for others where they are said."""

    def edited(spec: Obj) -> None:
        spec.update({key: value for key, value in values.items() if key in spec})

    return policies_of(kind, edited)


def of_kind(kind: str, edit: Callable[[Obj], Obj | None]) -> Edit:
    """Edits objects of one kind."""
    return lambda obj: edit(obj) if obj["kind"] == kind else obj


def kubernetes_entries(what: str, edit: Callable[[Obj], object]) -> Edit:
    """Edits in place the ``peers`` or the ``ports`` of Kubernetes' rules."""
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
    """A Kubernetes peer is looked for in its policy's own namespace, whatever it says of namespaces."""
    if "namespaceSelector" in peer:
        peer.pop("namespaceSelector")
        peer.setdefault("podSelector", {})


def with_expressions(edit: Callable[[Obj], object]) -> Edit:
    """Edits in place each selector of Kubernetes' policies that has expressions."""

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
    """Edits the texts of Calico's selectors."""

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
    """A form of Calico's selectors taken for another."""
    return selectors(lambda text: re.sub(pattern, by, text))


def lost(kind: Callable[[Obj], bool]) -> Edit:
    """Objects that are not looked at."""
    return lambda obj: None if kind(obj) else obj


def unlabelled(kind: str) -> Edit:
    """Objects of one kind whose own labels are not looked at."""

    def edited(obj: Obj) -> Obj:
        obj["metadata"].pop("labels", None)
        return obj

    return of_kind(kind, edited)
