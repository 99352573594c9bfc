# SPDX-License-Identifier: Apache-2.0
"""How waivers, attestations and --fail-on change a run's exit code, and the reason that is
printed for it."""

from __future__ import annotations

import datetime
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.catalog import catalog
from conformance.errors import UsageProblem
from conformance.model.claim import ClaimResult, ClaimVerdict
from conformance.model.decision import Decision
from conformance.plugin.qualification import Qualification
from conformance.qualify.attest import Attestation
from conformance.qualify.sets import sets
from conformance.qualify.waivers import Waiver
from conformance.report.run import RunReport
from conformance.verdicts.claims import ClaimOutcome, TestOutcome, claim_outcomes
from tests.plugin.stand_in_cluster import facts

CLAIM, OTHER = "CONN-1", "DEMO-5"
OLD, NEW = "17763", "20348"
VIOLATED, CONFIRMED, INCONCLUSIVE, NOT_RUN = (
    ClaimVerdict.VIOLATED,
    ClaimVerdict.CONFIRMED,
    ClaimVerdict.INCONCLUSIVE,
    ClaimVerdict.NOT_RUN,
)


def result(
    verdict: ClaimVerdict, claim: str = CLAIM, part: str = "", **builds: ClaimVerdict
) -> ClaimResult:
    """The result of a test; ``on20348``: the verdict on that build."""
    decisions = tuple(
        Decision(
            claim=claim, part=part, test="t", source="a", target="b", builds=(name[2:],),
            about=(name[2:],), verdict=each, reason="", halves=("open",),
        )
        for name, each in builds.items()
    )  # fmt: skip
    return ClaimResult(
        claim=claim, verdict=verdict, test="t", reason="why", part=part, decisions=decisions
    )


def a_test(*results: ClaimResult, verdict: ClaimVerdict | None = None) -> TestOutcome:
    worst = verdict or results[0].verdict
    return TestOutcome(test="t", verdict=worst, results=results)


def a_waiver(claim: str = CLAIM, build: str = "", **fields: Any) -> Waiver:
    verdicts = fields.pop("verdicts", (VIOLATED,))
    day = datetime.date(2030, 1, 1)
    return Waiver(
        claim=claim, verdicts=verdicts, reason="r", link="l", owner="o", expires=day, build=build,
        **fields,
    )  # fmt: skip


def an_attestation(answer: ClaimVerdict) -> Attestation:
    day = datetime.date(2026, 11, 20)
    return Attestation(claim=CLAIM, answer=answer, who="jane", when=day, evidence="ticket 1")


def a_report(*tests: TestOutcome) -> RunReport:
    known = {claim: catalog()[claim] for claim in (CLAIM, OTHER)}
    return RunReport(
        run_id="r",
        started="2026-11-20T10:00:00Z",
        seconds=1.0,
        exit_code=0,
        command="pytest",
        cluster={},
        facts=facts(),
        tests=tests,
        claims=claim_outcomes(known, facts(), tests, whole=False),
    )


def applied(demands: Qualification, *tests: TestOutcome, status: int = 0) -> RunReport:
    return demands.apply(a_report(*tests), status, by_user=False)[0]


def test_without_demands_the_tests_alone_decide() -> None:
    assert applied(Qualification(), a_test(result(CONFIRMED))).exit_code == 0
    found = applied(Qualification(), a_test(result(VIOLATED)), status=1)
    assert (found.exit_code, found.exit_cause, found.waived) == (1, "", {})
    assert applied(Qualification(), a_test(result(INCONCLUSIVE)), status=1).exit_code == 6


def test_a_waived_violation_does_not_count_and_the_waiver_is_reported() -> None:
    waiver = a_waiver()
    found = applied(Qualification(waivers=(waiver,)), a_test(result(VIOLATED)), status=1)
    assert (found.exit_code, found.waived, found.notes) == (0, {CLAIM: str(waiver)}, ())


