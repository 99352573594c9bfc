# SPDX-License-Identifier: Apache-2.0
"""The comparison of two recordings of detection rows reports their differences, and no others."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.detection import compare


def a_report(verdict: str = "CONFIRMED", target: str = "windows-2022") -> dict[str, Any]:
    decision = {"verdict": verdict, "source": "linux-1", "target": target, "reason": "12 ms"}
    result = {"verdict": verdict, "part": "tcp", "decisions": [decision, decision]}
    unrun = {"id": "VXLAN-9", "verdict": "", "results": []}
    return {"claims": [{"id": "CONN-3", "verdict": verdict, "results": [result]}, unrun]}


def recorded(path: Path, *entries: compare.Recorded) -> str:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    return str(path)


def test_a_recording_keeps_verdicts_nodes_and_the_exit_code_and_no_messages() -> None:
    assert compare.record("clean", a_report(), 0) == {
        "row": "clean",
        "exit_code": 0,
        "verdicts": {"CONN-3": "CONFIRMED"},
        "decisions": {"CONN-3": ["CONFIRMED (tcp)", "CONFIRMED (tcp) linux-1 -> windows-2022"]},
    }


@pytest.mark.parametrize(
    ("after", "lines"),
    [
        pytest.param(("clean", a_report(), 0), [], id="the same"),
        pytest.param(
            ("clean", a_report("VIOLATED"), 1),
            [
                "clean: exit code 0 before, 1 after",
                "clean: CONN-3 CONFIRMED before, VIOLATED after",
            ],
            id="verdict",
        ),
        pytest.param(
            ("clean", a_report(target="linux-2"), 0),
            [
                "clean: CONN-3 lost the decision CONFIRMED (tcp) linux-1 -> windows-2022",
                "clean: CONN-3 has the new decision CONFIRMED (tcp) linux-1 -> linux-2",
            ],
            id="node",
        ),
        pytest.param(
            ("clean", {"claims": []}, 0),
            ["clean: CONN-3 CONFIRMED before, not run after"],
            id="claim that is gone",
        ),
    ],
)
def test_differences_name_the_row_the_claim_and_both_sides(
    after: tuple[str, dict[str, Any], int], lines: list[str]
) -> None:
    assert (
        compare.differences(compare.record("clean", a_report(), 0), compare.record(*after)) == lines
    )


def test_the_command_fails_where_two_files_differ_or_share_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = recorded(tmp_path / "before", compare.record("clean", a_report(), 0))
    same = recorded(
        tmp_path / "same",
        compare.record("clean", a_report("VIOLATED"), 1),
        compare.record("clean", a_report(), 0),  # the newest counts
    )
    other = recorded(tmp_path / "other", compare.record("no-dns", a_report(), 0))
    red = recorded(tmp_path / "red", compare.record("clean", a_report("VIOLATED"), 1))
    assert [compare.main([before, after]) for after in (same, red, other)] == [0, 1, 4]
    assert "1 rows compared, 0 differences, 0 rows in one file alone" in capsys.readouterr().out
