# SPDX-License-Identifier: Apache-2.0
"""A line about a wait is printed if the wait is long, and the next wait for the same thing
starts again."""

from __future__ import annotations

import os
import threading
import time
from types import SimpleNamespace

import pytest

from conformance.run.progress import Alive, Progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr("conformance.run.progress.time.monotonic", lambda: now.seconds)
    return now


@pytest.fixture
def progress() -> Progress:
    return Progress(15.0)


def test_what_goes_quickly_is_not_told(
    clock: SimpleNamespace, progress: Progress, capsys: pytest.CaptureFixture[str]
) -> None:
    progress("pod a: Pending")
    clock.seconds = 14.0
    progress("pod a: Ready")
    assert capsys.readouterr().err == ""


def test_a_long_wait_is_told_with_its_seconds(
    clock: SimpleNamespace, progress: Progress, capsys: pytest.CaptureFixture[str]
) -> None:
    progress("pod a: Pending")
    clock.seconds = 16.0
    progress("pod a: Pulling")
    assert "[16 s] pod a: Pulling" in capsys.readouterr().err


def test_a_later_wait_for_the_same_begins_anew(
    clock: SimpleNamespace, progress: Progress, capsys: pytest.CaptureFixture[str]
) -> None:
    progress("pod a: Pending")
    progress("pod a: ")
    clock.seconds = 70.0
    progress("pod a: Ready")
    assert capsys.readouterr().err == ""


def heard(descriptor: int, within: float) -> str:
    """What was written within so many seconds."""
    os.set_blocking(descriptor, False)
    time.sleep(within)
    try:
        return os.read(descriptor, 4096).decode()
    except BlockingIOError:
        return ""


def test_after_a_while_without_a_word_the_user_is_told_what_goes_on_until_there_is_an_end() -> None:
    mine, theirs = os.pipe()
    alive = Alive()
    alive.begin(0.2, theirs)
    assert heard(mine, 0.5) == "", "nothing goes on"
    alive.doing("suites/test_it.py::test_long runs")
    assert "[0 s] suites/test_it.py::test_long runs\n" in heard(mine, 0.5)
    for _ in range(5):
        alive.note_output()
        assert heard(mine, 0.05) == "", "something else was told just now"
    alive.end()
    time.sleep(0.1)
    assert heard(mine, 0.5) == ""
    for descriptor in (mine, theirs):
        os.close(descriptor)


def test_every_test_that_runs_is_named_the_oldest_first_unless_something_else_goes_on() -> None:
    mine, theirs = os.pipe()
    alive = Alive()
    alive.begin(0.2, theirs)
    for name in ("a", "b", "c"):
        alive.test_began(name)
    alive.test_ended("b")
    assert "\n[0 s] a is running\n[0 s] c is running\n" in heard(mine, 0.5)
    alive.doing("interrupted: removing the objects of the run")
    heard(mine, 0.3)
    assert "runs" not in heard(mine, 0.6)
    alive.end()
    for descriptor in (mine, theirs):
        os.close(descriptor)


def test_where_nobody_reads_any_more_it_goes_on_in_silence_and_keeps_no_process_from_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    mine, theirs = os.pipe()
    alive, before = Alive(), set(threading.enumerate())
    alive.begin(0.05, theirs)
    (thread,) = set(threading.enumerate()) - before
    assert thread.daemon
    os.close(mine)
    alive.doing("suites/test_it.py::test_long runs")
    time.sleep(0.3)
    assert thread.is_alive()
    alive.end()
    thread.join(5)
    os.close(theirs)
    assert raised == []


def test_what_goes_on_is_told_with_its_seconds_since_it_began(clock: SimpleNamespace) -> None:
    mine, theirs = os.pipe()
    alive = Alive()
    alive.doing("it runs")
    clock.seconds = 30.0
    alive.doing("it runs")
    alive.begin(0.05, theirs)
    time.sleep(0.1)
    clock.seconds = 40.0
    assert heard(mine, 0.2) == "\n[40 s] it runs\n"
    alive.end()
    for descriptor in (mine, theirs):
        os.close(descriptor)


def test_a_line_about_a_wait_is_a_word_too(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []
    Progress(15.0, printed=lambda: told.append("heard")).tell("a line")
    assert told == ["heard"]
    assert "a line" in capsys.readouterr().err


def test_each_silence_is_told_of_once_with_the_seconds_since_the_same_began() -> None:
    mine, theirs = os.pipe()
    alive = Alive()
    alive.end()
    alive.doing("it runs")
    alive.begin(0.4, theirs)
    assert heard(mine, 0.2) == "", "the beginning was heard"
    begun = time.monotonic() - 0.2
    time.sleep(0.3)
    alive.doing("it runs")
    alive.doing("it runs")
    told = heard(mine, 0.7)
    assert 1 <= told.count("it runs") <= (time.monotonic() - begun) / 0.4, "once in each silence"
    alive.doing("it runs")
    assert "[1 s] it runs" in told + heard(mine, 0.8)
    alive.end()
    for descriptor in (mine, theirs):
        os.close(descriptor)


def test_a_wait_that_goes_on_is_told_of_now_and_then(
    clock: SimpleNamespace, progress: Progress, capsys: pytest.CaptureFixture[str]
) -> None:
    progress("pod a: Pending")
    for clock.seconds in (16.0, 17.0, 30.0, 32.0):
        progress("pod a: Pulling")
    assert [line for line in capsys.readouterr().err.splitlines() if line] == [
        "[16 s] pod a: Pulling", "[32 s] pod a: Pulling"
    ]  # fmt: skip
    progress("pod a: ")
    progress("pod a: Pulling")
    clock.seconds = 48.0
    progress("pod a: Pulling")
    assert "[16 s] pod a: Pulling" in capsys.readouterr().err, "a new wait has seconds of its own"


def test_what_goes_on_is_told_after_pytest_has_closed_its_own_descriptor_too() -> None:
    """At Ctrl-C it does, and another file may have its number by then."""
    mine, theirs = os.pipe()
    alive = Alive()
    alive.begin(0.1, theirs)
    os.close(theirs)
    alive.doing("it is being removed")
    assert "it is being removed" in heard(mine, 0.5)
    alive.end()
    os.close(mine)
