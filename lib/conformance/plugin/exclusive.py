"""In every process that runs tests: each takes its turn at the gate, around its whole protocol.

Fixtures and teardown lie inside, and so does work that a test has started and not waited for.  Waiting lies outside of
what pytest, pytest-timeout and Allure measure: the plugin is registered last, which makes its wrapper the outermost.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest

from conformance.catalog import Catalog, IsolationKind, catalog
from conformance.model.endpoint import OS
from conformance.model.facts import Facts
from conformance.plugin import plan
from conformance.plugin.judge import PLANNED, WAITED
from conformance.plugin.plan import PlannedTest
from conformance.plugin.progress import Progress
from conformance.plugin.state import State
from conformance.pods.placement import Placement
from conformance.run.gate import SHARED, Gate, Hold, Kind, Turn
from conformance.run.unrestored import Mark
from conformance.settings import Settings

NOTICEABLE = 0.5
"""s.  Shorter waits stand in conformance.json alone."""
ORDER = ("shared", "node", "cluster")
"""Tests that stop others come last, so that they stop as few as possible."""


def take_turns(tests: Iterable[PlannedTest], claims: Catalog, facts: Facts, settings: Settings) -> list[Turn]:
    """The turn of each test, the same in every process.

    Node-exclusive tests take one node of each build, dealt out over those of the build, or all ``--disruptive-node``.
    A test that will not run changes nothing, whatever it is about.
    """
    dealt: dict[OS, int] = {}
    found = []
    for test in tests:
        wanted = plan.isolation_of(test, claims)
        kinds = {one.kind for one in wanted}
        if not kinds & plan.CHANGING or plan.decide(test, claims, facts, settings).verdict:
            found.append(SHARED)
            continue
        whole = IsolationKind.DISRUPTIVE in kinds
        os: OS = next((one.os for one in wanted if one.os), "windows")
        number = dealt.get(os, 0)
        dealt[os] = number + 1
        nodes = [settings.disruptive_node] if settings.disruptive_node else _nodes(facts, settings, os, number)
        kind: Kind = "cluster" if whole or not nodes else "node"
        found.append(Turn(kind=kind, node=nodes[0] if nodes else "", also=tuple(nodes[1:]) if kind == "node" else ()))
    return found


def _nodes(facts: Facts, settings: Settings, os: OS, number: int) -> list[str]:
    """One covered node of each build: the one that a test of this number gets."""
    builds: dict[str, list[str]] = {}
    coverage = Placement(facts, settings.tolerations, cover=settings.cover).coverage(os)
    for node in sorted((one.node for one in coverage), key=lambda one: one.name):
        builds.setdefault(node.build, []).append(node.name)
    return [names[number % len(names)] for names in builds.values()]


class Exclusive:
    """The hooks around turns."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._gate: Gate | None = None
        self._tell: Callable[[str], None] = lambda line: None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Fix every test's turn, and put exclusive ones last."""
        facts, run = self.state.facts, self.state.run
        if not facts or not run:
            return
        turns = take_turns([item.stash[PLANNED] for item in items], catalog(), facts, self.state.settings)
        for item, turn in zip(items, turns, strict=True):
            item.stash[PLANNED] = replace(item.stash[PLANNED], turn=turn)
        items.sort(key=lambda item: ORDER.index(item.stash[PLANNED].turn.kind))
        patience = self.state.settings.timings.run.progress_every
        self._gate = Gate(run.locks, (node.name for node in facts.nodes), patience=patience)
        self._tell = Progress(config, patience).tell

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Wait for the test's turn; afterwards tell the others that pods may have changed."""
        if self._gate is None:
            return (yield)
        turn = item.stash[PLANNED].turn
        hold = self._gate.enter(turn, f"{item.nodeid} on {self.state.settings.worker}", self._tell)
        try:
            mark = self._begin(item.nodeid, turn)
            hold.began = time.monotonic()
            item.stash[WAITED] = hold.waited
            result = yield
            if mark and self.state.unrestored:  # else it was interrupted: what puts back runs at the session's end
                self.state.unrestored.settle(mark, self.state.not_put_back)
            return result
        finally:
            ended = time.monotonic()
            if turn.exclusive:
                self.state.epoch.advance()
            hold.release_after(self._under_way(), lambda: self._note(item.nodeid, turn, hold, ended))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Tell Allure's reader of a wait that a person would notice; it lies before the test's own time."""
        waited, turn = item.stash.get(WAITED, 0.0), item.stash[PLANNED].turn
        if waited >= NOTICEABLE:
            whose = f"{turn} to itself" if turn.exclusive else "a turn beside others"
            self.state.attachments.text("waited", f"{waited:.1f} s for {whose}\n")

    def _begin(self, test: str, turn: Turn) -> Mark | None:
        """Wait for what others have changed to be put back; the mark of an exclusive turn that may be used."""
        unrestored, worker = self.state.unrestored, self.state.settings.worker
        assert unrestored is not None  # the gate would not be there
        self.state.not_put_back = unrestored.before(turn, f"{test} on {worker}", self._tell)
        if self.state.not_put_back or not turn.exclusive:
            return None
        mark = Mark(test=test, worker=worker, turn=turn)
        unrestored.mark(mark)
        return mark

    def _under_way(self) -> list[Future[Any]]:
        return [one for ask in self.state.background for one in ask()]

    def _note(self, test: str, turn: Turn, hold: Hold, ended: float) -> None:
        """Record a turn that has ended."""
        assert self.state.run is not None  # the gate would not be there
        line = {
            "test": test,
            "worker": self.state.settings.worker,
            "kind": turn.kind,
            "node": turn.node,
            "asked": hold.asked,
            "began": hold.began,
            "ended": ended,
            "released": hold.released,
        }
        with (self.state.run.turns / f"{self.state.settings.worker}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
