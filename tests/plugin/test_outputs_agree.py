# SPDX-License-Identifier: Apache-2.0
"""Terminal, conformance.json, JUnit XML, Allure results and the exit code report the same about
every test."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from conformance.catalog import catalog
from conformance.cli import main
from conformance.model.claim import ClaimVerdict
from conformance.report import allure_results, junit
from tests.golden import left_by_a_run, schema
from tests.plugin.junit_statuses import statuses

from .conftest import Project, Run

SUITE = """
from conformance.model.decision import Decision
from conformance.model.verdict import ClaimVerdict
@verifies("VXLAN-1", part="{c}->{s} pod-ip")
@pytest.mark.parametrize("c,s", [("linux", "windows"), ("windows", "linux"), ("windows", "windows")])
def test_confirmed(c, s, record):
    record(first_correct=0.25)
    record.touched(["windows"])

@verifies("VXLAN-4")
def test_violated():
    raise Nonconformance("expected blocked, observed connected\\n  because nothing is allowed")

@verifies("XPOL-2")
def test_violated_by_assert():
    assert 1 == 2

@verifies("PLAT-6")
def test_unmet():
    raise Unmet("win-1 runs 17763.1, the table asks for 17763.1432")

@verifies("PLAT-10")
def test_advised():
    raise Unmet("Kubernetes 1.19 is in no table")

@verifies("IPAM-3")
def test_unmet_of_a_limitation_is_violated():
    raise Unmet("nothing is reserved")

@verifies("ENC-3")
def test_broken_probe():
    raise ProbeBroken("agent died")

@verifies("DS-2")
def test_broken_suite():
    {}["missing"]

@verifies("NAT-1")
def test_failed_by_pytest():
    pytest.fail("Timeout >10 s")

@verifies("ENC-5")
def test_lacking():
    raise MissingCapability("there is no calicoctl", "name one")

@verifies("CONN-3")
@pytest.mark.undecided
def test_lacking_since_a_node_was_lost(record):
    record.decided(Decision(
        source="", target="win-0", builds=("20348",), about=("20348",), verdict=ClaimVerdict.INCONCLUSIVE,
        reason="node win-0 was lost during the run: Ready Unknown", halves=("behaviour",),
    ))
    raise MissingCapability("needs a pair of pods on two nodes", "cover more nodes")

@verifies("BGP-1")
def test_not_applicable():
    raise AssertionError("never reached")

@verifies("CONN-2")
@needs(windows=3)
def test_too_few_nodes():
    raise AssertionError("never reached")

@pytest.fixture
def control():
    raise Nonconformance("the path was not open before")

@verifies("CONN-4")
def test_set_up_fails(control):
    raise AssertionError("never reached")

@pytest.fixture
def lacking():
    raise MissingCapability("no second pool", "make one")

@verifies("CONN-5")
def test_set_up_lacks(lacking):
    raise AssertionError("never reached")

@verifies("RST-1")
def test_not_observed(record):
    record.not_observed("the witness flipped, no reset was seen")

@verifies("VXLAN-8")
def test_lifted(record):
    record.lifted("the MTU was taken")

@verifies("CONN-1")
def test_wrong_word(record):
    record.lifted("a capability cannot be lifted")

@pytest.fixture
def late():
    yield
    raise RuntimeError("cannot delete")

@verifies("CONN-6")
def test_clearing_up_fails(late):
    pass

@verifies("CONN-7")
def test_violated_and_clearing_up_fails(late):
    raise Nonconformance("no answer")
