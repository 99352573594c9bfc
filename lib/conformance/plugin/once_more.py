# SPDX-License-Identifier: Apache-2.0
"""Postponed tests, in every process that runs tests: they run once more after all other tests.

The session's fixtures, such as the worker's pods, live until then, so that the same path is probed
again.
"""

from collections.abc import Generator, Sequence
from itertools import zip_longest
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from conformance.plugin.judge.stash import PUT_OFF
from conformance.plugin.state import State


class OnceMore:
    """The outermost hook around tests."""

    def __init__(self, state: State) -> None:
        self.state = state

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """Run the postponed tests after the last test, when its turn has ended: each postponed test
        waits for a turn of its own."""
        result = yield
        if (
            nextitem is None
            and self.state.put_off
            and not (item.session.shouldstop or item.session.shouldfail)
        ):
            again = self.state.put_off
            self.state.put_off = []
            self.state.run.progress().tell(
                f"run once more now, since the disturbance may have passed: {', '.join(item.nodeid for item in again)}"
            )
            self.state.restoration.epoch.advance()  # pods may have changed since the first run
            self._run(item, again)
        return result

    @staticmethod
    def _run(last: pytest.Item, again: Sequence[pytest.Item]) -> None:
        plugins = last.config.pluginmanager.get_plugins()
        items = last.session.items
        xdist: Any = next((plugin for plugin in plugins if hasattr(plugin, "run_one_test")), None)
        for item, following in zip_longest(again, again[1:]):
            if xdist:  # xdist's worker finds the test of each report by this index
                xdist.item_index = items.index(item)
            item.stash[PUT_OFF] = False
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        if xdist:
            xdist.item_index = items.index(last)


class LastTest:
    """A hook that runs the last test of a process in pytest's place, since this test may itself be
    postponed and run again."""

    def __init__(self, state: State) -> None:
        self.state = state

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> bool | None:
        """Run pytest's own protocol, but keep the session's fixtures while tests are postponed."""
        if nextitem is not None:
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        runtestprotocol(item, nextitem=_Following(self.state, item.session))  # type: ignore[arg-type]
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True


class _Following:
    """A stand-in for the next test. Pytest keeps the fixtures that the next test's listchain
    names."""

    def __init__(self, state: State, session: pytest.Session) -> None:
        self._state = state
        self._session = session

    def listchain(self) -> list[pytest.Session]:
        """Return the session if a test is postponed; otherwise an empty list."""
        return [self._session] if self._state.put_off else []
