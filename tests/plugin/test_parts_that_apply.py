# SPDX-License-Identifier: Apache-2.0
"""Parts with conditions: the parts that apply run, and every output lists the others with the
reason."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from xml.etree import ElementTree as Xml

import pytest

from conformance.report import page
from tests.golden import schema

from .conftest import Project, Run

SUITE = """
@verifies("CONN-3", part="here", applies={"modes": ["vxlan"]})
def test_here(): pass

@verifies("CONN-3", part="elsewhere", applies={"modes": ["bgp"]})
def test_elsewhere():
    raise AssertionError("never reached")

@verifies("CONN-4", part="not known", applies={"mesh": True})
def test_not_known():
    raise AssertionError("never reached")

@verifies("CONN-2", part="one", applies={"modes": ["vxlan"]})
@verifies("CONN-2", part="other", applies={"modes": ["bgp"]})
@verifies("CONN-7", part="open", applies={"dual_stack": True})
def test_several(): pass

@verifies("DEMO-5", part="only elsewhere", applies={"modes": ["bgp"]})
def test_only_elsewhere():
    raise AssertionError("never reached")

@verifies("DEMO-6", part="there", applies={"windows_builds": "<20348"})
@verifies("DEMO-7", part="new", provisional=True)
def test_provisional():
    raise Nonconformance("expected blocked, observed connected")

@verifies("XPOL-1", part="except")
def test_as_documented(): pass

@verifies("XPOL-1", part="notNets")
def test_lifted(record):
    record.lifted("the exception is kept out")

@verifies("XPOL-1", part="notPorts")
def test_neither():
    raise Nonconformance("XPOL-1 it lets the excepted in: expected TIMED_OUT or CONNECTED as documented")
