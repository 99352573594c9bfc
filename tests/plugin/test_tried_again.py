# SPDX-License-Identifier: Apache-2.0
"""pytest-rerunfailures never hides a failure: the worst of all attempts counts, in every output,
and is marked."""

from __future__ import annotations

import json
from xml.etree import ElementTree as Xml

import pytest

from conformance.model.claim import ClaimVerdict
from conformance.verdicts.attempts import merged
from conformance.verdicts.claims import TestOutcome

from .conftest import Project, Run

ONCE = """
import os
@verifies("CONN-1")
def test_it(record):
    record.touched(["windows"])
    if not os.path.exists("tried"):
        open("tried", "w").close()
        %s
"""
RERUNS = ("-p", "rerunfailures", "--reruns", "1")


def the_test(run: Run) -> dict[str, object]:
    (test,) = run.report["tests"]
    found: dict[str, object] = test
    return found


def allure(run: Run) -> list[dict[str, object]]:
    assert run.folder
    results = [
        json.loads(path.read_text()) for path in (run.folder / "allure").glob("*-result.json")
    ]
    return sorted(results, key=lambda result: int(result["start"]))


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize(
    ("error", "verdict", "told"),
    [
        (
            'raise Nonconformance("expected blocked, observed connected")',
            "VIOLATED",
            (1, "failure", "failed"),
        ),
        ('raise ProbeBroken("agent died")', "INCONCLUSIVE", (6, "error", "broken")),
    ],
)
def test_the_worst_attempt_counts_everywhere(
    project: Project, workers: str, error: str, verdict: str, told: tuple[int, str, str]
) -> None:
    code, tag, status = told
    project.suite(ONCE % error)
    run = project.run(*RERUNS, "-n", workers)
    assert run.code == code, run.out
    test = the_test(run)
    assert (test["verdict"], test["flaky"], test["attempts"]) == (
        verdict,
        True,
        [verdict, "CONFIRMED"],
    )
    assert run.verdict("CONN-1") == verdict
    assert f"FLAKY ({verdict}, CONFIRMED): " in run.claim("CONN-1")["reason"]
    assert f"{verdict:12} CONN-1    FLAKY ({verdict}, CONFIRMED): " in run.out
    assert run.folder
    cases = Xml.parse(run.folder / "junit.xml").getroot().findall(".//testcase")
    assert [child.tag for case in cases for child in case if child.tag != "properties"] == [tag]
    assert [
        entry.get("value")
        for case in cases
        for entry in case.iter("property")
        if entry.get("name") == "flaky"
    ] == [f"{verdict}, CONFIRMED"]
    newest = allure(run)[-1]
    assert newest["status"] == status
    assert newest["statusDetails"]["flaky"] is True  # type: ignore[index]
    assert "FLAKY" in [label["value"] for label in newest["labels"] if label["name"] == "tag"]  # type: ignore[attr-defined]


def test_attempts_that_agree_are_not_flaky(project: Project) -> None:
    project.suite('@verifies("CONN-1")\ndef test_it(): raise Nonconformance("refused")')
    run = project.run(*RERUNS)
    assert (the_test(run)["attempts"], the_test(run)["flaky"]) == (["VIOLATED", "VIOLATED"], False)
    assert run.claim("CONN-1")["reason"] == "refused"


def test_a_worker_that_died_and_a_second_try_that_went_well_stay_inconclusive(
    project: Project,
) -> None:
    project.suite(ONCE % "os._exit(1)")
    run = project.run(*RERUNS, "-n", "2")
    assert run.code == 6, run.out
    assert the_test(run)["verdict"] == "INCONCLUSIVE"


def test_another_attempt_at_an_exclusive_test_finds_what_the_first_one_left(
    project: Project,
) -> None:
    project.suite(
        """
from conformance.plugin import state

@pytest.fixture(scope="session")
def looks(pytestconfig):
    seen = []
    state.of(pytestconfig).restoration.epoch.register(lambda: seen.append(1))
    return seen

@verifies("VXLAN-10")
def test_cluster(looks):
    raise Nonconformance(f"looked {len(looks)} times")
"""
    )
    run = project.run(*RERUNS)
    assert the_test(run)["attempts"] == ["VIOLATED", "VIOLATED"]
    assert "looked 1 times" in run.out


def outcome(verdict: ClaimVerdict, **more: float) -> TestOutcome:
    return TestOutcome(test="t", verdict=verdict, reason=f"is {verdict}", **more)  # type: ignore[arg-type]


def test_a_violation_in_the_middle_counts() -> None:
    one = merged(
        [
            outcome(ClaimVerdict.INCONCLUSIVE, seconds=1.0),
            outcome(ClaimVerdict.VIOLATED, seconds=2.0),
            outcome(ClaimVerdict.CONFIRMED, seconds=4.0),
        ]
    )
    assert (one.verdict, one.seconds, one.flaky) == (ClaimVerdict.VIOLATED, 7.0, True)
    assert one.reason == "FLAKY (INCONCLUSIVE, VIOLATED, CONFIRMED): is VIOLATED"
