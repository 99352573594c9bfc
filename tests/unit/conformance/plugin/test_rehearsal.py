# SPDX-License-Identifier: Apache-2.0
"""A dry run prints and counts the changes that it would make, and its tests decide nothing."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import MissingCapability, ProbeBroken
from conformance.plugin.rehearsal import REMEDY, SHOWN, SIGN, Rehearsal


@pytest.fixture
def rehearsal() -> Rehearsal:
    run = SimpleNamespace(uncaptured=nullcontext)
    return Rehearsal(SimpleNamespace(run=run))  # type: ignore[arg-type]


def ended(hook: Generator[None, object, object], by: BaseException | None = None) -> object:
    """Run a wrapper around a step of a test, which returns or raises."""
    next(hook)
    try:
        if by:
            hook.throw(by)
        else:
            hook.send("done")
    except StopIteration as end:
        return end.value
    raise AssertionError("the hook goes on")


def summary(rehearsal: Rehearsal) -> str:
    lines: list[str] = []
    terminal: Any = SimpleNamespace(write_line=lines.append)
    rehearsal.pytest_terminal_summary(terminal)
    (line,) = lines
    return line


def test_a_dry_run_of_no_test_says_so(rehearsal: Rehearsal) -> None:
    assert summary(rehearsal) == "dry run: nothing would run, so nothing would be changed"


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, "0 changes would be made"), (1, "1 change would be"), (2, "2 changes would be made")],
)
def test_a_dry_run_counts_changes_and_not_their_content(
    rehearsal: Rehearsal, number: int, words: str
) -> None:
    assert ended(rehearsal.pytest_runtest_setup()) == "done"
    for _ in range(number):
        rehearsal.tell(f"{SIGN}create Pod a")
        rehearsal.tell("kind: Pod")
    assert words in summary(rehearsal)


def test_a_change_is_printed_with_its_content_and_a_long_content_is_counted(
    rehearsal: Rehearsal, capsys: pytest.CaptureFixture[str]
) -> None:
    rehearsal.tell(f"{SIGN}create Pod a")
    rehearsal.tell("kind: Pod\nmetadata: {}")
    rehearsal.tell("\n".join(["line"] * SHOWN))
    rehearsal.tell("\n".join(["line"] * (SHOWN + 1)))
    assert capsys.readouterr().out.splitlines() == [
        f"{SIGN}create Pod a",
        "  kind: Pod",
        "  metadata: {}",
        *["  line"] * SHOWN,
        f"  ({SHOWN + 1} lines)",
    ]


@pytest.mark.parametrize("by", [None, ProbeBroken("no agent"), KeyError("ready")])
def test_a_test_that_ran_decides_nothing(
    rehearsal: Rehearsal, by: Exception | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(MissingCapability, match="dry run: ") as raised:
        ended(rehearsal.pytest_runtest_call(), by)
    assert REMEDY in str(raised.value)
    assert ("depends on the cluster's answers" in str(raised.value)) is bool(by)
    assert ("from here on it depends" in capsys.readouterr().out) is bool(by)


def test_a_test_that_skips_itself_keeps_its_reason(rehearsal: Rehearsal) -> None:
    with pytest.raises(pytest.skip.Exception, match="no second node"):
        ended(rehearsal.pytest_runtest_call(), pytest.skip.Exception("no second node"))


def test_an_error_while_clearing_up_is_printed_and_is_none(
    rehearsal: Rehearsal, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(rehearsal.pytest_runtest_teardown(), KeyError("uid")) is None
    assert "the clean-up depends on the cluster's answers" in capsys.readouterr().out
    assert ended(rehearsal.pytest_runtest_teardown()) == "done"


@pytest.mark.parametrize(
    ("when", "passed", "shown"),
    [
        ("call", False, ("rehearsed", "", "REHEARSED")),
        ("setup", False, ("rehearsed", "", "REHEARSED")),
        ("setup", True, None),
        ("teardown", False, None),
    ],
)
def test_no_letters_stand_between_the_changes(
    rehearsal: Rehearsal, when: str, passed: bool, shown: Any
) -> None:
    report: Any = SimpleNamespace(when=when, passed=passed)
    assert rehearsal.pytest_report_teststatus(report) == shown
