# SPDX-License-Identifier: Apache-2.0
"""While several tests run, the user is told of the oldest of those that still do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from conformance.plugin.controller import Controller


def test_the_oldest_test_that_still_runs_is_told() -> None:
    told: list[str] = []
    pace = SimpleNamespace(planned=["a", "b", "c"], done=set())
    run = SimpleNamespace(alive=SimpleNamespace(doing=told.append))
    controller = cast(Any, SimpleNamespace(running=[], pace=pace, run=run))
    for name in "abc":
        Controller.pytest_runtest_logstart(controller, name)
    Controller.pytest_runtest_logfinish(controller, "b")
    Controller.pytest_runtest_logfinish(controller, "a")
    Controller.pytest_runtest_logfinish(controller, "c")
    pace.done = {"a", "b", "c"}
    Controller.pytest_runtest_logfinish(controller, "c")
    waits, ends = "the next test is waited for", "all tests have ended, and processes end"
    assert told == ["a runs", "a runs", "a runs", "a runs", "c runs", waits, ends]
