# SPDX-License-Identifier: Apache-2.0
"""The outcome of a test that ran more than once, and how long it took."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conformance.model.claim import ClaimVerdict
from conformance.plugin.judge import Judge
from conformance.plugin.judge.stash import EARLIER, PUT_OFF
from conformance.verdicts.claims import TestOutcome


def attempt(verdict: str, seconds: float) -> TestOutcome:
    return TestOutcome(
        test="a.py::test", verdict=ClaimVerdict(verdict), reason=verdict, seconds=seconds
    )


def outcome(now: TestOutcome, *earlier: TestOutcome, put_off: bool) -> TestOutcome:
    """Return the judge's outcome of a test whose newest attempt had this one."""
    stash = pytest.Stash()
    if earlier:
        stash[EARLIER] = list(earlier)
    if put_off:
        stash[PUT_OFF] = False
    judge: Any = object.__new__(Judge)
    judge._attempt = lambda item: now
    item: Any = SimpleNamespace(stash=stash)
    found: TestOutcome = judge.outcome(item)
    return found


def test_of_a_test_that_was_put_off_the_second_run_counts_and_takes_the_seconds_of_all() -> None:
    first, second = attempt("INCONCLUSIVE", 2.0), attempt("VIOLATED", 3.0)
    found = outcome(second, first, put_off=True)
    assert (found.verdict, found.seconds, found.attempts) == (ClaimVerdict.VIOLATED, 5.0, ())
    assert found.reason == "VIOLATED"


@pytest.mark.parametrize(
    ("put_off", "verdicts"),
    [
        pytest.param(False, ("VIOLATED", "CONFIRMED"), id="tried again at once"),
        pytest.param(True, ("INCONCLUSIVE", "CONFIRMED"), id="put off, and then confirmed"),
        pytest.param(False, ("INCONCLUSIVE", "VIOLATED"), id="not put off"),
    ],
)
def test_other_attempts_count_together(put_off: bool, verdicts: tuple[str, str]) -> None:
    first, second = attempt(verdicts[0], 2.0), attempt(verdicts[1], 3.0)
    found = outcome(second, first, put_off=put_off)
    assert found.attempts == verdicts
    assert found.seconds == 5.0


@pytest.mark.parametrize("put_off", [False, True])
def test_a_test_that_ran_once_has_its_own_outcome(put_off: bool) -> None:
    once = attempt("VIOLATED", 3.0)
    assert outcome(once, put_off=put_off) is once


def test_what_other_plugins_do_at_a_test_s_start_belongs_to_that_test() -> None:
    """pluggy calls the plugin that was registered last first, unless a hook asks to be first."""
    entered: list[str] = []
    judge: Any = object.__new__(Judge)
    judge.state = SimpleNamespace(attachments=SimpleNamespace(enter=entered.append))
    judge.run = SimpleNamespace(provider=SimpleNamespace(enter=entered.append))
    seen: list[list[str]] = []

    class Later:
        def pytest_runtest_logstart(self, nodeid: str) -> None:
            seen.append([*entered])

    plugins = pytest.PytestPluginManager()
    plugins.register(judge)
    plugins.register(Later())
    plugins.hook.pytest_runtest_logstart(nodeid="a.py::test", location=("a.py", 1, "test"))
    assert seen == [["a.py::test", "a.py::test"]], "attachments, and requests to the cluster"


def test_without_a_cluster_only_attachments_are_assigned() -> None:
    entered: list[str] = []
    judge: Any = object.__new__(Judge)
    judge.state = SimpleNamespace(attachments=SimpleNamespace(enter=entered.append))
    judge.run = SimpleNamespace(provider=None)
    judge.pytest_runtest_logstart("a.py::test")
    assert entered == ["a.py::test"]
