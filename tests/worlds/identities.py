"""Wrong readings of who a peer is: second names of accounts, second terms of namespaces, negation alone.

As those of :mod:`tests.worlds.forms`.
"""

from __future__ import annotations

import re
from typing import Any

from tests.worlds.editing import Edit, Obj, each_end, each_rule, is_global, kubernetes_entries


def _names(place: slice) -> Edit:
    """Of the names of accounts, some alone."""

    def edited(end: Obj) -> None:
        accounts: dict[str, Any] = end.get("serviceAccounts") or {}
        if accounts.get("names"):
            accounts["names"] = accounts["names"][place]

    return each_end(edited)


def _first_term(operator: str) -> Edit:
    """Of a peer's namespaceSelector, the first term alone."""

    def edited(end: Obj) -> None:
        if end.get("namespaceSelector"):
            end["namespaceSelector"] = re.split(rf" {operator} ", end["namespaceSelector"])[0]

    return each_end(edited)


def _first_expression(peer: Obj) -> None:
    spaces = peer.get("namespaceSelector") or {}
    if spaces.get("matchExpressions"):
        spaces["matchExpressions"] = spaces["matchExpressions"][:1]


def _negated_alone(rule: Obj, *, lost: bool) -> Obj | None:
    """The rule without an end that a notSelector alone tells; or None, as if nobody were meant."""
    alone = [side for side in ("source", "destination") if (rule.get(side) or {}).keys() == {"notSelector"}]
    if alone and lost:
        return None
    return {key: value for key, value in rule.items() if key not in alone}


def _of_global(lost: bool) -> Edit:
    edit = each_rule(lambda rule, _: _negated_alone(rule, lost=lost))
    return lambda obj: edit(obj) if is_global(obj) else obj


EDITS: dict[str, Edit] = {
    "names of accounts: first only": _names(slice(0, 1)),
    "names of accounts: last only": _names(slice(-1, None)),
    "namespaceSelector of ends: first of && only": _first_term("&&"),
    "namespaceSelector of ends: first of || only": _first_term(r"\|\|"),
    "namespaceSelector of a peer: first expression only": kubernetes_entries("peers", _first_expression),
    "notSelector alone of a global policy ignored": _of_global(False),
    "notSelector alone of a global policy: nobody": _of_global(True),
}