def test_a_waiver_that_nothing_needed_is_named() -> None:
    waiver = a_waiver()
    found = applied(Qualification(waivers=(waiver,)), a_test(result(CONFIRMED)))
    assert found.notes == (f"waiver not used: {waiver}",)
    assert found.waived == {}


@pytest.mark.parametrize(
    ("builds", "code"),
    [
        ({"on17763": VIOLATED}, 0),
        ({"on20348": VIOLATED}, 1),
        ({"on17763": VIOLATED, "on20348": VIOLATED}, 1),
        ({"on17763": VIOLATED, "on20348": CONFIRMED}, 0),
        ({}, 1),
    ],
)
def test_a_waiver_for_a_build_accepts_a_violation_on_it_alone(
    builds: dict[str, ClaimVerdict], code: int
) -> None:
    demands = Qualification(waivers=(a_waiver(build=OLD),))
    found = applied(demands, a_test(result(VIOLATED, **builds)), status=1)
    assert found.exit_code == code
    assert bool(found.waived) is not bool(code)


def test_a_waiver_for_a_part_accepts_no_other_part() -> None:
    demands = Qualification(waivers=(a_waiver(part="linux"),))
    both = (result(VIOLATED, part="linux"), result(VIOLATED, part="windows"))
    assert applied(demands, a_test(both[0]), status=1).exit_code == 0
    assert applied(demands, a_test(*both), status=1).exit_code == 1


def test_what_is_inconclusive_beside_a_waived_violation_still_counts() -> None:
    demands = Qualification(waivers=(a_waiver(),))
    test = a_test(result(VIOLATED), result(INCONCLUSIVE, OTHER), verdict=VIOLATED)
    assert applied(demands, test, status=1).exit_code == 6


def test_a_failure_of_pytest_that_no_waiver_explains_stays() -> None:
    demands = Qualification(waivers=(a_waiver(),))
    assert applied(demands, a_test(result(CONFIRMED)), status=1).exit_code == 6
    assert applied(demands, a_test(result(VIOLATED)), status=3).exit_code == 3


@pytest.mark.parametrize(
    ("verdict", "builds", "fails"),
    [
        (NOT_RUN, {}, True),
        (CONFIRMED, {}, False),
        (CONFIRMED, {"on17763": NOT_RUN, "on20348": CONFIRMED}, True),
        (VIOLATED, {"on17763": VIOLATED}, False),
    ],
)
def test_fail_on_fails_for_a_verdict_anywhere(
    verdict: ClaimVerdict, builds: dict[str, ClaimVerdict], fails: bool
) -> None:
    demands = Qualification(fail_on=frozenset({NOT_RUN}))
    found = applied(demands, a_test(result(verdict, **builds)))
    cause = f"--fail-on: {CLAIM}" if fails else ""
    assert found.exit_cause == cause
    assert (found.exit_code == 1) is (fails or verdict is VIOLATED)


def test_a_waived_verdict_of_fail_on_does_not_fail() -> None:
    demands = Qualification(
        fail_on=frozenset({NOT_RUN}), waivers=(a_waiver(verdicts=(NOT_RUN,), build=OLD),)
    )
    assert applied(demands, a_test(result(NOT_RUN, on17763=NOT_RUN))).exit_code == 0
    assert applied(demands, a_test(result(NOT_RUN, on20348=NOT_RUN))).exit_code == 1


def unasked(claim: str, verdict: ClaimVerdict | None) -> ClaimOutcome:
    """A claim without a test."""
    return ClaimOutcome(claim=catalog()[claim], verdict=verdict, reason="by hand")


