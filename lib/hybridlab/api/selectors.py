# SPDX-License-Identifier: Apache-2.0
"""Label and field selectors, compiled once into predicates.

The grammar of label selectors is in ``label_selectors``. Field selectors compare exact values with
``=``, ``==`` and ``!=``; the caller specifies which fields a kind supports. Label selectors inside
objects (``matchLabels``/``matchExpressions``) are compiled here too.
"""

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.api.errors import bad_request
from hybridlab.api.label_selectors import LabelTest, Requirement, parse

ObjectTest = Callable[[Obj], bool]

_BOOLEAN_FIELDS = frozenset({"spec.hostNetwork", "spec.unschedulable"})
"""Fields that are false if they are not set."""
_NO_LABELS: Mapping[str, str] = {}
_OPERATORS: Mapping[str, str] = {"In": "in", "NotIn": "notin", "Exists": "exists"}
"""The names of matchExpressions' operators in a parsed selector. DoesNotExist is handled elsewhere.
"""


def _split(text: str) -> list[str]:
    """Split at commas that are not inside parentheses."""
    parts = []
    depth = 0
    current = ""
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += char
    parts.append(current)
    return [part.strip() for part in parts]


@lru_cache(maxsize=512)
def label_selector(text: str) -> LabelTest | None:
    """Compile a label selector; return None if it selects everything. Raise ApiError 400 for a
    wrong syntax."""
    if not text.strip():
        return None
    tests = [requirement.test for requirement in parse(text)]
    if len(tests) == 1:
        return tests[0]
    return lambda labels: all(test(labels) for test in tests)


def object_selector(selector: Mapping[str, Any] | None) -> LabelTest:
    """Compile a ``metav1.LabelSelector``: None selects nothing, and an empty selector selects
    everything."""
    if selector is None:
        return lambda labels: False
    wanted: Mapping[str, str] = selector.get("matchLabels") or {}
    tests = [
        Requirement(
            item["key"],
            _OPERATORS.get(item["operator"], "absent"),
            frozenset(item.get("values") or ()),
        ).test
        for item in selector.get("matchExpressions") or ()
    ]
    return lambda labels: (
        all(labels.get(key) == value for key, value in wanted.items())
        and all(test(labels) for test in tests)
    )


def field_value(obj: Obj, path: str) -> str:
    """Return the value at a dotted path in the form that field selectors compare; return an empty
    string for an absent field."""
    if path == "source":  # of Events (ToSelectableFields in pkg/registry/core/event/strategy.go)
        return (obj.get("source") or {}).get("component") or obj.get("reportingComponent") or ""
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


def _unknown_field(path: str, allowed: Collection[str], *, custom: bool) -> str:
    """Return the error for a field that field selectors of the kind may not use. The wording
    differs for kinds without field selectors of their own."""
    if custom or len(allowed) > 2:
        return f"field label not supported: {path}"
    return f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def _one_field(part: str, allowed: Collection[str], *, custom: bool) -> tuple[str, bool, str]:
    for operator in ("!=", "==", "="):
        path, found, value = part.partition(operator)
        if found:
            path = path.strip()
            if path not in allowed:
                raise bad_request(_unknown_field(path, allowed, custom=custom))
            return path, operator != "!=", value.strip()
    raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")


def compile_test(
    labels: str, fields: str, allowed: Collection[str], *, custom: bool = False
) -> ObjectTest | None:
    """Compile both selectors into a single predicate over objects; return None if both select
    everything.

    ``allowed`` are the field paths that the kind supports; any other path raises ApiError 400.
    ``custom``: the kind is a custom resource, for which the messages differ.
    """
    by_label = label_selector(labels)
    wanted = (
        [_one_field(part, allowed, custom=custom) for part in _split(fields)]
        if fields.strip()
        else []
    )
    if by_label is None and not wanted:
        return None

    def test(obj: Obj) -> bool:
        if by_label is not None and not by_label(obj["metadata"].get("labels") or _NO_LABELS):
            return False
        return all((field_value(obj, path) == value) is equal for path, equal, value in wanted)

    return test


def required_name(fields: str) -> str | None:
    """Return NAME if a field selector requires ``metadata.name=NAME``, else None."""
    for part in fields.split(","):
        path, found, value = part.partition("=")
        if found and path.strip() == "metadata.name":
            return value.lstrip("=").strip()
    return None
