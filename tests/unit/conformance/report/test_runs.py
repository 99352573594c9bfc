# SPDX-License-Identifier: Apache-2.0
"""Several reports as a table: a failure stays failing, a verdict that changes and changes back
is flaky, and a missing claim is no change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conformance import cli
from conformance.report import runs
from conformance.report.page import write_runs
from tests.unit.conformance.qualify.reports import NEW, decided
from tests.unit.conformance.report.pages import HOSTILE, plain


def run(
    day: int, verdicts: dict[str, str], *, cluster: str = "lane", **labels: str
) -> dict[str, Any]:
    """A report of a day with verdicts by claim."""
    whole = plain(
        *(decided(ident, {NEW: verdict}) for ident, verdict in verdicts.items()),
        started=f"2026-11-{day:02}T10:00:00Z",
        labels=labels,
    )
    whole["run"]["cluster"]["label"] = cluster
    return whole


def states(*reports: dict[str, Any]) -> dict[str, str]:
    return {row.id: row.state for row in runs.table(reports, set()).claims}


def test_rows_are_ordered_by_state_and_the_runs_by_their_start() -> None:
    older = run(
        1,
        {"CONN-1": "CONFIRMED", "CONN-3": "CONFIRMED", "DEMO-5": "VIOLATED", "DEMO-6": "CONFIRMED"},
    )
    newer = run(
        2,
        {
            "CONN-1": "CONFIRMED",
            "CONN-3": "VIOLATED",
            "DEMO-5": "CONFIRMED",
            "DEMO-6": "INCONCLUSIVE",
        },
    )
    found = runs.table([newer, older], set())
    assert [each.started[:10] for each in found.runs] == ["2026-11-01", "2026-11-02"]
    assert [(row.id, row.state) for row in found.claims] == [
        ("CONN-3", "failing"), ("DEMO-5", "changed"), ("DEMO-6", "undecided"), ("CONN-1", "holds"),
    ]  # fmt: skip
    assert [each.changed for each in found.claims[0].cells] == [False, True]
    assert runs.counts(found) == "1 failing, 1 changed, 1 undecided, 1 hold in every run"


def test_what_failed_stays_failing_until_a_run_decides_otherwise() -> None:
    red = run(1, {"CONN-1": "VIOLATED"})
    assert states(red, run(2, {"CONN-1": "INCONCLUSIVE"})) == {"CONN-1": "failing"}
    assert states(red, run(2, {"CONN-3": "CONFIRMED"}))["CONN-1"] == "failing"
    assert states(red, run(2, {"CONN-1": "CONFIRMED"})) == {"CONN-1": "changed"}


def test_there_and_back_with_the_same_versions_is_flaky_and_another_cluster_is_no_change() -> None:
    three = [
        run(day, {"CONN-1": verdict})
        for day, verdict in enumerate(("CONFIRMED", "VIOLATED", "CONFIRMED"), 1)
    ]
    assert states(*three) == {"CONN-1": "flaky"}
    lanes = [run(1, {"CONN-1": "CONFIRMED"}), run(2, {"CONN-1": "VIOLATED"}, cluster="other lane")]
    found = runs.table(lanes, set())
    assert [each.changed for each in found.claims[0].cells] == [False, False]
    assert found.claims[0].state == "failing"
    attempts = run(1, {"CONN-1": "VIOLATED"})
    next(claim for claim in attempts["claims"] if claim["id"] == "CONN-1")["flaky"] = True
    assert states(attempts) == {"CONN-1": "flaky"}


def test_provisional_claims_are_named_so_and_stand_behind_the_others() -> None:
    found = runs.table([run(1, {"CONN-1": "VIOLATED", "CONN-3": "VIOLATED"})], {"CONN-1"})
    assert [(row.id, row.provisional) for row in found.claims] == [
        ("CONN-3", False),
        ("CONN-1", True),
    ]
    assert "failing, provisional" in runs.as_markdown(found)


def test_what_no_gate_asks_for_stands_behind_worse_verdicts_of_the_same_state_too() -> None:
    reports = [run(1, {"CONN-1": "VIOLATED", "CONN-3": "UNMET"})]
    found = runs.table(reports, {"CONN-1"})
    assert [(row.state, row.id) for row in found.claims] == [
        ("failing", "CONN-3"),
        ("failing", "CONN-1"),
    ]


def test_turns_of_other_versions_on_one_cluster_are_changes_and_not_flaky() -> None:
    turns = [
        run(day, {"CONN-1": verdict}, release=release)
        for day, (verdict, release) in enumerate(
            (("CONFIRMED", "v1"), ("VIOLATED", "v2"), ("CONFIRMED", "v3")), 1
        )
    ]
    assert states(*turns) == {"CONN-1": "changed"}


def test_no_output_has_markup_of_a_cluster_or_a_path_of_the_machine(tmp_path: Path) -> None:
    hostile = run(1, {"CONN-1": "VIOLATED"}, cluster=HOSTILE, release=f"{HOSTILE}|x")
    next(claim for claim in hostile["claims"] if claim["id"] == "CONN-1")["statement"] = HOSTILE
    found = runs.table([hostile], set())
    write_runs(found, tmp_path / "runs.html")
    page = (tmp_path / "runs.html").read_text(encoding="utf-8")
    assert "<img" not in page + runs.as_markdown(found)
    assert "default-src 'none'" in page
    assert json.loads(runs.as_json(found))["claims"][0]["cells"] == [
        {"verdict": "VIOLATED", "flaky": False, "changed": False}
    ]


def test_a_folder_of_runs_is_enough_and_one_without_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for day in (1, 2):
        folder = tmp_path / "lane" / f"run{day}"
        folder.mkdir(parents=True)
        (folder / "conformance.json").write_text(json.dumps(run(day, {"CONN-1": "CONFIRMED"})))
    (tmp_path / "lane" / "latest").symlink_to("run2")
    assert cli.main(["matrix", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "| 2 | 2026-11-02T10:00:00Z |" in told
    assert "| 3 |" not in told
    assert (
        cli.main(["matrix", str(tmp_path / "lane" / "run1"), "--html", str(tmp_path / "x.html")])
        == 0
    )
    assert "1 claims in 1 run" in (tmp_path / "x.html").read_text()
    (tmp_path / "none").mkdir()
    assert cli.main(["matrix", str(tmp_path / "none")]) == 4
    assert (
        capsys.readouterr().err
        == f"ERROR: {tmp_path / 'none'} contains no report (conformance.json)\n"
    )
