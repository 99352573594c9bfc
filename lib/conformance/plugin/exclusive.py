# SPDX-License-Identifier: Apache-2.0
"""Makes each test wait for its turn, in every process that runs tests, before pytest's protocol of
the test begins.

A turn includes fixtures, teardown, and work that a test has started without waiting for its end.
The wait for a turn is not in the time that pytest, pytest-timeout and Allure measure: the plugin is
registered last, so its wrapper is the outermost.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import pytest

from conformance.catalog import catalog
from conformance.errors import SuiteError, first_line
from conformance.model.endpoint import OS
from conformance.plugin.judge.stash import PLANNED, WAITED
from conformance.plugin.state import State
from conformance.run.directory import BEGUN
from conformance.run.unrestored import ExclusiveMark
from conformance.schedule.order import order
from conformance.schedule.plan import assign_exclusivity
from conformance.schedule.scheduler_lock import Exclusivity, HeldLocks, ReadWriteGate

NOTICEABLE = 0.5
"""Waits of fewer seconds are only in conformance.json."""
ORDER = ("shared", "node", "cluster", "last")
"""The kinds of exclusivity, in the order in which their tests run. Tests that block other tests
come last, so that they block as few tests as possible."""


class Exclusive:
    """The pytest hooks by which tests wait for their turn."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.run = state.run
        self._gate: ReadWriteGate | None = None
        self._tell: Callable[[str], None] = lambda line: None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Decide which nodes each test has to itself. Tests that reveal the most known faults per
        second come first, exclusive tests last."""
        facts = self.run.facts
        directory = self.run.directory
        if not facts or not directory:
            return
        exclusivities = assign_exclusivity(
            [item.stash[PLANNED] for item in items], catalog(), facts, self.run.settings
        )
        for item, exclusivity in zip(items, exclusivities, strict=True):
            item.stash[PLANNED] = replace(item.stash[PLANNED], exclusivity=exclusivity)
        rivals = Counter(
            frozenset(exclusivity.nodes)
            for exclusivity in exclusivities
            if exclusivity.kind == "node"
        )
        items.sort(key=lambda item: _place(item, rivals))
        _take_turns(items, {node.name: node.os for node in facts.nodes})
        patience = self.run.settings.timings.run.progress_every
        self._gate = ReadWriteGate(
            directory.locks, (node.name for node in facts.nodes), patience=patience
        )
        self._gate.arrive()
        self._tell = self.run.progress().tell

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """Wait for the test's turn; afterwards notify other processes that pods may
        have changed.
        """
        if self._gate is None:
            return (yield)
        exclusivity = item.stash[PLANNED].exclusivity
        hold = self._gate.enter(
            exclusivity, f"{item.nodeid} on {self.run.settings.worker}", self._tell
        )
        try:
            mark = self._begin(item.nodeid, exclusivity)
            hold.began = time.monotonic()
            if exclusivity.exclusive:
                self._write(BEGUN, {**self._turn(item.nodeid, exclusivity), "began": hold.began})
            item.stash[WAITED] = hold.waited
            result = yield
            restoration = self.state.restoration
            if (
                mark and restoration.unrestored
            ):  # otherwise the test was interrupted; its changes are restored at the session's end
                restoration.unrestored.settle(
                    mark, restoration.not_put_back, everywhere=restoration.everywhere
                )
            return result
        finally:
            ended = time.monotonic()
            if exclusivity.exclusive:
                self.state.restoration.epoch.advance()
            hold.release_after(
                [future for ask in self.state.background for future in ask()],
                lambda: self._note(item.nodeid, exclusivity, hold, ended),
            )
            if nextitem is None:
                self._gate.leave()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Let exclusive turns of other processes begin before this process has cleaned up. Fixtures
        that are still set up after a run was cut short are torn down here. If the API server no
        longer answers, these fixtures cannot remove their objects; this must not prevent the run's
        report."""
        if self._gate is not None:
            self._gate.leave()
        try:
            # pytest does this later, but there any error would end the process
            session._setupstate.teardown_exact(None)
        except* SuiteError as errors:
            for error in errors.exceptions:
                self._tell(f"objects were not removed at the run's end: {first_line(error)}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Attach the duration of a noticeable wait to Allure's results; the wait is not part of the
        test's own time."""
        waited = item.stash.get(WAITED, 0.0)
        exclusivity = item.stash[PLANNED].exclusivity
        if waited >= NOTICEABLE:
            turn = f"{exclusivity} (exclusive)" if exclusivity.exclusive else "a turn beside others"
            self.state.attachments.text("waited", f"{waited:.1f} s for {turn}\n")

    def _begin(self, test: str, exclusivity: Exclusivity) -> ExclusiveMark | None:
        """Wait until other tests' changes are restored; return the mark of an exclusive turn."""
        restoration = self.state.restoration
        worker = self.run.settings.worker
        unrestored = restoration.unrestored
        assert unrestored is not None  # a run without these marks has no gate
        restoration.everywhere = False
        restoration.not_put_back = unrestored.before(exclusivity, f"{test} on {worker}", self._tell)
        if restoration.not_put_back or not exclusivity.exclusive:
            return None
        mark = ExclusiveMark(test=test, worker=worker, exclusivity=exclusivity)
        unrestored.mark(mark)
        return mark

    def _note(self, test: str, exclusivity: Exclusivity, hold: HeldLocks, ended: float) -> None:
        times = {
            "asked": hold.asked,
            "began": hold.began,
            "ended": ended,
            "released": hold.released,
        }
        self._write(".jsonl", {**self._turn(test, exclusivity), **times})

    def _turn(self, test: str, exclusivity: Exclusivity) -> dict[str, Any]:
        return {
            "test": test,
            "worker": self.run.settings.worker,
            "kind": exclusivity.kind,
            "node": exclusivity.node,
            "nodes": exclusivity.nodes if exclusivity.exclusive else (),
        }

    def _write(self, ending: str, line: Mapping[str, Any]) -> None:
        directory = self.run.directory
        assert directory is not None  # a run without a directory has no gate
        with (directory.turns / f"{self.run.settings.worker}{ending}").open(
            "a", encoding="utf-8"
        ) as file:
            file.write(json.dumps(line) + "\n")


def _take_turns(items: list[pytest.Item], systems: Mapping[str, OS]) -> None:
    """Let node-exclusive tests for Linux and for Windows alternate.

    A worker receives two tests at a time. If both were for Windows, the second would wait for the
    first although a Linux node is free. The system with more tests begins.
    """
    places = [
        place for place, item in enumerate(items) if item.stash[PLANNED].exclusivity.kind == "node"
    ]
    of_system: dict[OS, list[pytest.Item]] = {"windows": [], "linux": []}
    for place in places:
        of_system[systems[items[place].stash[PLANNED].exclusivity.node]].append(items[place])
    longer_first = sorted(of_system.values(), key=len, reverse=True)
    in_turns = [item for pair in zip_longest(*longer_first) for item in pair if item is not None]
    for place, item in zip(places, in_turns, strict=True):
        items[place] = item


def _place(item: pytest.Item, rivals: Mapping[frozenset[str], int]) -> tuple[int | bool, ...]:
    """Return a test's place in the order; tests in the same place stay in the order of their files.

    ``rivals``: for each set of nodes, the number of tests that have these nodes to themselves.
    Tests with the fewest rivals come first. They run at the same time as tests with more rivals,
    which have to wait for each other. Tests with long waits come after the tests of ``--quick``.
    """
    exclusivity = item.stash[PLANNED].exclusivity
    late = item.get_closest_marker("begins_early") is None
    kind = ORDER.index(exclusivity.kind)
    if exclusivity.kind != "shared":
        return kind, late, rivals[frozenset(exclusivity.nodes)]
    world, other, place = order().place(item.nodeid)
    return kind, world, other, other and late, place
