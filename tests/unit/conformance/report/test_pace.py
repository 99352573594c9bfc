# SPDX-License-Identifier: Apache-2.0
"""The remaining time is estimated from known durations of tests and the speed of this run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conformance.report.pace import Pace, recorded, spanned


def test_the_rest_is_judged_by_what_the_same_tests_took_before() -> None:
    pace = Pace({"a": 10.0, "b": 30.0, "c": 60.0})
    pace.ended("a", 4)
    pace.ended("a", 4)
    assert pace.line(5.0) == "1 of 3 tests done, 4 decisions; about 45 s left"  # at twice the speed
    pace.ended("b", 1, failed=True)
    assert pace.line(400.0) == "2 of 3 tests done, 1 failed, 5 decisions; about 10 min left"


def test_before_a_twentieth_of_the_tests_has_ended_packaged_seconds_give_a_range() -> None:
    seconds = dict.fromkeys(map(str, range(40)), 30.0)
    pace = Pace(seconds, (600.0, 1800.0))
    packaged = "left (packaged estimate)"
    assert pace.line(3.0) == f"0 of 40 tests done, 0 decisions; 10 to 30 min {packaged}"
    pace.ended("0", 1, failed=True)
    assert pace.line(900.0) == (
        f"1 of 40 tests done, 1 failed, 1 decision; 1 to 15 min {packaged}"
    ), "one slow test scales nothing"
    pace.ended("1", 1)
    assert pace.line(100.0).endswith("; about 32 min left")


@pytest.mark.parametrize(
    ("elapsed", "words"), [(5.0, "about 65 s left"), (20.0, "about 2 min left")]
)
def test_a_fast_run_is_no_faster_in_its_exclusive_tests_and_a_slow_run_is_slower_in_all(
    elapsed: float, words: str
) -> None:
    """A sound run on a quiet machine takes half the packaged seconds, but in what runs alone."""
    pace = Pace({"a": 10.0, "b": 10.0, "alone": 60.0}, alone=frozenset({"alone"}))
    pace.ended("a", 0)
    assert pace.line(elapsed).endswith(f"; {words}")


@pytest.mark.parametrize(
    ("least", "most", "words"),
    [(5.0, 15.0, "5 to 15 s"), (40.0, 120.0, "1 to 2 min"), (160.0, 190.0, "about 3 min")],
)
def test_a_range_is_written_in_the_unit_of_its_end(least: float, most: float, words: str) -> None:
    assert spanned(least, most) == words


def test_the_last_line_estimates_nothing() -> None:
    pace = Pace({"a": 5.0})
    assert not pace.over
    pace.ended("a", 1)
    assert pace.over
    assert pace.line(3.0) == "1 of 1 tests done, 1 decision"


def test_a_run_whose_tests_are_not_known_estimates_nothing() -> None:
    assert Pace().line(3.0) == "0 of ? tests done, 0 decisions"


def test_durations_come_from_the_newest_report_that_can_be_read(tmp_path: Path) -> None:
    for name, content in (
        ("2026-01-01", json.dumps({"tests": [{"test": "a", "seconds": 1.5, "ran": True, "verdict": "CONFIRMED"}]})), ("2026-01-02", "{"),
        ("2026-01-03", "[]"),
    ):  # fmt: skip
        (tmp_path / name).mkdir()
        (tmp_path / name / "conformance.json").write_text(content)
    (tmp_path / "2026-01-04").mkdir()
    assert recorded(tmp_path, tmp_path / "2026-01-04") == {"a": 1.5}
    assert recorded(tmp_path / "none", tmp_path) == {}


def test_neither_the_run_itself_nor_what_was_not_decided_tells_how_long_a_test_takes(
    tmp_path: Path,
) -> None:
    for name, seconds in (("2026-01-01", 1.0), ("2026-01-02", 2.0), ("2026-01-03", 3.0)):
        (tmp_path / name).mkdir()
        tests = [
            {"test": "a", "seconds": seconds, "ran": True, "verdict": "VIOLATED"},
            {"test": "undecided", "seconds": 0.0, "ran": True, "verdict": "INCONCLUSIVE"},
            {"test": "skipped", "seconds": 0.0, "ran": False, "verdict": "NOT_RUN"},
        ]
        (tmp_path / name / "conformance.json").write_text(json.dumps({"tests": tests}))
    assert recorded(tmp_path, tmp_path / "2026-01-03") == {"a": 2.0}