"""

EXPECTED = {
    "test_confirmed[linux-windows]": "CONFIRMED",
    "test_confirmed[windows-linux]": "CONFIRMED",
    "test_confirmed[windows-windows]": "CONFIRMED",
    "test_violated": "VIOLATED",
    "test_violated_by_assert": "VIOLATED",
    "test_unmet": "UNMET",
    "test_advised": "ADVISED",
    "test_unmet_of_a_limitation_is_violated": "VIOLATED",
    "test_broken_probe": "INCONCLUSIVE",
    "test_broken_suite": "INCONCLUSIVE",
    "test_failed_by_pytest": "INCONCLUSIVE",
    "test_lacking": "NOT_RUN",
    "test_lacking_since_a_node_was_lost": "INCONCLUSIVE",
    "test_not_applicable": "NOT_APPLICABLE",
    "test_too_few_nodes": "NOT_RUN",
    "test_set_up_fails": "INCONCLUSIVE",
    "test_set_up_lacks": "NOT_RUN",
    "test_not_observed": "NOT_OBSERVED",
    "test_lifted": "LIFTED",
    "test_wrong_word": "INCONCLUSIVE",
    "test_clearing_up_fails": "INCONCLUSIVE",
    "test_violated_and_clearing_up_fails": "VIOLATED",
}

JUNIT = {
    "VIOLATED": "failure",
    "INCONCLUSIVE": "error",
    "NOT_RUN": "skipped",
    "NOT_APPLICABLE": "skipped",
}
ALLURE = {
    "VIOLATED": "failed",
    "INCONCLUSIVE": "broken",
    "NOT_RUN": "unknown",
    "NOT_APPLICABLE": "skipped",
}


@pytest.fixture(scope="module", params=["one process", "two workers"])
def run(request: pytest.FixtureRequest, make_project: Callable[[], Project]) -> Run:
    project = make_project()
    project.suite(SUITE)
    return project.run("-v", *(["-n", "2"] if request.param == "two workers" else []))


def name(test: str) -> str:
    return test.rpartition("::")[2]


def test_every_test_gets_its_verdict(run: Run) -> None:
    assert {name(test["test"]): test["verdict"] for test in run.report["tests"]} == EXPECTED


def test_what_a_lost_node_has_taken_away_names_the_node_and_does_not_ask_for_more(run: Run) -> None:
    told = next(
        test
        for test in run.report["tests"]
        if name(test["test"]) == "test_lacking_since_a_node_was_lost"
    )
    said = [told, *run.claim("CONN-3")["results"]]
    reason = "node win-0 was lost during the run: Ready Unknown"
    assert {(one["verdict"], one["reason"], one["remedy"]) for one in said} == {
        ("INCONCLUSIVE", reason, "")
    }
    assert reason in run.out


def test_violated_decides_the_exit_code(run: Run) -> None:
    assert run.code == run.report["run"]["exit_code"] == 1


def test_junit_says_the_same(run: Run) -> None:
    assert run.folder
    said = {name(test): status for test, status in statuses(run.folder / "junit.xml").items()}
    assert said == {test: JUNIT.get(verdict, "passed") for test, verdict in EXPECTED.items()}


def test_allure_says_the_same(run: Run) -> None:
    assert run.folder
    said = {
        name(test): status
        for test, status in allure_results.written_tests(run.folder / "allure").items()
    }
    assert said == {test: ALLURE.get(verdict, "passed") for test, verdict in EXPECTED.items()}


def allure(run: Run) -> list[dict[str, Any]]:
    assert run.folder
    return [json.loads(path.read_text()) for path in (run.folder / "allure").glob("*-result.json")]


def of_test(run: Run, test: str) -> dict[str, Any]:
    return next(
        item
        for item in allure(run)
        if {"name": "test", "value": f"suites/test_it.py::{test}"} in item["labels"]
    )


def test_allure_s_own_plugin_wrote_the_results_of_tests(run: Run) -> None:
    for result in allure(run):
        kinds = {label["name"] for label in result["labels"]}
        assert {"framework", "thread"} <= kinds or not result["fullName"].startswith("suites"), (
            result
        )


def test_allure_has_the_statement_as_title_the_verdict_s_word_and_no_fixtures(run: Run) -> None:
    assert run.folder
    assert list((run.folder / "allure").glob("*-container.json")) == []
    violated = of_test(run, "test_violated")
    assert violated["name"].startswith("VXLAN-4: ")
    assert violated["statusDetails"]["message"].startswith("VIOLATED: ")
    assert "**VIOLATED** expected blocked" in violated["description"]
    assert "Evidence: lab" in violated["description"]
    assert all(link["url"].startswith("https://") for link in violated["links"])
    assert violated["links"]
    confirmed = of_test(run, "test_confirmed[linux-windows]")
    assert confirmed["name"] == "VXLAN-1: linux->windows pod-ip"


def test_allure_s_steps_are_what_was_expected_and_seen_between_nodes(run: Run) -> None:
    steps = [
        (step["name"], step["status"])
        for step in of_test(run, "test_confirmed[linux-windows]")["steps"]
    ]
    assert steps == [
        (
            "linux-1 to win-0: as expected, silently dropped, reached, because decided by the stand-in",
            "passed",
        )
    ]


def test_a_claim_without_a_test_is_in_allure_with_its_reason_and_is_never_green(run: Run) -> None:
    untested = [
        item for item in allure(run) if {"name": "tag", "value": "no test"} in item["labels"]
    ]
    assert {item["status"] for item in untested} == {"skipped", "unknown"}
    assert any(
        item["statusDetails"]["message"] == "NOT_RUN: there is no test for it yet"
        for item in untested
    )
    assert len({item["uuid"] for item in allure(run)}) == len(allure(run))


def test_junit_names_versions_once_and_carries_no_machine_s_text(run: Run) -> None:
    assert run.folder
    suite = Xml.parse(run.folder / "junit.xml").getroot().find("testsuite")
    assert suite is not None
    properties = suite.find("properties")
    assert properties is not None
    told = {property_.get("name"): property_.get("value") for property_ in properties}
    assert told["calico_version"] == "v3.31.2"
    assert told["node win-0"] == "Windows 20348.2762, Calico v3.31.2"
    assert not [
        element for element in suite.iter("property") if element.get("name") == junit.OUTCOME
    ]


def test_a_second_junit_file_has_a_case_per_claim_in_which_unmet_and_not_run_are_seen(
    run: Run,
) -> None:
    assert run.folder
    suite = Xml.parse(run.folder / "junit-claims.xml").getroot().find("testsuite")
    assert suite is not None
    cases = {str(case.get("name")).split()[0]: case for case in suite.findall("testcase")}
    assert len(cases) == sum(1 for claim in run.report["claims"] if claim["verdict"])
    shown = {
        claim: [child.tag for child in cases[claim]]
        for claim in ("PLAT-6", "VXLAN-4", "VXLAN-1", "PLAT-1")
    }
    assert shown == {
        "PLAT-6": ["skipped", "system-out"], "VXLAN-4": ["failure", "system-out"], "VXLAN-1": ["system-out"],
        "PLAT-1": ["skipped", "system-out"],
    }  # fmt: skip
    assert str(cases["PLAT-6"][0].get("message")).startswith("UNMET: ")


def test_allure_files_a_test_under_area_and_claim(run: Run) -> None:
    assert run.folder
    unmet = of_test(run, "test_unmet")
    labels = {(label["name"], label["value"]) for label in unmet["labels"]}
    assert {("kind", "requirement"), ("mode", "vxlan"), ("verdict", "UNMET")} <= labels
    assert ("epic", "Platform and topology") in labels
    assert ("story", "unmet") in labels
    assert ("tag", "UNMET") in labels
    assert any(kind == "feature" and value.startswith("PLAT-6 ") for kind, value in labels)
    assert (
        "calico_version=v3.31.2" in (run.folder / "allure" / "environment.properties").read_text()
    )


@pytest.mark.parametrize(("test", "verdict"), EXPECTED.items())
def test_the_terminal_says_the_same(run: Run, test: str, verdict: str) -> None:
    lines = [line for line in run.out.splitlines() if f"::{test} " in line and "%]" in line]
    # The first line of a failure may stand between a test's name and its verdict.
    split = re.findall(rf"::{re.escape(test)} \n.*\n+(.*)%\]", run.out)
    assert any(verdict in words for words in (*lines, *split)), run.out


def test_the_report_fits_its_schema_which_describes_all_of_it(run: Run) -> None:
    assert schema.problems(run.report) == []
    assert set(run.report) == set(schema.schema()["properties"])


def test_every_claim_of_the_catalog_is_in_the_report(run: Run) -> None:
    assert [claim["id"] for claim in run.report["claims"]] == list(catalog())
    assert sum(run.report["counts"].values()) == len(catalog())


def test_a_claim_without_a_test_is_not_run_and_says_so(run: Run) -> None:
    assert run.verdict("PLAT-1") == "NOT_RUN"
    assert "no test" in run.claim("PLAT-1")["reason"]


def test_the_matrix_has_a_cell_per_direction(run: Run) -> None:
    assert run.report["matrix"]["pod-ip"] == {
        "linux->windows": "CONFIRMED",
        "windows->linux": "CONFIRMED",
        "windows->windows": "CONFIRMED",
    }
    assert "W->W" in run.out


def test_measured_figures_reach_the_report(run: Run) -> None:
    assert run.claim("VXLAN-1")["results"][0]["measured"] == {"first_correct": 0.25}


def test_every_failure_names_the_command_that_repeats_it(run: Run) -> None:
    assert "again     pytest --claim VXLAN-4" in run.out
    assert "again     pytest --claim ENC-3" in run.out


def test_the_summary_says_what_kind_of_evidence_it_is(run: Run) -> None:
    assert "evidence: lab (Windows 20348.2762, emulated)" in run.out
    assert run.report["run"]["evidence"] == "lab"


def test_show_says_again_what_the_run_said_at_its_end(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = run.out.splitlines()
    begins = next(number for number, line in enumerate(lines) if re.fullmatch("=+ claims =+", line))
    ends = next(number for number, line in enumerate(lines) if line.startswith("report: "))
    assert main(["show", str(run.folder)]) == 0
    first, *again, last = capsys.readouterr().out.splitlines()
    assert again == lines[begins + 1 : ends]
    assert first.startswith(f"run {run.report['run']['id']} of ")
    assert last.partition("(")[2] == lines[ends].partition("(")[2]


def test_every_claim_says_why_it_is_about_the_cluster(run: Run) -> None:
    assert run.claim("VXLAN-1")["applies"].startswith("it is about this cluster: mode vxlan (")
    assert run.claim("DEMO-7")["applies"] == "it is about every cluster"
    assert all(claim["applies"].startswith("it is about ") for claim in run.report["claims"])


def test_a_run_leaves_what_the_page_about_it_names_and_nothing_else(run: Run) -> None:
    assert run.folder
    assert left_by_a_run.untold(run.folder) == []
    always = {
        "report.html",
        "conformance.json",
        "junit.xml",
        "junit-claims.xml",
        "allure/",
        "attachments/",
    }
    assert always <= set(left_by_a_run.told())
    assert [name for name in always if not (run.folder / name).exists()] == []


def test_the_tables_here_leave_no_verdict_out() -> None:
    assert set(EXPECTED.values()) == {str(verdict) for verdict in ClaimVerdict}


def test_latest_leads_to_the_run(run: Run) -> None:
    assert run.folder == Path(run.folder or "").resolve()
    assert run.folder
    assert (run.folder / "conformance.json").exists()
