# SPDX-License-Identifier: Apache-2.0
"""Kubernetes LabelSelector objects as Calico selectors, in Calico's text."""

from collections.abc import Iterator, Mapping
from typing import Any

from hybridlab.policy.selectors import SelectorError

PODS_ONLY = "projectcalico.org/orchestrator == 'k8s'"
"""A selector that matches no network set and no host endpoint: they lack this label."""
_OPERATORS = {
    "In": "{} in {{ '{}' }}",
    "NotIn": "{} not in {{ '{}' }}",
    "Exists": "has({})",
    "DoesNotExist": "! has({})",
}


def pods_selected(selector: Mapping[str, Any] | None) -> str:
    """Convert a podSelector to text; a missing or empty podSelector selects every pod. Raise
    SelectorError."""
    return " && ".join([PODS_ONLY, *_terms(selector or {})])


def namespaces_selected(selector: Mapping[str, Any] | None) -> str:
    """Convert a namespaceSelector to text: an empty selector selects all namespaces, a missing
    selector gives no text.

    Raise SelectorError.
    """
    return "" if selector is None else " && ".join(_terms(selector)) or "all()"


def _terms(selector: Mapping[str, Any]) -> Iterator[str]:
    yield from (
        f"{label} == '{value}'"
        for label, value in sorted((selector.get("matchLabels") or {}).items())
    )
    for expression in selector.get("matchExpressions") or ():
        label = expression["key"]
        operator = expression["operator"]
        if operator not in _OPERATORS:
            raise SelectorError(f"matchExpressions on {label!r}: unknown operator {operator!r}")
        yield _OPERATORS[operator].format(label, "', '".join(expression.get("values") or ()))
