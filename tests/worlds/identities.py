# SPDX-License-Identifier: Apache-2.0
"""Wrong readings of the identity of a peer, and of a field beside other fields.

Second names of accounts, second terms of namespaces, negation alone, labels that Calico adds,
fields beside others. They are used like those of :mod:`tests.worlds.forms`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tests.worlds.editing import (
    Edit,
    Obj,
    each_end,
    each_rule,
    is_calico,
    is_global,
    is_kubernetes,
    kubernetes_entries,
    policies_of,
    replaced,
    with_expressions,
)


def _names(place: slice) -> Edit:
    """Keep only some of the names of accounts."""

    def edited(end: Obj) -> None:
        accounts: dict[str, Any] = end.get("serviceAccounts") or {}
        if accounts.get("names"):
            accounts["names"] = accounts["names"][place]

    return each_end(edited)


def _first_term(operator: str) -> Edit:
    """Keep only the first term of a peer's namespaceSelector."""

    def edited(end: Obj) -> None:
        if end.get("namespaceSelector"):
            end["namespaceSelector"] = re.split(rf" {operator} ", end["namespaceSelector"])[0]

    return each_end(edited)


def _first_expression(peer: Obj) -> None:
    spaces = peer.get("namespaceSelector") or {}
    if spaces.get("matchExpressions"):
        spaces["matchExpressions"] = spaces["matchExpressions"][:1]


def _negated_alone(rule: Obj, *, lost: bool) -> Obj | None:
    """Return the rule without ends that are given only by a notSelector; ``lost``: return None, as
    if nobody matched."""
    alone = [
        side
        for side in ("source", "destination")
        if (rule.get(side) or {}).keys() == {"notSelector"}
    ]
    if alone and lost:
        return None
    return {key: value for key, value in rule.items() if key not in alone}


def _of_global(lost: bool) -> Edit:
    edit = each_rule(lambda rule, _: _negated_alone(rule, lost=lost))
    return lambda obj: edit(obj) if is_global(obj) else obj


def _not_in(selector: Obj) -> None:
    """Let ``NotIn`` match only objects that have the label."""
    keys = [one["key"] for one in selector["matchExpressions"] if one["operator"] == "NotIn"]
    selector["matchExpressions"] += [{"key": key, "operator": "Exists"} for key in keys]


def _empty_values(value: Any) -> None:
    """Let no object match an empty value in matchLabels."""
    if isinstance(value, dict):
        labels = value.get("matchLabels") or {}
        labels.update({key: "never" for key, wanted in labels.items() if not wanted})
        for inner in value.values():
            _empty_values(inner)
    elif isinstance(value, list):
        for inner in value:
            _empty_values(inner)


def _beside(key: str, *others: str) -> Edit:
    """Ignore a field of an end if one of the other fields is set."""
    return each_end(
        lambda end: end.pop(key, None) if any(end.get(other) for other in others) else None
    )


def _account_selectors(edit: Callable[[str], str]) -> Edit:
    """Edit the selectors of service accounts, of policies and of ends."""

    def of_end(end: Obj) -> None:
        accounts: dict[str, Any] = end.get("serviceAccounts") or {}
        if accounts.get("selector"):
            accounts["selector"] = edit(accounts["selector"])

    def of_policy(spec: Obj) -> None:
        if spec.get("serviceAccountSelector"):
            spec["serviceAccountSelector"] = edit(spec["serviceAccountSelector"])

    ends, own = each_end(of_end), policies_of(is_calico, of_policy)

    def edited(obj: Obj) -> Obj | None:
        read = ends(obj)
        return own(read) if read is not None else None

    return edited


EDITS: dict[str, Edit] = {
    "names of accounts: first only": _names(slice(0, 1)),
    "names of accounts: last only": _names(slice(-1, None)),
    "namespaceSelector of ends: first of && only": _first_term("&&"),
    "namespaceSelector of ends: first of || only": _first_term(r"\|\|"),
    "namespaceSelector of a peer: first expression only": kubernetes_entries(
        "peers", _first_expression
    ),
    "notSelector alone of a global policy ignored": _of_global(False),
    "notSelector alone of a global policy: nobody": _of_global(True),
    "NotIn needs the label": with_expressions(_not_in),
    "an empty value of matchLabels is nobody's": policies_of(is_kubernetes, _empty_values),
    "projectcalico.org/namespace is no label": replaced(
        r"projectcalico.org/namespace == '[^']*'", "!all()"
    ),
    "accounts have no name for selectors": _account_selectors(
        lambda text: re.sub(r"projectcalico.org/name == '[^']*'", "!all()", text)
    ),
    "== wants spaces": replaced(r"[\w./]+=='[^']*'", "!all()"),
    "notPorts of sources ignored": each_end(lambda end: end.pop("notPorts", None), ["source"]),
    "notPorts beside ports ignored": _beside("notPorts", "ports"),
    "nets beside a namespaceSelector ignored": _beside("nets", "namespaceSelector"),
    "service accounts beside a selector ignored": _beside("serviceAccounts", "selector"),
    "names and selector of accounts: selector alone": each_end(
        lambda end: (
            end["serviceAccounts"].pop("names", None)
            if (end.get("serviceAccounts") or {}).get("selector")
            else 0
        )
    ),
    "nets of the destination of ingress ignored": each_rule(
        lambda rule, way: (
            {
                **rule,
                "destination": {
                    key: value for key, value in rule["destination"].items() if key != "nets"
                },
            }
            if way == "ingress" and rule.get("destination")
            else rule
        )
    ),
    "notNets beside a selector ignored": _beside("notNets", "selector", "namespaceSelector"),
}
