"""What a test says about itself by marks, parameters and fixtures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

import pytest

from conformance.catalog import (
    Catalog,
    Needs,
)
from conformance.model.endpoint import OS
from conformance.run.plan import CHANGING, ClaimPart, PlannedTest, isolation_of


def planned(item: pytest.Item, catalog: Catalog) -> PlannedTest:
    """A collected test's marks, read.  Raises pytest.UsageError, naming the test."""
    callspec = getattr(item, "callspec", None)
    parameters = {name: str(value) for name, value in callspec.params.items()} if callspec else {}
    parts: list[ClaimPart] = []
    for mark in item.iter_markers("verifies"):
        part = _filled(item, mark, "part", parameters)
        alone_on = _filled(item, mark, "alone_on", parameters)
        if alone_on not in ("", *get_args(OS)):
            raise pytest.UsageError(f"{item.nodeid}: alone_on={alone_on!r} is no operating system")
        entry = ClaimPart(
            claim=mark.args[0], part=part, active=mark.kwargs.get("active", False),
            alone_on=alone_on or None,  # type: ignore[arg-type]
        )  # fmt: skip
        if entry not in parts:
            parts.append(entry)
    if not parts and not item.get_closest_marker("smoke"):
        raise pytest.UsageError(f"{item.nodeid} says of no claim that it verifies it: add pytestmark = verifies(...)")
    needs = Needs()
    for mark in item.iter_markers("needs"):
        needs = needs.plus(mark.args[0])
    for ident in {part.claim for part in parts}:
        needs = needs.plus(catalog[ident].needs)
    uses = _uses(item, parts, catalog)
    applied = item.get_closest_marker("manifest")
    otherwise = bool(applied and applied.kwargs.get("otherwise"))
    return PlannedTest(test=item.nodeid, parts=tuple(parts), needs=needs, uses=uses, otherwise=otherwise)


def _filled(item: pytest.Item, mark: pytest.Mark, field: str, parameters: Mapping[str, str]) -> str:
    """What a ``verifies`` mark says, with the test's parameters in it.  Raises pytest.UsageError."""
    given = str(mark.kwargs.get(field, ""))
    try:
        return given.format_map(parameters)
    except (KeyError, ValueError) as error:
        raise pytest.UsageError(
            f"{item.nodeid}: verifies({mark.args[0]!r}, {field}={given!r}) names {error}, "
            f"but the test has parameters {', '.join(parameters) or 'none'}"
        ) from None


def _uses(item: pytest.Item, parts: Sequence[ClaimPart], catalog: Catalog) -> tuple[str, ...]:
    """What a test takes rights for: seen from the fixtures that it asks for, and from its claims' isolation."""
    fixtures = set(getattr(item, "fixturenames", ()))
    kinds = {isolation.kind for isolation in isolation_of(parts, catalog)}
    disrupts = bool(kinds & CHANGING) or "journalled" in fixtures
    found = {"pods": "deployer" in fixtures, "policies": "policy" in fixtures, "disruption": disrupts}
    return tuple(name for name, needed in found.items() if needed)
