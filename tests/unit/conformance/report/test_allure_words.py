# SPDX-License-Identifier: Apache-2.0
"""Allure's results in the suite's wording: titles, status, severity, text and attachments."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.catalog import catalog
from conformance.model.claim import ClaimResult, ClaimVerdict
from conformance.model.decision import Decision
from conformance.report import allure_words
from conformance.report.run import RunReport
from conformance.verdicts.claims import ClaimOutcome, TestOutcome
from tests.plugin.stand_in_cluster import facts

CLAIMS = {claim.id: claim for claim in catalog().values()}
ADVICE = next(claim.id for claim in CLAIMS.values() if claim.kind == "recommendation")
V = ClaimVerdict
STARTED = "2026-11-20T10:00:00+00:00"


def a_decision(verdict: str = "CONFIRMED", **fields: Any) -> Decision:
    usual: dict[str, Any] = {
        "source": "linux-1",
        "target": "windows-1",
        "builds": ("20348",),
        "about": ("20348",),
        "reason": "it is open",
        "halves": ("open",),
    }
    return Decision(verdict=V(verdict), **usual | fields)


def a_result(
    claim: str, part: str = "", verdict: str = "CONFIRMED", *decisions: Decision
) -> ClaimResult:
    return ClaimResult(
        claim=claim,
        verdict=V(verdict),
        test="a.py::test",
        reason="r",
        part=part,
        decisions=decisions,
    )


def a_test(*results: ClaimResult, verdict: str = "CONFIRMED", **fields: Any) -> TestOutcome:
    usual: dict[str, Any] = {"test": "suites/a.py::test_pods_reach[both-ways]", "reason": "r"}
    return TestOutcome(verdict=V(verdict), results=results, **usual | fields)


def a_report(*tests: TestOutcome, lab: bool = False, **fields: Any) -> RunReport:
    known = replace(facts(), evidence="lab" if lab else "field")
    usual: dict[str, Any] = {
        "run_id": "r1",
        "started": STARTED,
        "seconds": 1.0,
        "exit_code": 0,
        "command": "c",
        "cluster": {},
        "facts": known,
        "claims": (),
    }
    return RunReport(tests=tests, **usual | fields)


@pytest.mark.parametrize(
    ("results", "title"),
    [
        ([], "test_pods_reach[both-ways]"),
        ([a_result("NONE-1")], "test_pods_reach[both-ways]"),
        ([a_result("CONN-1")], "CONN-1: pods reach [both-ways]"),
        ([a_result("CONN-1", "linux->windows")], "CONN-1: linux->windows"),
        (
            [a_result("CONN-1", "a"), a_result("CONN-2", "b"), a_result("CONN-1", "a")],
            "CONN-1, CONN-2: a, b",
        ),
    ],
)
def test_a_test_s_title_is_its_claims_and_their_parts(
    results: list[ClaimResult], title: str
) -> None:
    assert allure_words.title(a_test(*results), CLAIMS) == title


OPENS = a_decision("VIOLATED", expected="TIMED_OUT", observed="CONNECTED")


@pytest.mark.parametrize(
    ("results", "verdict", "severity"),
    [
        ([a_result("CONN-1", "", "VIOLATED", OPENS)], "VIOLATED", "blocker"),
        ([a_result("CONN-1", "", "VIOLATED", a_decision("VIOLATED"))], "VIOLATED", "critical"),
        ([a_result("CONN-1")], "INCONCLUSIVE", "normal"),
        ([a_result(ADVICE)], "ADVISED", "minor"),
        ([a_result(ADVICE), a_result("CONN-1")], "ADVISED", "normal"),
        ([], "CONFIRMED", "normal"),
    ],
)
def test_a_packet_that_passes_a_closed_path_blocks_a_release(
    results: list[ClaimResult], verdict: str, severity: str
) -> None:
    test = a_test(*results, verdict=verdict)
    assert allure_words._severity(test, allure_words.involved(test, CLAIMS)) == severity


@pytest.mark.parametrize(
    ("decision", "step"),
    [
        (a_decision(), "linux-1 to windows-1: reached, because it is open"),
        (a_decision(halves=()), "linux-1 to windows-1: as expected, because it is open"),
        (a_decision(target=""), "linux-1: reached, because it is open"),
        (a_decision(source="", target=""), "the cluster: reached, because it is open"),
        (a_decision("VIOLATED"), "linux-1 to windows-1: VIOLATED: it is open"),
    ],
)
def test_a_step_says_where_and_what_was_observed(decision: Decision, step: str) -> None:
    assert allure_words._step(decision) == step


def test_steps_of_claims_that_share_decisions_are_told_once() -> None:
    results = [
        a_result("CONN-1", "", "CONFIRMED", a_decision()),
        a_result("CONN-2", "", "CONFIRMED", a_decision()),
    ]
    (step,) = allure_words._steps(results, {"start": 5})
    assert (step["status"], step["start"], step["stop"]) == ("passed", 5, 5)


@pytest.mark.parametrize(
    ("fields", "report", "lines"),
    [
        ({}, {}, ["**CONFIRMED** r"]),
        ({"reason": ""}, {}, ["**CONFIRMED**"]),
        ({"reason": "<b>a_b</b>"}, {}, [r"**CONFIRMED** &lt;b&gt;a\_b&lt;/b&gt;"]),
        ({"cause": "no Felix"}, {}, ["Cause: no Felix"]),
        ({"remedy": "set it"}, {}, ["What to do: set it"]),
        (
            {"attempts": ("VIOLATED", "CONFIRMED")},
            {},
            ["FLAKY: attempts ended as VIOLATED, CONFIRMED; the worst counts."],
        ),
        (
            {},
            {"lab": True},
            ["*Evidence: lab. Windows was emulated; this qualifies no release.*"],
        ),
        ({}, {"waived": {"CONN-1": "by jane"}}, ["Waived: by jane"]),
        ({}, {"waived": {"CONN-2": "by jane"}}, []),
    ],
)
def test_the_text_of_a_test_has_a_paragraph_for_what_there_is_to_say(
    fields: dict[str, Any], report: dict[str, Any], lines: list[str]
) -> None:
    test = a_test(a_result("CONN-1"), **fields)
    claims = allure_words.involved(test, CLAIMS)
    found = list(allure_words._description(test, claims, a_report(test, **report)))
    claim = CLAIMS["CONN-1"]
    assert set(lines) <= set(found)
    assert len(found) == 2 + len({*lines} - {line for line in lines if line.startswith("**CON")})
    assert any(line.startswith(f"CONN-1 ({claim.kind}, {claim.modality}): ") for line in found)


def test_a_part_that_is_not_about_the_cluster_is_named_with_its_reason() -> None:
    test = a_test(
        a_result("CONN-1", "by BGP", "NOT_APPLICABLE"), a_result("CONN-1", "", "NOT_APPLICABLE")
    )
    found = list(allure_words._description(test, [], a_report(test)))
    assert found == ["**CONFIRMED** r", "Not about this cluster: CONN-1, part by BGP: r"]


def test_only_sources_that_a_browser_opens_are_links_each_once() -> None:
    claim = CLAIMS["CONN-1"]
    source = replace(claim.sources[0], url="https://docs.example/a")
    other = replace(source, url="go doc felix")
    links = allure_words._links(
        [replace(claim, sources=(source, other)), replace(claim, sources=(source,))]
    )
    assert links == [{"type": "link", "name": str(source), "url": "https://docs.example/a"}]


def write(folder: Path, file: str, /, **content: Any) -> None:
    (folder / file).write_text(json.dumps(content))


def of_test(test: str = "suites/a.py::test_pods_reach[both-ways]", **more: Any) -> dict[str, Any]:
    return {"labels": [{"name": "test", "value": test}], "name": "old", "start": 1} | more


def test_only_the_last_attempt_of_a_test_has_the_run_s_text(tmp_path: Path) -> None:
    for number in (1, 2):
        write(tmp_path, f"{number}-result.json", **of_test(uuid=str(number), start=number))
    test = a_test(
        a_result("CONN-1", "p", "VIOLATED", a_decision("VIOLATED")),
        verdict="VIOLATED",
        cause="no Felix",
    )
    allure_words.retell(
        a_report(test, claims=(outcome("CONN-1", V.VIOLATED, test.results),)), tmp_path
    )
    first, last = (
        json.loads((tmp_path / f"{number}-result.json").read_text()) for number in (1, 2)
    )
    assert (first["name"], last["name"]) == ("CONN-1: p", "CONN-1: p")
    assert "description" not in first
    assert (last["status"], last["statusDetails"]) == (
        "failed",
        {"message": "VIOLATED: r", "flaky": False},
    )
    labels = {(label["name"], label["value"]) for label in last["labels"]}
    assert {
        ("build", "20348"),
        ("verdict", "VIOLATED"),
        ("evidence", "field"),
        ("cause", "no Felix"),
    } <= labels
    assert "tag" not in {name for name, _ in labels}


def outcome(claim: str, verdict: ClaimVerdict | None, results: Any = ()) -> ClaimOutcome:
    return ClaimOutcome(
        claim=CLAIMS[claim], verdict=verdict, reason="nobody *asked*", results=results
    )


@pytest.mark.parametrize(
    ("verdict", "status"),
    [(V.NOT_RUN, "unknown"), (V.NOT_APPLICABLE, "skipped"), (V.CONFIRMED, "passed"), (None, "")],
)
def test_a_claim_without_a_test_is_no_green_result(
    tmp_path: Path, verdict: ClaimVerdict | None, status: str
) -> None:
    allure_words.retell(a_report(claims=(outcome("CONN-1", verdict),)), tmp_path)
    found = [json.loads(path.read_text()) for path in tmp_path.iterdir()]
    assert [one["status"] for one in found] == ([status] if status else [])
    for one in found:
        assert one["name"] == f"CONN-1: {CLAIMS['CONN-1'].statement}"
        assert one["description"] == f"**{verdict}** nobody \\*asked\\*"
        assert one["start"] == one["stop"] == 1795168800000
        assert {"name": "tag", "value": "no test"} in one["labels"]


def test_attachments_of_fixtures_come_to_the_first_test_and_have_names_of_their_own(
    tmp_path: Path,
) -> None:
    def attached(*sources: str) -> list[dict[str, str]]:
        return [{"name": "matrix", "source": source} for source in sources]

    write(
        tmp_path,
        "f-container.json",
        children=["1", "2"],
        befores=[{"attachments": attached("b"), "steps": [{"attachments": attached("c")}]}],
        afters=[{"attachments": attached("d")}],
    )
    write(tmp_path, "g-container.json", children=[])
    (tmp_path / "cut-result.json").write_text('{"name": ')
    for number in ("1", "2"):
        write(
            tmp_path,
            f"{number}-result.json",
            **of_test(uuid=number, attachments=attached("a", "a")),
        )
    allure_words.retell(a_report(), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1-result.json", "2-result.json"]
    found = {
        number: [
            (one["name"], one["source"])
            for one in json.loads((tmp_path / f"{number}-result.json").read_text())["attachments"]
        ]
        for number in ("1", "2")
    }
    assert found == {
        "1": [("matrix", "a"), ("matrix 2", "b"), ("matrix 3", "c"), ("matrix 4", "d")],
        "2": [("matrix", "a")],
    }


def test_captured_text_obeys_no_terminal(tmp_path: Path) -> None:
    (tmp_path / "x-attachment.txt").write_text("a\x1b[31mb")
    allure_words.retell(a_report(), tmp_path)
    assert (tmp_path / "x-attachment.txt").read_text() == "a\\x1b[31mb"
