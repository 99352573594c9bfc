# SPDX-License-Identifier: Apache-2.0
"""JUnit files report the same as the run: a word for each verdict, the whole text of a failure,
and tests without a result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as Xml

from conformance.catalog import catalog
from conformance.catalog.known_issues import known_issues
from conformance.model.claim import ClaimResult, ClaimVerdict
from conformance.model.explanation import Explanation
from conformance.report import junit
from conformance.report.run import Gate, RunReport
from conformance.verdicts.claims import TestOutcome, claim_outcomes
from tests.plugin.stand_in_cluster import facts

V = ClaimVerdict
WHY = Explanation(
    claims=("DEMO-7",), path="ns/client -> 10.0.0.9:80/tcp", expected="TIMED_OUT", observed="CONNECTED", tries=3,
    seconds=1.0, lines={"because": "nobody is allowed", "said": "\x1b[31mred\x00"}, again="pytest --claim DEMO-7",
    cause="win-0 does not enforce the policy",
)  # fmt: skip
NAMES = {
    "DEMO-7": V.VIOLATED, "DEMO-5": V.VIOLATED, "CONN-1": V.INCONCLUSIVE, "CONN-2": V.CONFIRMED, "CONN-3": V.NOT_RUN,
    "IPAM-1": V.UNMET,
}  # fmt: skip


def node_id(claim: str) -> str:
    return f"suites/test_it.py::test_{claim.lower().replace('-', '_')}"


def report(**more: object) -> RunReport:
    """A run with a claim of each verdict; DEMO-5 is waived, and DEMO-7 may be known."""
    tests = tuple(
        TestOutcome(
            test=node_id(claim), verdict=verdict, reason=f"{claim} says \x1b[1mso", remedy=f"mend {claim}", seconds=2.0,
            results=(
                ClaimResult(
                    claim=claim, verdict=verdict, test=node_id(claim), reason=f"{claim} says \x1b[1mso",
                    remedy=f"mend {claim}", part="linux client" if claim == "CONN-3" else "",
                ),
            ),
            explanation=WHY if claim == "DEMO-7" else None,
        )
        for claim, verdict in NAMES.items()
    )  # fmt: skip
    claims = [
        replace(one, known=tuple(known_issues())[:1] if one.claim.id == "DEMO-7" else ())
        for one in claim_outcomes(catalog(), facts(), tests, whole=False)
    ]
    gate = Gate(
        name="core",
        build="20348",
        answer="incomplete",
        headline="core: 2 open",
        obstacles=(),
        waived=(),
    )
    whole = RunReport(
        run_id="r1", started="2026-11-20T10:00:00Z", seconds=9.0, exit_code=1, command="pytest", cluster={},
        facts=facts(), tests=tests, claims=tuple(claims), waived={"DEMO-5": "by jane"}, gates=(gate,),
        notes=("first", "second\x07"), labels={"by": "jane"}, cut_short="the user ended it",
    )  # fmt: skip
    return replace(whole, **more)  # type: ignore[arg-type]


def written(folder: Path) -> Xml.Element:
    """What pytest wrote of that run, mended: each failure is one for it, and of CONN-3 and IPAM-1 it heard nothing."""
    root = Xml.Element("testsuites")
    suite = Xml.SubElement(
        root, "testsuite", name="pytest", tests="0", failures="0", errors="0", skipped="9"
    )
    Xml.SubElement(suite, "testcase", classname="", name="")  # of a test that was interrupted
    for claim in ("DEMO-7", "DEMO-5", "CONN-1", "CONN-2"):
        case = Xml.SubElement(
            suite, "testcase", classname="suites", name=node_id(claim).rpartition("::")[2]
        )
        properties = Xml.SubElement(case, "properties")
        Xml.SubElement(properties, "property", name=junit.PROPERTY, value=node_id(claim))
        Xml.SubElement(properties, "property", name=junit.OUTCOME, value="{}")
        if claim != "CONN-2":
            Xml.SubElement(case, "failure", message=f"{claim} failed").text = "the traceback"
    Xml.ElementTree(root).write(folder / "junit.xml")
    junit.mend(folder / "junit.xml", report())
    suite_ = Xml.parse(folder / "junit.xml").getroot().find("testsuite")
    assert suite_ is not None
    return suite_


def tags(suite: Xml.Element) -> dict[str, list[str]]:
    """Case to what it says beside its properties and output."""
    return {
        case.get("name", ""): [
            one.tag for one in case if one.tag not in ("properties", "system-out")
        ]
        for case in suite.findall("testcase")
    }


def test_each_verdict_has_its_word_and_what_nobody_heard_of_is_there(tmp_path: Path) -> None:
    suite = written(tmp_path)
    assert tags(suite) == {
        "test_demo_7": ["failure"], "test_demo_5": ["skipped"], "test_conn_1": ["error"], "test_conn_2": [],
        "test_conn_3": ["skipped"], "test_ipam_1": [],
    }  # fmt: skip
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "6", "failures": "1", "errors": "1", "skipped": "2"}
    left = {
        entry.get("name") for case in suite.findall("testcase") for entry in case.iter("property")
    }
    assert left == {junit.PROPERTY}, "what processes tell each other is nothing for readers"


def test_a_failure_has_pytests_text_and_what_may_explain_it_and_a_waived_one_says_by_whom(
    tmp_path: Path,
) -> None:
    suite = written(tmp_path)
    (failure,) = suite.iter("failure")
    assert (failure.text or "").splitlines() == ["the traceback", str(next(iter(known_issues())))]
    waived = next(
        case.find("skipped")
        for case in suite.findall("testcase")
        if case.get("name") == "test_demo_5"
    )
    assert waived is not None
    assert waived.get("message") == "VIOLATED: DEMO-5 says \\x1b[1mso (waived: by jane)"


def properties(suite: Xml.Element) -> dict[str, str]:
    found = suite.find("properties")
    assert found is not None
    return {entry.get("name", ""): entry.get("value", "") for entry in found}


def test_the_file_alone_says_what_it_is_about(tmp_path: Path) -> None:
    told = properties(written(tmp_path))
    expected = {
        "run": "r1", "cut short": "the user ended it", "label by": "jane", "calico_version": "v3.31.2",
        "claims VIOLATED": "2", "gate core 20348": "core: 2 open", "note 1": "first", "note 2": "second\\x07",
    }  # fmt: skip
    assert {name: told.get(name) for name in expected} == expected
    assert {name for name in told if name.startswith("node ")} == {
        f"node {node.name}" for node in facts().by_os("windows")
    }
    assert "" not in told.values()


def test_a_claims_case_is_called_by_its_id_and_a_failure_has_all_that_its_test_said(
    tmp_path: Path,
) -> None:
    junit.write_claims(report(), tmp_path / "claims.xml")
    suite = Xml.parse(tmp_path / "claims.xml").getroot().find("testsuite")
    assert suite is not None
    found = tags(suite)
    assert {claim: found[claim] for claim in NAMES} == {
        "DEMO-7": ["failure"], "DEMO-5": ["skipped"], "CONN-1": ["error"], "CONN-2": [], "CONN-3": ["skipped"],
        "IPAM-1": ["skipped"],
    }  # fmt: skip
    assert set(found) == set(NAMES), "of claims that were not selected nothing is said"
    (failure,) = suite.iter("failure")
    assert failure.get("message") == "VIOLATED: DEMO-7 says \\x1b[1mso"
    said = (failure.text or "").splitlines()
    assert said[:2] == [node_id("DEMO-7"), WHY.headline]
    assert said[-3:] == [
        "  again     pytest --claim DEMO-7",
        "mend DEMO-7",
        str(next(iter(known_issues()))),
    ]
    assert "  said     \\x1b[31mred\\x00" in said
    waived = next(
        case.find("skipped") for case in suite.findall("testcase") if case.get("name") == "DEMO-5"
    )
    assert waived is not None
    assert waived.get("message") == "VIOLATED: DEMO-5 says \\x1b[1mso (waived: by jane)"
    demo = next(case for case in suite.findall("testcase") if case.get("name") == "DEMO-7")
    assert (demo.get("classname"), demo.get("time")) == ("Calico demo", "2.000")
    assert (demo.findtext("system-out") or "").startswith("VIOLATED")
    assert catalog()["DEMO-7"].statement in (demo.findtext("system-out") or "")
    assert properties(suite)["note 2"] == "second\\x07"
