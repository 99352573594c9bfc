# SPDX-License-Identifier: Apache-2.0
"""Objects as tables, the output of ``kubectl get``.

The columns of a kind are in ``columns.py``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.api.http.ages import age
from hybridlab.api.http.columns import AGE, COLUMNS, CREATED, NAME, Column
from hybridlab.api.resources import CRD_V1, V3, Resource

_NAME_DESCRIPTION = "Name must be unique within a namespace."


_DEFAULT = (NAME, AGE)
_DEFAULT_CREATED = (NAME, CREATED)


def columns_of(resource: Resource) -> Sequence[Column]:
    """Return the columns of a resource."""
    if resource.columns:
        extra = tuple(_custom(column) for column in resource.columns)
        has_age = any(column.name.lower() == "age" for column in extra)
        return (_DEFAULT[0], *extra) if has_age else (_DEFAULT[0], *extra, _DEFAULT[1])
    default = _DEFAULT_CREATED if resource.group in {V3, CRD_V1} else _DEFAULT
    return COLUMNS.get(resource.name, default)


def _custom(column: Any) -> Column:
    """Make a column from an entry of additionalPrinterColumns."""
    steps = _steps(column["jsonPath"])
    is_date = column.get("type") == "date"

    def value(obj: Obj) -> Any:
        found = _walk(obj, steps)
        return age(found) if is_date and isinstance(found, str) else found

    return Column(
        column["name"], value, type=column.get("type", "string"), wide=bool(column.get("priority"))
    )


def _steps(path: str) -> list[str]:
    """Split a JSON path in the form that printer columns use:
    ``.status.conditions[?(@.type=="Ready")].status``."""
    steps = []
    current = ""
    depth = 0
    for char in path:
        if char == "." and depth == 0:
            if current:
                steps.append(current)
            current = ""
        elif char == "[":
            if depth == 0 and current:
                steps.append(current)
                current = ""
            depth += 1
            current += char
        else:
            depth -= char == "]"
            current += char
    if current:
        steps.append(current)
    return steps


def _walk(value: Any, steps: Sequence[str]) -> Any:
    for step in steps:
        if step.startswith("[?(@."):
            path, _, wanted = step[5:].rstrip("])").partition("==")
            items = value if isinstance(value, list) else []
            value = next(
                (item for item in items if str(item.get(path)) == wanted.strip("\"' ")), None
            )
        elif step.startswith("["):
            index = step[1:-1].strip("'\"")
            if isinstance(value, list):
                value = (
                    value[int(index)]
                    if index.lstrip("-").isdigit() and abs(int(index)) < len(value)
                    else None
                )
            elif isinstance(value, dict):
                value = value.get(index)
        elif isinstance(value, dict):
            value = value.get(step.replace("\\", ""))
        else:
            return None
    return value


def table(
    resource: Resource,
    objects: Sequence[Obj],
    metadata: Obj,
    *,
    include: str = "Metadata",
    with_columns: bool = True,
) -> Obj:
    """Return objects as a ``meta.k8s.io/v1`` Table; ``include``: None, Metadata or Object."""
    columns = columns_of(resource)
    forms: Mapping[str, Callable[[Obj], Obj | None]] = {
        "None": lambda obj: None,
        "Object": lambda obj: obj,
    }
    form = forms.get(include, partial)
    rows = [
        {"cells": [column.value(obj) for column in columns], "object": form(obj)} for obj in objects
    ]
    definitions = [
        {
            "name": column.name,
            "type": column.type,
            "format": "name" if column.name == "Name" else "",
            "description": _NAME_DESCRIPTION if column.name == "Name" else "",
            "priority": 1 if column.wide else 0,
        }
        for column in columns
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions if with_columns else None,
        "rows": rows,
    }


def partial(obj: Obj) -> Obj:
    """Return only an object's metadata, as PartialObjectMetadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj["metadata"],
    }
