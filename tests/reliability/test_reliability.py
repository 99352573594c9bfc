"""False alarms are counted by claim, and each measurement writes its own section of the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import machine
from tests.detection.table import Table
from tests.reliability.clean_runs import Run, _alarms, summary
from tests.reliability.document import PAGE, write
from tests.reliability.source import source

TABLE = Table(clean={"CONN-1": "CONFIRMED", "XSVC-2": "NOT_OBSERVED"}, rows=())


def report(folder: Path, **verdicts: str) -> Path:
    claims = [
        {"id": name.replace("_", "-"), "verdict": verdict, "reason": "first\nsecond", "results": [{}]}
        for name, verdict in verdicts.items()
    ]
    path = folder / "conformance.json"
    path.write_text(json.dumps({"claims": claims, "tests": [{}, {}]}))
    return path


def test_what_a_healthy_lab_says_is_no_alarm(tmp_path: Path) -> None:
    assert _alarms(report(tmp_path, CONN_1="CONFIRMED", XSVC_2="NOT_OBSERVED"), TABLE, "") == ((), 2)


@pytest.mark.parametrize("verdict", ["VIOLATED", "INCONCLUSIVE", "NOT_RUN"])
def test_every_other_verdict_is_an_alarm_with_its_first_line(tmp_path: Path, verdict: str) -> None:
    alarms, _ = _alarms(report(tmp_path, CONN_1=verdict), TABLE, "")
    assert alarms == (f"CONN-1: {verdict}: first",)


def test_a_run_without_a_report_is_an_alarm(tmp_path: Path) -> None:
    alarms, tests = _alarms(tmp_path / "none.json", TABLE, "Traceback: boom")
    assert alarms == ("no report: Traceback: boom",)
    assert tests == 0


def run(number: int, seconds: float, *alarms: str, code: int = 0) -> Run:
    return Run(
        number=number, source="abc", loaded=number % 2 == 1, exit_code=code, seconds=seconds, tests=55, alarms=alarms
    )


def test_quiet_and_busy_runs_are_told_apart() -> None:
    lines = summary([run(0, 8.0), run(1, 16.0), run(2, 10.0), run(3, 20.0, "CONN-1: VIOLATED: x", code=1)])
    assert "| as it is | 2 | 55 | 0 | 10.0 | 10.0 |" in lines
    assert "| all cores kept busy by others | 2 | 55 | 1 | 20.0 | 20.0 |" in lines
    assert "- run 3: CONN-1: VIOLATED: x" in lines


def test_a_run_that_only_ends_badly_is_an_alarm() -> None:
    assert run(0, 1.0, code=6).false_alarm


def test_a_section_is_written_anew_and_the_rest_stays(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- a -->\nold\n<!-- end of a -->\nbetween\n<!-- b -->\nkept\n<!-- end of b -->\n")
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
