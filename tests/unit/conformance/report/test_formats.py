# SPDX-License-Identifier: Apache-2.0
"""The gates of a report for programs and as Markdown."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.report import formats
from tests.unit.conformance.qualify.reports import NEW, OLD, a_gate, decided
from tests.unit.conformance.report.pages import LEAK, plain

OBSTACLE = "DEMO-7 VIOLATED on 17763: it | leaks"


@pytest.mark.parametrize(
    ("gates", "unused", "lines"),
    [
        ([], [], []),
        ([a_gate(headline="core 20348")], [], ["| core 20348 | qualified |"]),
        (
            [a_gate(build=build, headline=f"core {build}") for build in (OLD, NEW)],
            [],
            ["| core 17763 | qualified |", "| core 20348 | qualified |"],
        ),
        (
            [a_gate("failed", headline="core", obstacles=[OBSTACLE], waived=["DEMO-7 x"])],
            ["DEMO-1, by jane"],
            [
                "| core | failed |",
                "",
                "**core**",
                "",
                r"- DEMO-7 VIOLATED on 17763: it \| leaks",
                "",
                "waiver not used: DEMO-1, by jane",
            ],
        ),
        (
            [a_gate("qualified", name="policy", headline="policy")],
            [],
            ["| policy | qualified |", "", "also VIOLATED, but in no required set: DEMO-7"],
        ),
    ],
)
def test_gates_are_a_table_with_lists_of_their_obstacles(
    gates: list[dict[str, Any]], unused: list[str], lines: list[str]
) -> None:
    report = plain(LEAK) | {"gates": gates}
    found = formats.gates_as_markdown(report, unused)
    if gates and gates[0]["name"] == "core" and not gates[0]["obstacles"]:
        lines = [*lines, "", "also VIOLATED, but in no required set: DEMO-7"]
    assert found == ["| gate | answer |", "| --- | --- |", *lines]


def test_unused_waivers_are_named_only_where_there_are_some() -> None:
    report = plain(LEAK) | {"gates": [a_gate()]}
    assert "unused_waivers" not in formats.gates(report)
    assert formats.gates(report, ["w"])["unused_waivers"] == ["w"]
    (gate,) = formats.gates(report)["gates"]
    assert set(gate) == {"name", "answer", "headlines", "obstacles", "waived"}


def test_a_summary_has_what_failed_and_leaves_out_what_did_not() -> None:
    report = plain(LEAK, decided("DEMO-6", {NEW: "CONFIRMED"}), notes=["a note"])
    found = formats.summary(report)
    assert [claim["id"] for claim in found["fallen"]] == ["DEMO-7"]
    assert set(found["fallen"][0]) == {"id", "verdict", "statement", "reason", "remedy"}
    assert (found["run"], found["evidence"], found["notes"]) == ("r1", "field", ["a note"])
    assert found["counts"]["VIOLATED"] == 1
    assert [cause["claims"] for cause in found["causes"]] == [["DEMO-7"]] * len(found["causes"])
