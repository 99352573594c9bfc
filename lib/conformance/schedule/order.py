# SPDX-License-Identifier: Apache-2.0
"""The order of tests, and the selection of ``--quick``. Both follow from the faults that the tests
detect and from their durations.

The figures are packaged (``tests.json``), written by ``python -m benchmarks.seconds``. A newer test
has no figures. It gets the figures of its function's other cases, or else comes after all other
tests.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from conformance.model.counted import counted

WORLDS = ("policy/test_worlds.py::", "policy/test_stories.py::")
"""Tests of worlds (sets of policies) and of stories (worlds with events). They run last among the
tests that run at the same time as others, since they are long."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """The packaged figures."""

    places: Mapping[str, int]
    """The position of each test, or function."""
    quick: frozenset[str]
    """The tests of ``--quick``."""
    tests: Mapping[str, int]
    """The number of tests that the suite has for each claim."""
    lab: Mapping[str, float] = field(default_factory=dict)
    """The duration of each test, or function, in seconds of one worker on a lab."""
    real: Mapping[str, float] = field(default_factory=dict)
    """The duration of each test, or function, in seconds of one worker on a lab with a real
    cluster's timings."""

    def seconds(self, test: str, *, lab: bool) -> float:
        """Return the packaged duration of a test in seconds of one worker. For a test without
        figures, return the mean of all tests.

        ``lab``: the duration on a lab with its own timings; otherwise on a lab with a real
        cluster's timings.
        """
        known = self.lab if lab else self.real
        key = key_of(test)
        mean = sum(known.values()) / len(known) if known else 0.0
        return known.get(key, known.get(_function(key), mean))

    def place(self, test: str) -> tuple[bool, bool, int]:
        """Return the sort key of a test: tests of worlds come last, and tests of ``--quick``
        first."""
        key = key_of(test)
        among = self.places.get(key, self.places.get(_function(key), len(self.places)))
        return key.startswith(WORLDS), not self.is_quick(test), among

    def is_quick(self, test: str) -> bool:
        """Return whether a test belongs to ``--quick``."""
        return key_of(test) in self.quick

    def share(self, claim: str, ran: Iterable[str], parts: Iterable[str], all_parts: int) -> str:
        """Return ``in 2 of 14 parts`` for a claim that a run decides only in part; empty if the run
        decides the whole claim. ``ran``, ``parts``: the claim's tests in the run, and their parts.
        If the claim has no parts, its tests are counted instead."""
        decided = len({part for part in parts if part})
        number = len(set(ran))
        if 0 < decided < all_parts:
            return f"in {decided} of {counted(all_parts, 'part')}"
        of = self.tests.get(claim, 0)
        return f"in {number} of {counted(of, 'test')}" if 0 < number < of else ""


def key_of(test: str) -> str:
    """Return the part of a node id that begins with its area's folder, wherever the suites are."""
    path, _, name = test.partition("::")
    return "/".join(path.split("/")[-2:]) + f"::{name}"


def _function(key: str) -> str:
    return key.partition("[")[0]


@functools.cache
def order() -> Order:
    """Return the packaged order."""
    text = resources.files(__package__).joinpath("tests.json").read_text(encoding="utf-8")
    plain: dict[str, Any] = json.loads(text)
    names = [entry["test"] for entry in plain["tests"]]
    places = dict(zip(names, range(len(names)), strict=True))
    for name in reversed(names):
        places[_function(name)] = places[name]
    lab, real = (
        {
            name: entry[kind]
            for entry in reversed(plain["tests"])
            if entry[kind] is not None
            for name in (entry["test"], _function(entry["test"]))
        }
        for kind in ("lab", "real")
    )
    return Order(
        places=places,
        quick=frozenset(entry["test"] for entry in plain["tests"] if entry.get("quick")),
        tests=plain["claims"],
        lab=lab,
        real=real,
    )
