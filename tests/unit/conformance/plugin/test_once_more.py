# SPDX-License-Identifier: Apache-2.0
"""Tests that were put off run once more after all others, in their order."""

from __future__ import annotations

from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.plugin.judge.stash import PUT_OFF
from conformance.plugin.once_more import OnceMore, _Following


class Session:
    """A process with some tests, of which some were put off."""

    def __init__(self, *put_off: int, xdist: bool = False, **stops: bool) -> None:
        self.ran: list[tuple[str, str | None, int | None]] = []
        self.told: list[str] = []
        self.epochs = 0
        self.worker = SimpleNamespace(run_one_test=None, item_index=0) if xdist else None
        plugins = [one for one in (self.worker,) if one]
        config = SimpleNamespace(pluginmanager=SimpleNamespace(get_plugins=lambda: plugins))
        session = SimpleNamespace(items=[], **{"shouldstop": False, "shouldfail": False} | stops)
        hook = SimpleNamespace(pytest_runtest_protocol=self.protocol)
        self.items: list[Any] = [
            SimpleNamespace(nodeid=name, ihook=hook, stash={}, session=session, config=config)
            for name in "abc"
        ]
        session.items = self.items
        self.state: Any = SimpleNamespace(
            put_off=[self.items[number] for number in put_off],
            run=SimpleNamespace(progress=lambda: SimpleNamespace(tell=self.told.append)),
            restoration=SimpleNamespace(epoch=SimpleNamespace(advance=self.advance)),
        )

    def advance(self) -> None:
        self.epochs += 1

    def protocol(self, item: Any, nextitem: Any) -> None:
        index = self.worker.item_index if self.worker else None
        self.ran.append((item.nodeid, nextitem and nextitem.nodeid, index))

    def ends(self, *, last: bool = True) -> None:
        """The last test, or one before it, has run."""
        hook: Generator[None, object, object] = OnceMore(self.state).pytest_runtest_protocol(
            self.items[-1], None if last else self.items[0]
        )
        next(hook)
        with pytest.raises(StopIteration) as end:
            hook.send(True)
        assert end.value.value is True, "what ran before counts"


def test_they_run_in_their_order_after_the_last_test() -> None:
    one = Session(2, 0)
    one.ends()
    assert one.ran == [("c", "a", None), ("a", None, None)]
    assert [item.stash for item in one.items] == [{PUT_OFF: False}, {}, {PUT_OFF: False}]
    assert one.told == ["run once more now, since the disturbance may have passed: c, a"]
    assert (one.state.put_off, one.epochs) == ([], 1)


def test_a_worker_reports_each_as_the_test_that_it_was_sent() -> None:
    one = Session(1, 0, xdist=True)
    one.ends()
    assert one.ran == [("b", "a", 1), ("a", None, 0)]
    assert one.worker
    assert one.worker.item_index == 2


@pytest.mark.parametrize(
    ("session", "last"),
    [
        pytest.param(Session(), True, id="none was put off"),
        pytest.param(Session(0), False, id="others follow"),
        pytest.param(Session(0, shouldstop=True), True, id="the run stops"),
        pytest.param(Session(0, shouldfail=True), True, id="the run fails"),
    ],
)
def test_otherwise_none_runs_again(session: Session, last: bool) -> None:
    before = [*session.state.put_off]
    session.ends(last=last)
    assert (session.ran, session.told, session.epochs) == ([], [], 0)
    assert session.state.put_off == before


def test_the_session_s_fixtures_stay_while_tests_are_put_off() -> None:
    one = Session(0)
    session: Any = one.items[0].session
    following = _Following(one.state, session)
    assert following.listchain() == [session]
    one.state.put_off = []
    assert following.listchain() == []
