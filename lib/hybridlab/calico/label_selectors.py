"""Kubernetes LabelSelector objects as Calico selectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hybridlab.calico.selectors import Compare, Has, In, Not, Selector, SelectorError, both


def from_label_selector(selector: Mapping[str, Any]) -> Selector:
    """``matchLabels`` and ``matchExpressions``, all of which must hold; an empty one matches everything.

    Raises SelectorError for an operator that Kubernetes does not have.
    """
    parts: list[Selector] = [
        Compare(label, "==", value) for label, value in sorted((selector.get("matchLabels") or {}).items())
    ]
    for expression in selector.get("matchExpressions") or ():
        label, operator = expression["key"], expression["operator"]
        values = frozenset(expression.get("values") or ())
        match operator:
            case "In" | "NotIn":
                parts.append(In(label, values, negated=operator == "NotIn"))
            case "Exists":
                parts.append(Has(label))
            case "DoesNotExist":
                parts.append(Not(Has(label)))
            case _:
                raise SelectorError(f"matchExpressions on {label!r}: unknown operator {operator!r}")
    return both(*parts)
