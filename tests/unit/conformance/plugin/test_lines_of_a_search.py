# SPDX-License-Identifier: Apache-2.0
"""Lines that a test prints while it runs: those of a search through stories appear at once, those
about a wait only if the wait lasts."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.plugin.fixtures.traffic import _Report
from conformance.run.progress import Progress


def report_with(every: float) -> _Report:
    nobody: Any = None
    return _Report(record_of_test=nobody, attachments=nobody, lines=Progress(every=every))


def test_each_line_of_a_search_is_printed_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    report = report_with(every=60.0)
    for line in ("1 stories, 0 without verdict, seed 1", "no verdict about a story: too late"):
        report.tell(line)
    assert [line.split(",")[0] for line in capsys.readouterr().err.splitlines() if line] == [
        "1 stories", "no verdict about a story: too late",
    ]  # fmt: skip


@pytest.mark.parametrize(("every", "shown"), [(60.0, 0), (0.0, 1)], ids=["a short wait", "a long"])
def test_only_a_wait_that_lasts_is_shown(
    every: float, shown: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every decision about paths begins and ends such a wait: a line for each would bury the run's
    progress."""
    report = report_with(every)
    report.progress("CONN-3: sending attempts")
    report.progress("CONN-3")
    assert capsys.readouterr().err.count("CONN-3") == shown
