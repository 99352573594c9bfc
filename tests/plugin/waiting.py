# SPDX-License-Identifier: Apache-2.0
"""Waits of tests that start runs as processes."""

from __future__ import annotations

import time
from pathlib import Path

from conformance.report import allure_results
from tests.plugin.junit_statuses import statuses

from .conftest import WITHIN, Run

MANY = """
import os, time
@verifies("CONN-1", part="{number}")
@pytest.mark.parametrize("number", range(8))
def test_many(number, record):
    record.touched(["windows"])
    if number == 3:
        %s
"""


def verdicts(run: Run) -> dict[str, str]:
    return {
        test["test"].rpartition("[")[2].rstrip("]"): test["verdict"] for test in run.report["tests"]
    }


def assert_all_outputs_know(run: Run, count: int) -> None:
    assert run.folder
    assert len(run.report["tests"]) == count
    assert len(statuses(run.folder / "junit.xml")) == count
    assert len(allure_results.written_tests(run.folder / "allure")) == count


def heard_within(seconds: float, log: Path) -> bool:
    """Return whether a signal has reached the run's handler within this time.

    The limit is generous, because a second Ctrl-C has another meaning.
    """
    deadline = time.monotonic() + seconds
    while "interrupt" not in log.read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    return "interrupt" in log.read_text()


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + WITHIN
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never appeared"
        time.sleep(0.05)


def wait_for_line(log: Path, line: str) -> None:
    deadline = time.monotonic() + WITHIN
    while line not in log.read_text().splitlines():
        assert time.monotonic() < deadline, f"{log} never had the line {line}"
        time.sleep(0.05)
