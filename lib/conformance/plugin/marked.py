# SPDX-License-Identifier: Apache-2.0
"""The marks, parameters and fixtures of a test, read for the run."""

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
from conformance.stories.files import StoryFile
from conformance.verdicts.prospect import ClaimPart

CHANGES_NAMESPACES = frozenset({"temporary_namespace", "relabel_namespaces"})
"""Fixtures that label or delete a namespace."""
WHOLE_CLUSTER = re.compile(
    r"^kind: *(Staged)?(Global|Cluster|Admin|BaselineAdmin|Tier)", re.MULTILINE
)
"""Matches the line of a manifest that declares an object outside namespaces."""


def demanded(areas: Iterable[ModuleType]) -> dict[str, Conditions]:
    """Map each fixture that describes only one sort of cluster to the conditions of this sort: the
    attribute ``ABOUT`` of the class that the fixture returns."""
    found = {}
    for name, fixture in (pair for area in areas for pair in vars(area).items()):
        given = get_type_hints(fixture).get("return") if hasattr(fixture, "__wrapped__") else None
        if about := getattr(given, "ABOUT", None):
            found[name] = about
    return found


def planned(item: pytest.Item, catalog: Catalog, demands: Mapping[str, Conditions]) -> PlannedTest:
    """Read a collected test's marks and return the test as planned. Raise pytest.UsageError, naming
    the test.

    ``demands``: the result of :func:`demanded`.
    """
    callspec = getattr(item, "callspec", None)
    parameters = {name: str(value) for name, value in callspec.params.items()} if callspec else {}
    marks = item.iter_markers("verifies")
    parts = tuple(dict.fromkeys(_part(item, mark, parameters) for mark in marks))
    if not parts and not item.get_closest_marker("smoke"):
        raise pytest.UsageError(f"{item.nodeid} verifies no claim: add pytestmark = verifies(...)")
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
        raise pytest.UsageError(f"{item.nodeid}: alone_on={alone_on!r} is not an operating system")
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
    """Raise pytest.UsageError if a part reads facts that only some clusters have, but may also run
    on other clusters."""
    for fixture in demands.keys() & set(getattr(item, "fixturenames", ())):
        for part in parts:
            lacking = part.applies.missing(catalog[part.claim].applies.missing(demands[fixture]))
            if lacking != ALL:
                raise pytest.UsageError(
                    f"{item.nodeid}: fixture {fixture} describes only {lacking}, and {part.claim} is "
                    f"about other clusters, too: write verifies({part.claim!r}, part={part.part!r}, applies={lacking.plain})"
                )


def _filled(item: pytest.Item, mark: pytest.Mark, field: str, parameters: Mapping[str, str]) -> str:
    """Return a ``verifies`` mark with the test's parameters filled in.  Raise pytest.UsageError."""
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
    """Return the features that a test uses and needs rights for. The test's fixtures and manifests,
    and the isolation of its claims, show these features.

    ``nodes``: the test needs pods in a node's network, or HostProcess pods.
    """
    fixtures = set(getattr(item, "fixturenames", ()))
    kinds = {isolation.kind for isolation in isolation_of(parts, catalog)}
    disrupts = bool(kinds & CHANGING) or "journalled" in fixtures
    whole, labels = _applied(item)
    found = {
        "pods": "deployer" in fixtures,
        "service-backends": "own_backends" in fixtures,
        "policies": bool({"policy", "world", "story"} & fixtures),
        "disruption": disrupts,
        "pools": "own_pool" in fixtures,
        "node-status": "own_node_status" in fixtures,
        "cluster policies": whole,
        "namespaces": labels or bool(CHANGES_NAMESPACES & fixtures),
        "nodes": nodes or "hosts" in fixtures,
    }
    return tuple(name for name, needed in found.items() if needed)


def _applied(item: pytest.Item) -> tuple[bool, bool]:
    """Return whether a test applies cluster-wide objects, and whether it labels a namespace."""
    mark = item.get_closest_marker("manifest")
    callspec = getattr(item, "callspec", None)
    params = callspec.params if callspec else {}
    file = params.get("world") or params.get("story")
    if isinstance(file, WorldFile | StoryFile):
        return file.whole_cluster, file.labels_namespaces
    text = (MANIFESTS / mark.args[0]).read_text() if mark else ""
    return bool(WHOLE_CLUSTER.search(text)), False
