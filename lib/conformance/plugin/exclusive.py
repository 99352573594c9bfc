"""In every process that runs tests: each takes its turn at the gate, around its whole protocol.

Fixtures and teardown lie inside, and so does work that a test has started and not waited for.  Waiting lies outside of
what pytest, pytest-timeout and Allure measure: the plugin is registered last, which makes its wrapper the outermost.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest

from conformance.catalog import catalog
from conformance.plugin.judge import PLANNED, WAITED
from conformance.plugin.state import State
from conformance.run.gate import Gate, Hold, Turn
from conformance.run.plan import take_turns
from conformance.run.unrestored import TurnMark

NOTICEABLE = 0.5
"""s.  Shorter waits stand in conformance.json alone."""
ORDER = ("shared", "node", "cluster")
"""Tests that stop others come last, so that they stop as few as possible."""


class Exclusive:
    """The hooks around turns."""

    def __init__(self, state: State) -> None:
        self.state, self.run = state, state.run
        self._gate: Gate | None = None
        self._tell: Callable[[str], None] = lambda line: None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Fix every test's turn, and put exclusive ones last."""
        facts, directory = self.run.facts, self.run.directory
        if not facts or not directory:
            return
        turns = take_turns([item.stash[PLANNED] for item in items], catalog(), facts, self.run.settings)
        for item, turn in zip(items, turns, strict=True):
            item.stash[PLANNED] = replace(item.stash[PLANNED], turn=turn)
        items.sort(key=lambda item: ORDER.index(item.stash[PLANNED].turn.kind))
        patience = self.run.settings.timings.run.progress_every
        self._gate = Gate(directory.locks, (node.name for node in facts.nodes), patience=patience)
        self._tell = self.run.progress().tell

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Wait for the test's turn; afterwards tell the others that pods may have changed."""
        if self._gate is None:
            return (yield)
        turn = item.stash[PLANNED].turn
        hold = self._gate.enter(turn, f"{item.nodeid} on {self.run.settings.worker}", self._tell)
        try:
            mark = self._begin(item.nodeid, turn)
            hold.began = time.monotonic()
            item.stash[WAITED] = hold.waited
            result = yield
            restoration = self.state.restoration
            if mark and restoration.unrestored:  # else it was interrupted: what puts back runs at the session's end
                restoration.unrestored.settle(mark, restoration.not_put_back)
            return result
        finally:
            ended = time.monotonic()
            if turn.exclusive:
                self.state.restoration.epoch.advance()
            hold.release_after(self._under_way(), lambda: self._note(item.nodeid, turn, hold, ended))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Tell Allure's reader of a wait that a person would notice; it lies before the test's own time."""
        waited, turn = item.stash.get(WAITED, 0.0), item.stash[PLANNED].turn
        if waited >= NOTICEABLE:
            whose = f"{turn} to itself" if turn.exclusive else "a turn beside others"
            self.state.attachments.text("waited", f"{waited:.1f} s for {whose}\n")

    def _begin(self, test: str, turn: Turn) -> TurnMark | None:
        """Wait for what others have changed to be put back; the mark of an exclusive turn that may be used."""
        restoration, worker = self.state.restoration, self.run.settings.worker
        unrestored = restoration.unrestored
        assert unrestored is not None  # the gate would not be there
        restoration.not_put_back = unrestored.before(turn, f"{test} on {worker}", self._tell)
        if restoration.not_put_back or not turn.exclusive:
            return None
        mark = TurnMark(test=test, worker=worker, turn=turn)
        unrestored.mark(mark)
        return mark

    def _under_way(self) -> list[Future[Any]]:
        return [one for ask in self.state.background for one in ask()]

    def _note(self, test: str, turn: Turn, hold: Hold, ended: float) -> None:
        """Record a turn that has ended."""
        directory, worker = self.run.directory, self.run.settings.worker
        assert directory is not None  # the gate would not be there
        line = {
            "test": test,
            "worker": worker,
            "kind": turn.kind,
            "node": turn.node,
            "asked": hold.asked,
            "began": hold.began,
            "ended": ended,
            "released": hold.released,
        }
        with (directory.turns / f"{worker}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