@pytest.mark.parametrize(
    ("waivers", "code"), [((), 1), ((a_waiver(),), 0), ((a_waiver(OTHER),), 1)]
)
def test_an_attested_violation_fails_unless_it_is_waived(
    waivers: tuple[Waiver, ...], code: int
) -> None:
    demands = Qualification(attested={CLAIM: an_attestation(VIOLATED)}, waivers=waivers)
    claims = demands.answered([unasked(CLAIM, NOT_RUN), unasked(OTHER, NOT_RUN)])
    assert [claim.verdict for claim in claims] == [VIOLATED, NOT_RUN]
    report = replace(a_report(a_test(result(CONFIRMED, OTHER))), claims=claims)
    found = demands.apply(report, 0, by_user=False)[0]
    assert found.exit_code == code
    assert found.exit_cause == (f"--attest: {CLAIM} VIOLATED" if code else "")


def test_an_attestation_never_replaces_what_a_test_found() -> None:
    demands = Qualification(attested={CLAIM: an_attestation(VIOLATED)})
    (tested,) = demands.answered([replace(unasked(CLAIM, CONFIRMED), results=(result(CONFIRMED),))])
    assert tested.verdict is CONFIRMED


def test_fail_on_counts_a_claim_without_a_test() -> None:
    demands = Qualification(fail_on=frozenset({NOT_RUN}))
    report = replace(a_report(a_test(result(CONFIRMED, OTHER))), claims=(unasked(CLAIM, NOT_RUN),))
    assert demands.apply(report, 0, by_user=False)[0].exit_code == 1
    waived = replace(demands, waivers=(a_waiver(verdicts=(NOT_RUN,)),))
    assert waived.apply(report, 0, by_user=False)[0].exit_code == 0


def test_a_required_set_that_is_not_complete_is_the_cause_of_code_6() -> None:
    demands = Qualification(required=sets().named("policy,core"))
    found = applied(demands, a_test(result(CONFIRMED)))
    assert found.exit_code == 6
    assert found.exit_cause == "--require: policy, core not fulfilled"
    assert list(dict.fromkeys(gate.name for gate in found.gates)) == ["policy", "core"]
    assert list(dict.fromkeys(each.name for each in found.sets)) == list(sets())
    assert found.suite["sets"] == sets().digest


def test_a_violation_is_a_graver_cause_than_what_is_missing() -> None:
    demands = Qualification(required=sets().named("core"), fail_on=frozenset({VIOLATED}))
    found = applied(demands, a_test(result(VIOLATED)), status=1)
    assert (found.exit_code, found.exit_cause) == (1, "")


def test_claims_that_the_selection_leaves_out_of_a_required_set_are_named_before_the_run() -> None:
    demands = Qualification(required=sets().named("core"))
    named, (part, *others) = next(
        (demand.claim, demand.parts) for demand in demands.required[0].demands
    )
    heard = [result(CONFIRMED, named, each) for each in (part, *others)]
    claims = claim_outcomes(catalog(), facts(), [a_test(*heard)], whole=False)
    (line,) = demands.out_of_reach(facts(), claims)
    assert line.startswith("--require core cannot be complete, not selected: ")
    missing = line.rpartition(": ")[2].split(", ")
    assert named not in missing
    assert set(missing) == {demand.claim for demand in demands.required[0].demands} - {named}


def fail_on(text: str) -> frozenset[ClaimVerdict]:
    """Return the verdicts of ``--fail-on``."""
    names = ("require", "waivers", "attest", "baseline", "accept_unverified_tls")
    option = SimpleNamespace(**dict.fromkeys(names), fail_on=text)
    return Qualification.of(SimpleNamespace(option=option)).fail_on  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "verdicts"),
    [("violated", {VIOLATED}), ("NOT_RUN, confirmed,", {NOT_RUN, CONFIRMED}), ("", set())],
)
def test_verdicts_are_read_in_any_case(text: str, verdicts: set[ClaimVerdict]) -> None:
    assert fail_on(text) == verdicts


@pytest.mark.parametrize("text", [" , ", "VIOLATED,GREEN"])
def test_what_is_no_verdict_is_refused(text: str) -> None:
    with pytest.raises(UsageProblem, match="expected verdicts from CONFIRMED"):
        fail_on(text)
