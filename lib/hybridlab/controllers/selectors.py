# SPDX-License-Identifier: Apache-2.0
"""Label selectors inside objects: ``matchLabels``/``matchExpressions``, and the terms of a node selector."""

from collections.abc import Mapping, Sequence
from typing import Any

from hybridlab.api.contract import Obj


def labels_of(obj: Obj) -> Mapping[str, str]:
    """Return the labels of an object; return an empty mapping if it has none."""
    return obj["metadata"].get("labels") or {}


def matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Match a LabelSelector against labels: None selects nothing, an empty selector everything."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return expressions_match(selector.get("matchExpressions") or (), labels)


def expressions_match(expressions: Sequence[Mapping[str, Any]], labels: Mapping[str, str]) -> bool:
    """Return whether all items of a list of ``{key, operator, values}`` hold."""
    return all(_holds(expression, labels) for expression in expressions)


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key = expression["key"]
    operator = expression["operator"]
    values: Sequence[str] = expression.get("values") or ()
    value = labels.get(key)
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            try:
                difference = int(value or "") - int(values[0])
            except (ValueError, IndexError):
                return False
            return difference > 0 if operator == "Gt" else difference < 0
    raise ValueError(f"unknown selector operator {operator!r}")


def node_term_matches(term: Mapping[str, Any], node: Obj) -> bool:
    """Match a NodeSelectorTerm: expressions over labels, fields over ``metadata.name``; an empty
    term matches nothing."""
    expressions = term.get("matchExpressions") or ()
    fields = term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return expressions_match(expressions, labels_of(node)) and expressions_match(
        fields, {"metadata.name": node["metadata"]["name"]}
    )
