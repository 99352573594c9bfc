# SPDX-License-Identifier: Apache-2.0
"""The tests that a run's options select, and the words and labels by which tests are selected."""

from typing import Any

import pytest

from conformance.catalog import Catalog
from conformance.plugin.judge.stash import PLANNED
from conformance.plugin.options.refusals import shard
from conformance.report import allure_results
from conformance.schedule import plan
from conformance.schedule.order import order
from conformance.schedule.plan import PlannedTest


def in_shard(items: list[pytest.Item], part: str) -> set[str]:
    """Return the node ids of the tests of ``part`` (``--shard``), without disruptive tests. Each
    part includes tests that use the standing watch, since each run has a watch of its own.
    """
    names = sorted(item.nodeid for item in items)
    found = shard(part)
    if found is None:
        return set(names)
    number, parts = found
    last = {item.nodeid for item in items if item.stash[PLANNED].last}
    changing = {item.nodeid for item in items if item.get_closest_marker("disruptive")}
    return {*[name for name in names if name not in last | changing][number - 1 :: parts], *last}


def mark(item: pytest.Item, test: PlannedTest, known: Catalog) -> None:
    """Give a test the words by which ``-k`` and ``-m`` select, and its labels for Allure."""
    claims = test.claims(known)
    for claim in claims:
        item.extra_keyword_matches |= claim.tags | {claim.id}
    isolations = plan.isolation_of(test.parts, known)
    if any(isolation.kind in plan.CHANGING for isolation in isolations):
        item.add_marker(pytest.mark.disruptive)  # this mark also makes "disruptive" a keyword of -k
    story = allure_results.story(item.name)
    labels = [*allure_results.labels(claims), ("story", story), ("test", item.nodeid)]
    for kind, value in labels:
        item.add_marker(pytest.mark.allure_label(value, label_type=kind))


def subjects(item: pytest.Item, known: Catalog) -> set[str]:
    """Return a test's claims and tags. The tag ``windows`` is left out if the test is only about
    Linux."""
    test = item.stash[PLANNED]
    found = {word for claim in test.claims(known) for word in (claim.id, *claim.tags)}
    return found if test.about_windows else found - {"windows"}


def is_chosen(item: pytest.Item, option: Any, again: frozenset[str] | None, *, watch: bool) -> bool:
    """Return whether the options select a test. ``again``: the tests to which a rerun is limited.
    ``watch``: the run has a standing watch."""
    test = item.stash[PLANNED]
    conditions = (
        not option.smoke or item.get_closest_marker("smoke"),
        not option.quick
        or (order().is_quick(item.nodeid) and not item.get_closest_marker("disruptive")),
        not option.claim or any(part.claim in option.claim for part in test.parts),
        again is None or item.nodeid in again,
        not option.world or item.get_closest_marker("each_world"),
        (not option.story and option.explore is None) or item.get_closest_marker("each_story"),
        watch or not test.last,
    )
    return all(conditions)
