# SPDX-License-Identifier: Apache-2.0
"""False alarms are counted by claim, and each measurement writes its own section of the page."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import machine
from tests.detection.table import Table
from tests.reliability.clean_runs import Run, _alarms, decided, known, summary
from tests.reliability.document import PAGE, write
from tests.reliability.source import source

TABLE = Table(
    clean={"CONN-1": "CONFIRMED", "XSVC-2": "NOT_OBSERVED"},
    rows=(),
    profiles={"ten-nodes": {"CONN-1": "NOT_RUN"}},
)


def report(**verdicts: str) -> dict[str, Any]:
    decisions = [{"halves": ["closed", "open"]}, {"halves": ["behaviour"]}]
    claims = [
        {
            "id": name.replace("_", "-"), "verdict": verdict, "reason": "first\nsecond",
            "results": [{"decisions": decisions}, {"decisions": decisions[:1]}],
        }
        for name, verdict in verdicts.items()
    ]  # fmt: skip
    return {"claims": claims, "tests": [{}, {}]}


def test_what_a_healthy_lab_says_is_no_alarm() -> None:
    assert _alarms(report(CONN_1="CONFIRMED", XSVC_2="NOT_OBSERVED"), TABLE, "default") == ()


@pytest.mark.parametrize("verdict", ["VIOLATED", "INCONCLUSIVE", "NOT_RUN"])
def test_every_other_verdict_is_an_alarm_with_its_first_line(verdict: str) -> None:
    assert _alarms(report(CONN_1=verdict), TABLE, "default") == (f"CONN-1: {verdict}: first",)


def test_what_is_healthy_is_the_profile_s() -> None:
    assert _alarms(report(CONN_1="NOT_RUN"), TABLE, "ten-nodes") == ()
    assert _alarms(report(CONN_1="CONFIRMED"), TABLE, "ten-nodes") == ("CONN-1: CONFIRMED: first",)


def test_a_run_is_counted_by_its_closed_and_open_routes_and_its_streams() -> None:
    assert decided(report(POL_1="CONFIRMED", RST_1="CONFIRMED")) == {
        "parts": 4, "undecided": 0, "closed": 4, "opened": 4, "streams": 3,
    }  # fmt: skip


def run(number: int, seconds: float, *alarms: str, code: int = 0, profile: str = "default") -> Run:
    return Run(
        number=number, source="abc", loaded=number % 2 == 1, exit_code=code, seconds=seconds, tests=55,
        suites=("suites",), profile=profile, closed=500, opened=800, streams=50, alarms=alarms,
    )  # fmt: skip


def test_quiet_and_busy_runs_are_told_apart() -> None:
    lines = summary(
        [run(0, 8.0), run(1, 16.0), run(2, 10.0), run(3, 20.0, "CONN-1: VIOLATED: x", code=1)]
    )
    assert "| default | as it is | 2 | 55 | 1000 | 1600 | 100 | 0 | 10.0 | 10.0 |" in lines
    assert (
        "| default | all cores kept busy by others | 2 | 55 | 1000 | 1600 | 100 | 1 | 20.0 | 20.0 |"
        in lines
    )
    assert "- run 3: CONN-1: VIOLATED: x" in lines


def test_labs_are_told_apart() -> None:
    lines = summary([run(0, 8.0), run(2, 80.0, profile="ten-nodes")])
    assert "| ten-nodes | as it is | 1 | 55 | 500 | 800 | 50 | 0 | 80.0 | 80.0 |" in lines


def test_runs_are_resumed_only_for_the_same_suites(tmp_path: Path) -> None:
    kept = tmp_path / "runs.jsonl"
    kept.write_text(json.dumps({**asdict(run(0, 8.0)), "source": source()}) + "\n")
    assert [found.number for found in known(("suites",), kept)] == [0]
    assert known(("suites/dns",), kept) == []


def test_a_run_that_only_ends_badly_is_an_alarm() -> None:
    assert run(0, 1.0, code=6).false_alarm


def test_a_section_is_written_anew_and_the_rest_stays(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "before\n<!-- a -->\nold\n<!-- end of a -->\nbetween\n<!-- b -->\nkept\n<!-- end of b -->\n"
    )
    write("a", ["new"], page)
    text = page.read_text()
    assert "old" not in text
    assert "new\n<!-- end of a -->\nbetween\n<!-- b -->\nkept\n" in text


def test_a_section_says_of_which_source_and_machine_it_is(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- a -->\n<!-- end of a -->\n")
    write("a", ["new"], page)
    assert f", source {source()}. Machine: {machine.describe()}.\n\nnew\n" in page.read_text()


def test_the_page_has_the_sections_that_are_measured() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [text.count(f"<!-- {name} -->\n") for name in ("clean runs", "killed runs")] == [1, 1]


def test_a_section_that_is_not_there_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing\n")
    with pytest.raises(ValueError, match="no section 'a'"):
        write("a", [], page)


def test_beside_many_processes_a_violation_is_an_alarm_and_one_part_in_twenty_may_be_undecided() -> (
    None
):
    assert _alarms(report(CONN_1="INCONCLUSIVE"), TABLE, "default", 8) == ()
    assert _alarms(report(CONN_1="VIOLATED"), TABLE, "default", 8) == ("CONN-1: VIOLATED: first",)
    beside = replace(run(0, 1.0, code=6), beside=8, parts=100, undecided=5)
    assert not beside.false_alarm
    assert replace(beside, undecided=6).false_alarm
    assert replace(beside, exit_code=1).false_alarm
