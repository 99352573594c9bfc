"""A line about a wait is told when the wait is long, and the next wait for the same begins anew."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from conformance.run.progress import Progress


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
