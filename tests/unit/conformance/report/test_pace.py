# SPDX-License-Identifier: Apache-2.0
"""The time that is left is told from an earlier run's durations and the speed of this one."""

from __future__ import annotations

import json
from pathlib import Path

from conformance.report.pace import USUAL, Pace, recorded


def test_the_rest_is_judged_by_what_the_same_tests_took_before() -> None:
    pace = Pace(recorded={"a": 10.0, "b": 30.0, "c": 60.0}, planned=["a", "b", "c"])
    pace.ended("a", 4)
    pace.ended("a", 4)
    assert pace.line(5.0) == "1 of 3 tests, 4 decisions; about 45 s left"  # twice as fast as then
    pace.ended("b", 1)
    assert pace.line(400.0) == "2 of 3 tests, 5 decisions; about 10 min left"


def test_a_test_that_nobody_has_timed_is_taken_for_a_usual_one() -> None:
    pace = Pace(recorded={"a": 10.0}, planned=["a", "new"])
    pace.ended("a", 1)
    assert pace.left(20.0) == 2 * USUAL


def test_without_a_test_that_has_ended_nothing_is_foretold() -> None:
    assert Pace(recorded={}, planned=["a"]).line(3.0) == "0 of 1 tests, 0 decisions"


def test_durations_come_from_the_newest_report_that_can_be_read(tmp_path: Path) -> None:
    for name, content in (
        ("2026-01-01", json.dumps({"tests": [{"test": "a", "seconds": 1.5, "ran": True}]})), ("2026-01-02", "{"),
        ("2026-01-03", "[]"),
    ):  # fmt: skip
        (tmp_path / name).mkdir()
        (tmp_path / name / "conformance.json").write_text(content)
    (tmp_path / "2026-01-04").mkdir()
    assert recorded(tmp_path, tmp_path / "2026-01-04") == {"a": 1.5}
    assert recorded(tmp_path / "none", tmp_path) == {}


def test_neither_the_run_itself_nor_what_did_not_run_tells_how_long_a_test_takes(
    tmp_path: Path,
) -> None:
    for name, seconds in (("2026-01-01", 1.0), ("2026-01-02", 2.0), ("2026-01-03", 3.0)):
        (tmp_path / name).mkdir()
        tests = [
            {"test": "a", "seconds": seconds, "ran": True},
            {"test": "skipped", "seconds": 0.0, "ran": False},
        ]
        (tmp_path / name / "conformance.json").write_text(json.dumps({"tests": tests}))
    assert recorded(tmp_path, tmp_path / "2026-01-03") == {"a": 2.0}
