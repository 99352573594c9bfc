# SPDX-License-Identifier: Apache-2.0
"""Wrong readings of forms: the combination of selectors, and unusual values, orders and lists.

They are used like those of :mod:`tests.worlds.edges`. Each is of a kind that was planted in the
lab's own code and that no world had shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from tests.worlds.edges import Whole
from tests.worlds.editing import (
    DIRECTIONS,
    Edit,
    Obj,
    each_end,
    each_rule,
    is_calico,
    is_global,
    is_kubernetes,
    kubernetes_entries,
    of_kind,
    policies_of,
    replaced,
    selectors,
)

LABELS = ("os", "seat", "team")
"""Labels; a part of a label's name is no label."""
FIFTEEN = 15
"""The number of ports that one rule of iptables' multiport accepts."""
OF_16_BITS = 32767


def _begins(found: re.Match[str]) -> str:
    """Return ``has()`` of any label that begins with the found text."""
    begun = next((label for label in LABELS if label.startswith(found[1])), found[1])
    return f"has({begun})"


def _beyond(own: Callable[[Obj], str]) -> Edit:
    """Search for the first term of a policy's ``||`` in every namespace, since the policy's scope
    is read as a part of the last term."""

    def edited(obj: Obj) -> Obj:
        spec = obj.get("spec") or {}
        first, either, last = str(spec.get("selector") or "").partition(" || ")
        scope = own(obj)
        if not either or not scope:
            return obj
        read = {key: value for key, value in spec.items() if key != "namespaceSelector"}
        return {
            **obj,
            "kind": "GlobalNetworkPolicy",
            "spec": {**read, "selector": f"{first} || {last} && {scope}"},
        }

    return edited


def _own_namespace(obj: Obj) -> str:
    named = obj["kind"] == "NetworkPolicy" and is_calico(obj)
    return f"projectcalico.org/namespace == '{obj['metadata']['namespace']}'" if named else ""


def _own_namespaces(obj: Obj) -> str:
    listed = re.search(
        r"kubernetes.io/metadata.name (in \{[^}]*\}|== '[^']*')", str(obj.get("spec"))
    )
    return f"projectcalico.org/namespace {listed[1]}" if is_global(obj) and listed else ""


def _not_first(end: Obj) -> None:
    """Negate only the first term of a notSelector with ``||``."""
    first, either, last = str(end.get("notSelector") or "").partition(" || ")
    if either:
        end.pop("notSelector")
        end["selector"] = f"({end.get('selector') or 'all()'}) && (!({first}) || {last})"


def _anywhere(key: str) -> Callable[[Obj], object]:
    """Search in every namespace for an end that is given only by this field."""

    def edited(end: Obj) -> None:
        if end.get(key) and not any(end.get(other) for other in ("selector", "namespaceSelector")):
            end["namespaceSelector"] = "all()"

    return edited


def _larger(end: Obj) -> None:
    """If an end has both networks and members, keep the larger of them, the networks."""
    if end.get("selector") and any(not net.endswith("/32") for net in end.get("nets") or []):
        for key in ("selector", "namespaceSelector"):
            end.pop(key, None)


def _neighbours(spec: Obj) -> None:
    """Read two ports of Kubernetes with one port between them as a range."""
    for direction in DIRECTIONS:
        for rule in spec.get(direction) or []:
            several = rule.get("ports") or []
            for one in [one for one in several if isinstance(one.get("port"), int)]:
                if any(other.get("port") == one["port"] + 2 for other in several):
                    one["endPort"] = one["port"] + 2


def _shared_exceptions(spec: Obj) -> None:
    """Apply the exceptions of one peer of a rule to all its peers."""
    for direction, side in (("ingress", "from"), ("egress", "to")):
        for rule in spec.get(direction) or []:
            blocks = [peer["ipBlock"] for peer in rule.get(side) or [] if "ipBlock" in peer]
            excepted = [net for block in blocks for net in block.get("except") or []]
            for block in blocks if excepted else []:
                block["except"] = excepted


def _one_peer_with_exceptions(spec: Obj) -> None:
    """Lose a peer with exceptions if the rule has other peers."""
    for direction, side in (("ingress", "from"), ("egress", "to")):
        for rule in spec.get(direction) or []:
            if len(rule.get(side) or []) > 1:
                rule[side] = [
                    peer for peer in rule[side] if not (peer.get("ipBlock") or {}).get("except")
                ]


def _pass_without(*keys: str) -> Edit:
    """Let a Pass rule match everything, as if these fields were not set."""
    return each_rule(
        lambda rule, _: {
            key: value for key, value in rule.items() if rule["action"] != "Pass" or key not in keys
        }
    )


def _other_kind(of_names: bool) -> Callable[[Obj], object]:
    """If a rule has both names and numbers of ports, keep only the names, or only the numbers."""

    def edited(end: Obj) -> None:
        names = [port for port in end.get("ports") or [] if re.match(r"[a-z]", str(port))]
        numbers = [port for port in end.get("ports") or [] if port not in names]
        if names and numbers:
            end["ports"] = names if of_names else numbers

    return edited