"""
ELSEWHERE = "it is about mode bgp; here: mode vxlan (stand-in)"


@pytest.fixture(scope="module")
def project_here(make_project: Callable[[], Project]) -> Project:
    project = make_project()
    project.suite(SUITE)
    return project


@pytest.fixture(scope="module")
def run(project_here: Project) -> Run:
    return project_here.run()


@pytest.fixture(scope="module")
def plan(project_here: Project, run: Run) -> str:  # after the run, whose folder is the newest
    assert run.folder
    return project_here.run("--plan", STAND_IN=json.dumps({"cni": "AzureVNET"})).out


def results(run: Run) -> dict[tuple[str, str], tuple[str, str]]:
    return {
        (result["claim"], result["part"]): (result["verdict"], result["reason"])
        for claim in run.report["claims"]
        for result in claim["results"]
    }


def test_each_part_is_decided_by_its_own_conditions(run: Run) -> None:
    told = {part: verdict for (_, part), (verdict, _) in results(run).items()}
    assert told == {
        "here": "CONFIRMED", "elsewhere": "NOT_APPLICABLE", "not known": "NOT_RUN", "one": "CONFIRMED",
        "other": "NOT_APPLICABLE", "open": "NOT_RUN", "only elsewhere": "NOT_APPLICABLE", "there": "NOT_APPLICABLE",
        "new": "VIOLATED", "except": "CONFIRMED", "notNets": "LIFTED", "notPorts": "VIOLATED",
    }  # fmt: skip
    assert results(run)["CONN-3", "elsewhere"][1] == ELSEWHERE
    assert (
        results(run)["CONN-4", "not known"][1]
        == "it is about mesh on, and it is not known whether that holds here: not known: not read"
    )


def test_the_verdict_of_a_claim_is_that_of_its_parts_here(run: Run) -> None:
    verdicts = {
        ident: run.verdict(ident)
        for ident in ("CONN-3", "CONN-4", "CONN-2", "CONN-7", "DEMO-5", "DEMO-6")
    }
    assert verdicts == {
        "CONN-3": "CONFIRMED", "CONN-4": "NOT_RUN", "CONN-2": "CONFIRMED", "CONN-7": "NOT_RUN",
        "DEMO-5": "NOT_APPLICABLE", "DEMO-6": "NOT_APPLICABLE",
    }  # fmt: skip


def test_json_lists_the_parts_that_are_not_about_this_cluster(run: Run) -> None:
    listed = {
        claim["id"]: claim["inapplicable_parts"]
        for claim in run.report["claims"]
        if claim["inapplicable_parts"]
    }
    assert listed == {
        "CONN-3": {"elsewhere": ELSEWHERE},
        "CONN-2": {"other": ELSEWHERE},
        "DEMO-5": {"only elsewhere": ELSEWHERE},
        "DEMO-6": {
            "there": "it is about Windows builds <20348; here: Windows nodes: win-0 20348.2762, win-1 20348.2762"
        },
    }
    assert schema.problems(run.report) == []


@pytest.mark.parametrize("part", ["elsewhere", "other", "only elsewhere"])
def test_terminal_page_junit_and_allure_list_them_with_the_reason(run: Run, part: str) -> None:
    assert f"part {part} is not about this cluster: {ELSEWHERE}" in run.out
    text = re.sub("<[^>]+>", " ", page.render(run.report))
    assert re.search(rf"1 part is not about this cluster\s+{part}\s*: {re.escape(ELSEWHERE)}", text)
    assert run.folder
    told = "".join(Xml.parse(run.folder / "junit-claims.xml").getroot().itertext())
    assert f"part {part} is not about this cluster: {ELSEWHERE}" in told
    described = [
        json.loads(path.read_text())["description"]
        for path in (run.folder / "allure").glob("*-result.json")
    ]
    assert any(f"part {part}: {ELSEWHERE}" in text for text in described)


def test_a_new_part_that_is_violated_decides_the_exit_code(run: Run) -> None:
    assert run.code == 1
    assert run.verdict("DEMO-7") == "VIOLATED"


def test_a_limitation_that_is_neither_as_documented_nor_lifted_is_violated_in_every_output(
    run: Run,
) -> None:
    assert run.verdict("XPOL-1") == "VIOLATED"
    assert re.search(r"^VIOLATED     XPOL-1 .*it lets the excepted in", run.out, re.M)
    assert not re.search(r"^LIFTED +XPOL-1 ", run.out, re.M)
    assert re.search('id="XPOL-1"[^>]* open>', page.render(run.report))
    assert run.folder
    claims = Xml.parse(run.folder / "junit-claims.xml").getroot()
    (case,) = [case for case in claims.iter("testcase") if case.get("name") == "XPOL-1"]
    assert (case.findtext("system-out") or "").startswith("VIOLATED\n")
    assert "it lets the excepted in" in (case.findtext("failure") or "")
    tests = {test["test"].rpartition("_")[2]: test["verdict"] for test in run.report["tests"]}
    assert (tests["documented"], tests["lifted"], tests["neither"]) == (
        "CONFIRMED",
        "LIFTED",
        "VIOLATED",
    )
    statuses = {}
    for path in (run.folder / "allure").glob("*-result.json"):
        result = json.loads(path.read_text())
        statuses[result["fullName"].rpartition("_")[2]] = result["status"]
    assert (statuses["documented"], statuses["lifted"], statuses["neither"]) == (
        "passed",
        "passed",
        "failed",
    )
    assert 'name="test_neither"' in (run.folder / "junit.xml").read_text()


def test_the_plan_and_the_header_list_them_too(plan: str) -> None:
    lines = [" ".join(line.split()) for line in plan.splitlines()]
    assert f"NOT_APPLICABLE part elsewhere: {ELSEWHERE}" in lines
    assert (
        "NOT_RUN part open: it is about dual stack on, and it is not known whether that holds "
        "here: not known: not read" in lines
    )
    assert "CONN-2 runs 1 test" in lines
    assert f"DEMO-5 NOT_APPLICABLE DEMO-5: {ELSEWHERE};" in lines
    assert (
        "not about this cluster: part POL-1 (kubernetes: new pod, linux): it is about CNI Calico; here: CNI AzureVNET "
        "(stand-in)"
    ) in lines  # of the suite itself, before anything is collected


def test_the_list_of_claims_says_on_which_clusters_a_part_says_anything(
    project_here: Project,
) -> None:
    out = project_here.run("--list-claims", "--claim=CONN-3").out
    assert "part here: only on clusters with modes vxlan" in out
    assert "part elsewhere: only on clusters with modes bgp" in out


FOREIGN = """
@verifies("CONN-3", part="routes of linux nodes"{applies})
def test_routes(vxlan): pass
"""


def test_a_part_that_reads_one_networks_facts_says_that_it_is_about_that_network(
    project: Project,
) -> None:
    project.suite(FOREIGN.format(applies=""))
    run = project.run("--collect-only", "-q")
    assert run.code == 4, run.out
    assert (
        "fixture vxlan describes only modes vxlan, and CONN-3 is about other clusters, too: "
        "write verifies('CONN-3', part='routes of linux nodes', applies={'modes': ['vxlan']})"
    ) in run.out
    project.suite(FOREIGN.format(applies=', applies={"modes": ["vxlan", "bgp"]}'))
    assert project.run("--collect-only", "-q").code == 4
    project.suite(FOREIGN.format(applies=', applies={"modes": ["vxlan"]}'))
    assert project.run("--collect-only", "-q").code == 0
