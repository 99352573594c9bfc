# SPDX-License-Identifier: Apache-2.0
"""While tests run, the reported activity is theirs; between tests and at the end it names what
the run waits for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from conformance.plugin.controller import Controller
from conformance.report.pace import Pace
from conformance.run.progress import Alive


def test_the_activity_is_about_tests_until_none_runs() -> None:
    told: list[str] = []
    pace = Pace(dict.fromkeys("abc", 1.0))
    alive = Alive()
    alive.doing = told.append  # type: ignore[assignment, method-assign]
    following = SimpleNamespace(pace=pace, test_begun=lambda test: None)
    run = SimpleNamespace(alive=alive)
    controller = cast(Any, SimpleNamespace(running=[], following=following, run=run))
    for name in "ab":
        Controller.pytest_runtest_logstart(controller, name)
    Controller.pytest_runtest_logfinish(controller, "b")
    Controller.pytest_runtest_logfinish(controller, "a")
    for name in "abc":
        pace.ended(name, 0)
    Controller.pytest_runtest_logfinish(controller, "c")
    waits, ends = "waiting for the next test", "all tests have ended; processes end"
    assert told == ["", "", "", waits, ends]
