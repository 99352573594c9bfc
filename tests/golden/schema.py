# SPDX-License-Identifier: Apache-2.0
"""The documented schema of conformance.json, by which tests check reports."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

FILE = Path(__file__).parents[2] / "docs" / "schema" / "conformance.schema.json"


def schema() -> dict[str, Any]:
    """Return the schema as it is documented."""
    content: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return content


def problems(report: Any) -> list[str]:
    """Return place and reason of each part of a report that the schema does not allow or does not
    describe."""
    return [
        f"{error.json_path}: {error.message[:200]}" for error in _validator().iter_errors(report)
    ]


@cache
def _validator() -> Any:
    return jsonschema.Draft202012Validator(_closed(schema()))


def _closed(part: Any) -> Any:
    """Return the schema in a form that also refuses fields which it does not describe, since
    readers must find every field there."""
    if isinstance(part, list):
        return [_closed(entry) for entry in part]
    if not isinstance(part, dict):
        return part
    inner = {name: _closed(entry) for name, entry in part.items()}
    described = isinstance(part.get("properties"), dict) and part.get("type") == "object"
    return {"additionalProperties": False, **inner} if described else inner
