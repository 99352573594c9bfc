# SPDX-License-Identifier: Apache-2.0
"""What a test says about itself by marks, parameters and fixtures."""

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import get_args, get_type_hints

import pytest

from conformance.catalog import (
    ALL,
    Catalog,
    Conditions,
    Needs,
)
from conformance.enforcement.worlds import WorldFile
from conformance.model.endpoint import OS
from conformance.product import MANIFESTS
from conformance.schedule.plan import CHANGING, PlannedTest, isolation_of
from conformance.verdicts.prospect import ClaimPart

CHANGES_NAMESPACES = frozenset({"temporary_namespace", "relabel_namespaces"})
"""Fixtures that label or delete a namespace."""
WHOLE_CLUSTER = re.compile(
    r"^kind: *(Staged)?(Global|Cluster|Admin|BaselineAdmin|Tier)", re.MULTILINE
)
"""In a manifest: an object that no namespace contains."""


def demanded(areas: Iterable[ModuleType]) -> dict[str, Conditions]:
    """Fixture to the only sort of cluster of which it tells anything: ``ABOUT`` of the class that it gives."""
    found = {}
    for name, fixture in (pair for area in areas for pair in vars(area).items()):
        given = get_type_hints(fixture).get("return") if hasattr(fixture, "__wrapped__") else None
        if about := getattr(given, "ABOUT", None):
            found[name] = about
    return found


def planned(item: pytest.Item, catalog: Catalog, demands: Mapping[str, Conditions]) -> PlannedTest:
    """A collected test's marks, read.  Raises pytest.UsageError, naming the test.

    ``demands``: :func:`demanded`.
    """
    callspec = getattr(item, "callspec", None)
    parameters = {name: str(value) for name, value in callspec.params.items()} if callspec else {}
    marks = item.iter_markers("verifies")
    parts = tuple(dict.fromkeys(_part(item, mark, parameters) for mark in marks))
    if not parts and not item.get_closest_marker("smoke"):
        raise pytest.UsageError(
            f"{item.nodeid} says of no claim that it verifies it: add pytestmark = verifies(...)"
        )
    _refuse_foreign_facts(item, parts, catalog, demands)
    of_test = (mark.args[0] for mark in item.iter_markers("needs"))
    of_claims = (catalog[ident].needs for ident in {part.claim for part in parts})
    needs = functools.reduce(Needs.plus, [*of_test, *of_claims], Needs())
    applied = item.get_closest_marker("manifest")
    fixtures = set(getattr(item, "fixturenames", ()))
    return PlannedTest(
        test=item.nodeid,
        parts=parts,
        needs=needs,
        uses=_uses(item, parts, catalog, nodes=needs.host_network or needs.host_process),
        otherwise=bool(applied and applied.kwargs.get("otherwise")),
        last=item.get_closest_marker("after_all_others") is not None,
        one_node="own_node" in fixtures and "own_nodes" not in fixtures,
    )


def _part(item: pytest.Item, mark: pytest.Mark, parameters: Mapping[str, str]) -> ClaimPart:
    """Return the part of a claim that a ``verifies`` mark names. Raise pytest.UsageError."""
    part = _filled(item, mark, "part", parameters)
    alone_on = _filled(item, mark, "alone_on", parameters)
    if alone_on not in ("", *get_args(OS)):
        raise pytest.UsageError(f"{item.nodeid}: alone_on={alone_on!r} is no operating system")
    return ClaimPart(
        claim=mark.args[0],
        part=part,
        active=mark.kwargs.get("active", False),
        alone_on=alone_on or None,  # type: ignore[arg-type]
        applies=mark.kwargs.get("applies", ALL),
        provisional=mark.kwargs.get("provisional", False),
    )


def _refuse_foreign_facts(
    item: pytest.Item,
    parts: Sequence[ClaimPart],
    catalog: Catalog,
    demands: Mapping[str, Conditions],
) -> None:
    """Raises pytest.UsageError where a part reads what only one sort of cluster has, and may run on others."""
    for fixture in demands.keys() & set(getattr(item, "fixturenames", ())):
        for part in parts:
            lacking = part.applies.missing(catalog[part.claim].applies.missing(demands[fixture]))
            if lacking != ALL:
                raise pytest.UsageError(
                    f"{item.nodeid}: fixture {fixture} tells of {lacking} alone, and {part.claim} is about other "
                    f"clusters, too: say verifies({part.claim!r}, part={part.part!r}, applies={lacking.plain})"
                )


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


def _uses(
    item: pytest.Item, parts: Sequence[ClaimPart], catalog: Catalog, *, nodes: bool
) -> tuple[str, ...]:
    """What a test takes rights for, by the fixtures that it asks for, what it applies, and its claims' isolation.

    ``nodes``: it needs pods in a node's network, or HostProcess pods.
    """
    fixtures = set(getattr(item, "fixturenames", ()))
    kinds = {isolation.kind for isolation in isolation_of(parts, catalog)}
    disrupts = bool(kinds & CHANGING) or "journalled" in fixtures
    whole, labels = _applied(item)
    found = {
        "pods": "deployer" in fixtures,
        "policies": bool({"policy", "world"} & fixtures),
        "disruption": disrupts,
        "cluster policies": whole,
        "namespaces": labels or bool(CHANGES_NAMESPACES & fixtures),
        "nodes": nodes or "hosts" in fixtures,
    }
    return tuple(name for name, needed in found.items() if needed)


def _applied(item: pytest.Item) -> tuple[bool, bool]:
    """Whether a test applies something of the whole cluster by its manifest or world, and labels a namespace by it."""
    mark = item.get_closest_marker("manifest")
    callspec = getattr(item, "callspec", None)
    world = callspec.params.get("world") if callspec else None
    if isinstance(world, WorldFile):
        return world.whole_cluster, world.labels_namespaces
    text = (MANIFESTS / mark.args[0]).read_text() if mark else ""
    return bool(WHOLE_CLUSTER.search(text)), False