def _ordered(place: Callable[[float], float]) -> Whole:
    """Make orders less exact; policies that then have the same order are sorted by name."""

    def read(objects: Sequence[Obj]) -> list[Obj]:
        several = [
            obj for obj in objects if obj["kind"].endswith("NetworkPolicy") and is_calico(obj)
        ]
        names = sorted(str(obj["metadata"]["name"]) for obj in several)
        for obj in several:
            if "order" in obj["spec"]:
                obj["spec"]["order"] = (
                    place(obj["spec"]["order"]) + names.index(obj["metadata"]["name"]) * 1e-6
                )
        return list(objects)

    return read


def _absent(peer: Obj) -> None:
    for one in (peer.get("namespaceSelector") or {}).get("matchExpressions") or []:
        if one["operator"] == "DoesNotExist":
            one["operator"] = "Exists"


def _tier(edit: Callable[[Obj], object]) -> Edit:
    def edited(obj: Obj) -> Obj:
        spec: dict[str, Any] = dict(obj.get("spec") or {})
        edit(spec)
        return {**obj, "spec": spec}

    return of_kind("Tier", edited)


EDITS: dict[str, Edit] = {
    # Calico's selectors
    "two ! are one": replaced(r"!\s*!", "!"),
    "! reaches over &&": replaced(r"^!\s*(has\(\w+\)) && ([^&|]+)$", r"!(\1 && \2)"),
    "values compare without case": selectors(
        lambda text: re.sub(r"== '([A-Z][a-z]*)'", lambda found: f"== '{found[1].lower()}'", text)
    ),
    "values compare as numbers": replaced(r"'0+(\d+)'", r"'\1'"),
    "values are trimmed": replaced(r"'\s*(\w+)\s*'", r"'\1'"),
    "has: a part of a label": selectors(lambda text: re.sub(r"has\((\w+)\)", _begins, text)),
    "in: values are one text": replaced(r"(?<!not )in \{'13'\}", "in {'13', '1', '3'}"),
    "contains, starts and ends with nothing: never": replaced(r"\w+ (contains|starts with|ends with) ''", "!all()"),
    # how they are composed
    "|| of a policy reaches beyond its namespace": _beyond(_own_namespace),
    "|| of a global policy reaches beyond its namespaces": _beyond(_own_namespaces),
    "notSelector: the negation is of the first of ||": each_end(_not_first),
    "notSelector alone is of all namespaces": each_end(_anywhere("notSelector")),
    "service accounts alone are of all namespaces": each_end(_anywhere("serviceAccounts")),
    "nobody has the default account": each_end(
        lambda end: (
            end["serviceAccounts"].update(names=["nobody"])
            if (end.get("serviceAccounts") or {}).get("names") == ["default"]
            else None
        )
    ),
    # orders
    "global policies come first": policies_of(
        is_global, lambda spec: spec.update(order=spec["order"] - 1e6) if "order" in spec else None
    ),
    "a tier without an order is the first": _tier(lambda spec: spec.setdefault("order", 1)),
    "the default tier is the last": _tier(lambda spec: spec.update(order=min(spec.get("order", 1e9), 9e5))),
    # ports, networks and protocols
    "numbers beside names of ports lost": each_end(_other_kind(True)),
    "names beside numbers of ports lost": each_end(_other_kind(False)),
    "Kubernetes' ports with one between them are a range": policies_of(is_kubernetes, _neighbours),
    "fifteen ports of a rule only": each_end(
        lambda end: end.update(ports=end["ports"][:FIFTEEN]) if end.get("ports") else None
    ),
    "first of notPorts only": each_end(
        lambda end: end.update(notPorts=end["notPorts"][:1]) if end.get("notPorts") else None
    ),
    "nets beside a selector: the larger": each_end(_larger),
    "rules with ipVersion 4 lost": each_rule(lambda rule, _: None if rule.get("ipVersion") == 4 else rule),
    "UDPLite is UDP": each_rule(
        lambda rule, _: {**rule, "protocol": "UDP"} if rule.get("protocol") == "UDPLite" else rule
    ),
    "an exception is of all peers of its rule": policies_of(is_kubernetes, _shared_exceptions),
    "a peer with exceptions lost beside others": policies_of(is_kubernetes, _one_peer_with_exceptions),
    "DoesNotExist of namespaces as Exists": kubernetes_entries("peers", _absent),
    # Pass
    "Pass: protocol ignored": _pass_without("protocol"),
    "Pass: ends ignored": _pass_without("source", "destination"),
}  # fmt: skip

OF_ALL: dict[str, Whole] = {
    "orders lose their fraction": _ordered(int),
    "orders are of 16 bits": _ordered(lambda order: min(order, OF_16_BITS)),
}
