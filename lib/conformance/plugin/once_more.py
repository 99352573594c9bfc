"""In every process that runs tests: those that were put off are run once more when all others of it have ended.

The session's fixtures, the worker's pods among them, last until then: what is asked once more is the same path.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import zip_longest
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from conformance.model.counted import counted
from conformance.plugin.judge import PUT_OFF
from conformance.plugin.state import State


class OnceMore:
    """The hooks around the last test of a process."""

    def __init__(self, state: State) -> None:
        self.state = state

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """After the last test, outside of its turn, run what was put off; each takes a turn of its own."""
        result = yield
        if nextitem is None:
            again, self.state.put_off = self.state.put_off, []
            if again and not (item.session.shouldstop or item.session.shouldfail):
                self._run(item, again)
        return result

    def _run(self, last: pytest.Item, again: Sequence[pytest.Item]) -> None:
        what = f"{counted(len(again), 'test')} in which a path wavered that had been open"
        self.state.run.progress().tell(f"run once more now: {what}")
        self.state.restoration.epoch.advance()  # pods may have changed since
        worker: Any = _worker_of_xdist(last.config)
        for item, following in zip_longest(again, again[1:]):
            item.stash[PUT_OFF] = False
            if worker:  # it takes each report for one of the test that it was told to run
                worker.item_index = item.session.items.index(item)
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        if worker:
            worker.item_index = last.session.items.index(last)


class LastTest:
    """Runs a process's last test; in pytest's place, since whether it is the last is known only when it has ended."""

    def __init__(self, state: State) -> None:
        self.state = state

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """As pytest's own, but that the session's fixtures stay while tests are put off."""
        if nextitem is not None:
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        runtestprotocol(item, nextitem=_Following(self.state, item.session))  # type: ignore[arg-type]
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True


class _Following:
    """Stands where pytest looks for the next test: of that it asks which collectors are to stay set up."""

    def __init__(self, state: State, session: pytest.Session) -> None:
        self._state, self._session = state, session

    def listchain(self) -> list[pytest.Session]:
        """The session, if a test is put off; else nothing."""
        return [self._session] if self._state.put_off else []


def _worker_of_xdist(config: pytest.Config) -> object:
    """The part of xdist that hands reports on; None: this is no process of xdist."""
    return next((one for one in config.pluginmanager.get_plugins() if hasattr(one, "run_one_test")), None)
