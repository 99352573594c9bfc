# SPDX-License-Identifier: Apache-2.0
"""Nested fields of objects whose parents may be absent or null."""

from collections.abc import Mapping
from typing import Any


def value_at(obj: Mapping[str, Any] | None, *path: str) -> Any:
    """Return the value below a path of keys; None where a step is absent or null."""
    found: Any = obj
    for key in path:
        found = (found or {}).get(key)
    return found


def mapping_at(obj: Mapping[str, Any] | None, *path: str) -> dict[str, Any]:
    """Return the mapping below a path of keys; an empty one where a step is absent or null."""
    return value_at(obj, *path) or {}


def list_at(obj: Mapping[str, Any] | None, *path: str) -> list[Any]:
    """Return the list below a path of keys; an empty one where a step is absent or null."""
    return value_at(obj, *path) or []
