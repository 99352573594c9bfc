"""Label and field selectors, compiled once into predicates.

Label selectors take the whole grammar (``a=b``, ``a==b``, ``a!=b``, ``a in (x,y)``, ``a notin (x,y)``, ``a``,
``!a``).  Field selectors compare exact values with ``=``, ``==`` and ``!=``; which fields a kind supports is the
caller's knowledge.  Label selectors inside objects (``matchLabels``/``matchExpressions``) compile here too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any

from hybridlab.api.contract import ApiError, Obj
from hybridlab.api.errors import bad_request

LabelTest = Callable[[Mapping[str, str]], bool]
ObjectTest = Callable[[Obj], bool]

_KEY = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9.]*[A-Za-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_SET = re.compile(rf"^({_KEY})\s+(in|notin)\s*\(([^()]*)\)$")
_EQUALS = re.compile(rf"^({_KEY})\s*(==|=|!=)\s*({_VALUE})$")
_COMPARE = re.compile(rf"^({_KEY})\s*(>|<)\s*(-?\d+)$")
_EXISTS = re.compile(rf"^(!?)\s*({_KEY})$")
_VALUE_ONLY = re.compile(rf"^{_VALUE}$")
_BOOLEAN_FIELDS = frozenset({"spec.hostNetwork", "spec.unschedulable"})
"""Fields that are false when they are not set."""
_NO_LABELS: Mapping[str, str] = {}


def _split(text: str) -> list[str]:
    """Split at commas that are not inside parentheses."""
    parts, depth, current = [], 0, ""
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += char
    parts.append(current)
    return [part.strip() for part in parts]


def _one_label(part: str, whole: str) -> LabelTest:
    if found := _SET.match(part):
        key, operator, listed = found.groups()
        values = frozenset(item.strip() for item in listed.split(","))
        if not all(_VALUE_ONLY.match(value) for value in values):
            raise bad_request(f'unable to parse requirement: invalid label value in "{whole}"')
        if operator == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: key not in labels or labels[key] not in values
    if found := _EQUALS.match(part):
        key, operator, value = found.groups()
        if operator == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _COMPARE.match(part):
        key, operator, number = found.groups()
        sign = 1 if operator == ">" else -1

        def compares(labels: Mapping[str, str]) -> bool:
            try:
                return sign * (int(labels[key]) - int(number)) > 0
            except (KeyError, ValueError):
                return False

        return compares
    if found := _EXISTS.match(part):
        absent, key = found.groups()
        if absent:
            return lambda labels: key not in labels
        return lambda labels: key in labels
    raise bad_request(f'unable to parse requirement: couldn\'t parse the selector string "{whole}" at "{part}"')


@lru_cache(maxsize=512)
def label_selector(text: str) -> LabelTest | None:
    """Compile a label selector; None when it selects everything.  Raises ApiError 400 on bad syntax."""
    if not text.strip():
        return None
    tests = [_one_label(part, text) for part in _split(text)]
    if len(tests) == 1:
        return tests[0]
    return lambda labels: all(test(labels) for test in tests)


def object_selector(selector: Mapping[str, Any] | None) -> LabelTest:
    """Compile a ``metav1.LabelSelector``; None selects nothing and an empty one everything."""
    if selector is None:
        return lambda labels: False
    wanted: Mapping[str, str] = selector.get("matchLabels") or {}
    expressions = [
        (item["key"], item["operator"], frozenset(item.get("values") or ()))
        for item in selector.get("matchExpressions") or ()
    ]

    def matches(labels: Mapping[str, str]) -> bool:
        if any(labels.get(key) != value for key, value in wanted.items()):
            return False
        for key, operator, values in expressions:
            if operator == "In":
                ok = labels.get(key) in values
            elif operator == "NotIn":
                ok = key not in labels or labels[key] not in values
            else:
                ok = (key in labels) == (operator == "Exists")
            if not ok:
                return False
        return True

    return matches


def field_value(obj: Obj, path: str) -> str:
    """Return the value at a dotted path as field selectors compare it; absent is the empty string."""
    value: Any = obj
    for step in path.split("."):
        if not isinstance(value, dict):
            return ""
        value = value.get(step)
    if value is None:
        return "false" if path in _BOOLEAN_FIELDS else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _one_field(part: str, allowed: Collection[str]) -> tuple[str, bool, str]:
    for operator in ("!=", "==", "="):
        path, found, value = part.partition(operator)
        if found:
            path = path.strip()
            if path not in allowed:
                raise bad_request(f"field label not supported: {path}")
            return path, operator != "!=", value.strip()
    raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")


def compile_test(labels: str, fields: str, allowed: Collection[str]) -> ObjectTest | None:
    """Compile both selectors into one predicate over objects; None when everything is selected.

    ``allowed`` are the field paths that the kind supports; any other raises ApiError 400.
    """
    by_label = label_selector(labels)
    wanted = [_one_field(part, allowed) for part in _split(fields)] if fields.strip() else []
    if by_label is None and not wanted:
        return None

    def test(obj: Obj) -> bool:
        if by_label is not None and not by_label(obj["metadata"].get("labels") or _NO_LABELS):
            return False
        return all((field_value(obj, path) == value) is equal for path, equal, value in wanted)

    return test


def exact_name(fields: str) -> str | None:
    """Return NAME when the selector is just ``metadata.name=NAME`` (a get in disguise), else None."""
    path, found, value = fields.partition("=")
    if found and path.strip() == "metadata.name" and "," not in value:
        return value.lstrip("=").strip()
    return None


__all__ = [
    "ApiError",
    "LabelTest",
    "ObjectTest",
    "compile_test",
    "exact_name",
    "field_value",
    "label_selector",
    "object_selector",
]
