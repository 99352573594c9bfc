# SPDX-License-Identifier: Apache-2.0
"""A gate passes what is acceptable and names everything else, for each Windows build; a lab never qualifies."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from conformance.catalog import catalog
from conformance.model.verdict import ClaimKind, ClaimVerdict
from conformance.qualify.gate import GateResult, exit_code, judge, unused
from conformance.qualify.sets import Demand, GateSet
from conformance.qualify.stored import Report, parse
from conformance.qualify.waivers import Waiver
from conformance.verdicts.acceptable import acceptable
from tests.unit.conformance.qualify.reports import BOTH, NEW, OLD, decided, report, undecided

TWO = GateSet(
    name="two",
    purpose="tests",
    demands=(
        Demand(claim="DEMO-7", parts=("",)),
        Demand(claim="SVC-2", parts=("server near", "server far"), unless=("DSR",)),
    ),
)
SVC = [decided("SVC-2", {NEW: "CONFIRMED"}, part) for part in ("server near", "server far")]
WAIVER = Waiver(
    claim="DEMO-7", verdicts=(ClaimVerdict.VIOLATED,), reason="calico#1", link="https://x.example/1", owner="jane",
    expires=datetime.date(2026, 12, 31),
)  # fmt: skip


def gate(stored_report: Report, *waivers: Waiver) -> list[GateResult]:
    return list(judge(stored_report, [TWO], waivers, catalog()))


def answers(results: list[GateResult]) -> dict[str, str]:
    return {result.build: result.answer for result in results}


def test_what_is_confirmed_in_every_part_qualifies() -> None:
    results = gate(report([decided("DEMO-7", {NEW: "CONFIRMED"}), *SVC]))
    assert answers(results) == {NEW: "qualified"}
    assert results[0].headline == "two on Windows 20348 (mode vxlan): qualified"
    assert exit_code(results) == 0


UNVERIFIED = "the certificate of https://10.0.0.1 is not verified (insecure-skip-tls-verify)"


def test_evidence_over_an_unverified_connection_qualifies_nothing_unless_that_is_accepted() -> None:
    told = report([decided("DEMO-7", {NEW: "CONFIRMED"}), *SVC], run={"unverified": UNVERIFIED})
    (result,) = gate(told)
    assert (result.answer, exit_code([result])) == ("incomplete", 6)
    assert result.headline == (
        "two on Windows 20348 (mode vxlan): incomplete, over an unverified connection "
        "(the run unverified)"
    )
    assert [str(each) for each in result.standing] == [
        f"the run unverified: {UNVERIFIED}; --accept-unverified-tls accepts it"
    ]
    (accepted,) = judge(told, [TWO], (), catalog(), accept_unverified=True)
    assert accepted.headline == (
        "two on Windows 20348 (mode vxlan): qualified, over an unverified connection"
    )
    assert exit_code([accepted]) == 0


def test_no_waiver_and_no_leak_hides_that_a_connection_was_unverified() -> None:
    told = report([decided("DEMO-7", {NEW: "VIOLATED"}), *SVC], run={"unverified": UNVERIFIED})
    assert [each.found for each in gate(told)[0].standing] == ["VIOLATED", "unverified"]
    assert [each.found for each in gate(told, WAIVER)[0].standing] == ["unverified"]


def test_a_leak_on_one_of_two_builds_disqualifies_that_build_alone_and_is_named() -> None:
    svc = [decided("SVC-2", {OLD: "CONFIRMED", NEW: "CONFIRMED"}, item["part"]) for item in SVC]
    results = gate(
        report([decided("DEMO-7", {OLD: "VIOLATED", NEW: "CONFIRMED"}), *svc], builds=BOTH)
    )
    assert answers(results) == {OLD: "not qualified", NEW: "qualified"}
    assert [str(obstacle) for obstacle in results[0].standing] == [
        "DEMO-7 VIOLATED: DEMO-7 is VIOLATED on 17763"
    ]
    assert exit_code(results) == 1


def test_a_build_that_a_part_did_not_reach_leaves_the_gate_incomplete() -> None:
    results = gate(
        report([decided("DEMO-7", {NEW: "CONFIRMED", OLD: "CONFIRMED"}), *SVC], builds=BOTH)
    )
    assert answers(results) == {OLD: "incomplete", NEW: "qualified"}
    assert str(results[0].standing[0]) == (
        "SVC-2 (server near) not decided: no decision of the claim is about Windows 17763"
    )  # fmt: skip
    assert exit_code(results) == 6


def test_a_part_that_was_not_in_the_run_leaves_it_incomplete() -> None:
    results = gate(report([decided("DEMO-7", {NEW: "CONFIRMED"}), SVC[0]]))
    assert [str(obstacle) for obstacle in results[0].standing] == [
        "SVC-2 (server far) not selected: no test of this part was in the run"
    ]  # fmt: skip
    assert results[0].answer == "incomplete"


def test_what_is_decided_stands_before_what_is_not() -> None:
    results = gate(report([SVC[0], decided("SVC-2", {NEW: "VIOLATED"}, "server far")]))
    assert [obstacle.found for obstacle in results[0].standing] == ["VIOLATED", "not selected"]


def test_an_unselected_claim_leaves_it_incomplete() -> None:
    assert gate(report(SVC))[0].answer == "incomplete"


@pytest.mark.parametrize("verdict", ["NOT_RUN", "INCONCLUSIVE"])
def test_what_is_not_decided_is_incomplete_and_never_qualified(verdict: str) -> None:
    results = gate(report([undecided("DEMO-7", verdict), *SVC]))
    assert results[0].answer == "incomplete"
    assert exit_code(results) == 6


def test_an_error_that_belongs_to_no_node_counts_for_every_build() -> None:
    broken: dict[str, Any] = decided("DEMO-7", {NEW: "CONFIRMED"}) | {
        "verdict": "INCONCLUSIVE",
        "reason": "API gone",
    }
    assert str(gate(report([broken, *SVC]))[0].standing[0]) == "DEMO-7 INCONCLUSIVE: API gone"


def test_one_sick_node_leaves_the_other_build_qualified() -> None:
    svc = [decided("SVC-2", {OLD: "CONFIRMED", NEW: "CONFIRMED"}, item["part"]) for item in SVC]
    results = gate(
        report([decided("DEMO-7", {OLD: "INCONCLUSIVE", NEW: "CONFIRMED"}), *svc], builds=BOTH)
    )
    assert answers(results) == {OLD: "incomplete", NEW: "qualified"}


def test_a_decision_between_linux_nodes_is_one_about_every_build() -> None:
    svc = [decided("SVC-2", {OLD: "CONFIRMED", NEW: "CONFIRMED"}, item["part"]) for item in SVC]
    results = gate(report([decided("DEMO-7", {"": "CONFIRMED"}), *svc], builds=BOTH))
    assert answers(results) == {OLD: "qualified", NEW: "qualified"}


def test_not_applicable_passes_only_for_a_condition_that_the_set_names() -> None:
    no_dsr = report([decided("DEMO-7", {NEW: "CONFIRMED"}), undecided("SVC-2", "NOT_APPLICABLE", "server near")],
                    dsr=False)  # fmt: skip
    assert gate(no_dsr)[0].answer == "qualified"
    strict = GateSet(name="s", purpose="", demands=(Demand(claim="SVC-2", parts=("server near",)),))
    result = judge(no_dsr, [strict], (), catalog())[0]
    assert result.answer == "incomplete"
    assert result.standing[0].found == "NOT_APPLICABLE"


def test_a_waived_violation_is_shown_as_waived_and_stands_in_nobodys_way() -> None:
    results = gate(report([decided("DEMO-7", {NEW: "VIOLATED"}), *SVC]), WAIVER)
    assert results[0].answer == "qualified"
    assert results[0].headline.endswith("qualified (1 claim waived)")
    assert str(results[0].obstacles[0]).startswith(
        "DEMO-7 VIOLATED, waived by jane until 2026-12-31: calico#1"
    )
    assert unused([WAIVER], results) == ()


def test_a_waiver_for_another_build_does_not_help() -> None:
    narrow = Waiver(**{**vars(WAIVER), "build": OLD})
    results = gate(report([decided("DEMO-7", {NEW: "VIOLATED"}), *SVC]), narrow)
    assert results[0].answer == "not qualified"
    assert unused([narrow], results) == (narrow,)


def test_a_headline_counts_claims_by_what_was_found_of_them_the_worst_of_each() -> None:
    parts = [
        decided("SVC-2", {NEW: "VIOLATED"}, "server near"),
        undecided("SVC-2", "NOT_RUN", "server far"),
    ]
    found = gate(report([*parts, decided("DEMO-7", {NEW: "VIOLATED"})]), WAIVER)[0].headline
    assert (
        found
        == "two on Windows 20348 (mode vxlan): not qualified (1 claim violated, 1 claim waived)"
    )
    cut = gate(report([undecided("DEMO-7", "NOT_RUN"), undecided("SVC-2", "NOT_RUN", "server near")],
                      run={"cut_short": "x"}))[0].headline  # fmt: skip
    assert cut.endswith("incomplete (the run cut short, 2 claims not run)")
    assert gate(report([*SVC]))[0].headline.endswith("incomplete (1 claim not selected)")


def test_a_lab_never_qualifies_anything() -> None:
    results = gate(report([decided("DEMO-7", {NEW: "CONFIRMED"}), *SVC], evidence="lab"))
    assert (
        results[0].headline
        == "two on Windows 20348 (mode vxlan): would qualify; results from a lab qualify no release"
    )
    assert results[0].word == "would qualify", (
        "what a report keeps is not to be taken for a qualification"
    )


def test_a_run_that_was_cut_short_qualifies_nothing() -> None:
    results = gate(
        report(
            [decided("DEMO-7", {NEW: "CONFIRMED"}), *SVC],
            run={"cut_short": "interrupted by SIGTERM"},
        )
    )
    assert results[0].answer == "incomplete"
    assert str(results[0].standing[0]) == "the run cut short: interrupted by SIGTERM"


def test_a_quick_run_qualifies_nothing_whatever_it_decided() -> None:
    everything = [decided("DEMO-7", {NEW: "CONFIRMED"}), *SVC]
    assert gate(report(everything))[0].answer == "qualified"
    results = gate(report(everything, run={"selection": "quick run (--quick)"}))
    assert results[0].answer == "incomplete"
    assert str(results[0].standing[0]) == "the run quick: quick run (--quick)"


@pytest.mark.parametrize(
    ("kind", "verdict", "passes"),
    [
        (ClaimKind.CAPABILITY, "CONFIRMED", True), (ClaimKind.CAPABILITY, "NOT_OBSERVED", False),
        (ClaimKind.REQUIREMENT, "UNMET", False), (ClaimKind.LIMITATION, "LIFTED", True),
        (ClaimKind.KNOWN_ISSUE, "NOT_OBSERVED", True), (ClaimKind.KNOWN_ISSUE, "VIOLATED", False),
        (ClaimKind.RECOMMENDATION, "ADVISED", True), (ClaimKind.CAPABILITY, "LIFTED", False),
    ],
)  # fmt: skip
def test_what_is_acceptable_depends_on_the_kind_of_claim(
    kind: ClaimKind, verdict: str, passes: bool
) -> None:
    assert acceptable(kind, ClaimVerdict(verdict)) is passes


def test_a_waiver_hides_nothing_that_was_decided_beside_what_it_accepts() -> None:
    one = decided("DEMO-7", {NEW: "VIOLATED"})
    one["decisions"] += decided("DEMO-7", {NEW: "INCONCLUSIVE"})["decisions"]
    results = gate(report([one, *SVC]), WAIVER)
    assert results[0].answer == "incomplete"
    assert [each.found for each in results[0].obstacles] == ["VIOLATED", "INCONCLUSIVE"]


def test_a_waiver_for_a_build_accepts_nothing_that_is_about_no_build() -> None:
    narrow = Waiver(**{**vars(WAIVER), "build": NEW})
    assert (
        gate(report([decided("DEMO-7", {NEW: "VIOLATED"}), *SVC]), narrow)[0].answer == "qualified"
    )
    assert (
        gate(report([decided("DEMO-7", {"": "VIOLATED"}), *SVC]), narrow)[0].answer
        == "not qualified"
    )
    assert (
        gate(report([undecided("DEMO-7", "VIOLATED"), *SVC]), narrow)[0].answer == "not qualified"
    )


def test_a_part_that_the_set_does_not_know_counts_too() -> None:
    extra = decided("DEMO-7", {NEW: "VIOLATED"}, "a part that is new")
    results = gate(report([decided("DEMO-7", {NEW: "CONFIRMED"}), extra, *SVC]))
    assert [str(obstacle) for obstacle in results[0].standing] == [
        "DEMO-7 (a part that is new) VIOLATED: DEMO-7 is VIOLATED on 20348"
    ]


def test_a_set_that_chooses_parts_leaves_others_aside() -> None:
    chosen = GateSet(
        name="s", purpose="", demands=(Demand(claim="SVC-2", parts=("server near",), only=True),)
    )
    both = [SVC[0], decided("SVC-2", {NEW: "VIOLATED"}, "server far")]
    assert judge(report(both), [chosen], (), catalog())[0].answer == "qualified"


def test_the_half_of_a_limitation_that_was_only_read_leaves_the_gate_incomplete() -> None:
    limits = GateSet(name="s", purpose="", demands=(Demand(claim="VXLAN-6", parts=("",)),))
    halves = [
        decided("VXLAN-6", {NEW: "CONFIRMED"}),
        undecided("VXLAN-6", "NOT_RUN", "active half"),
    ]
    assert judge(report(halves), [limits], (), catalog())[0].answer == "incomplete"


def test_a_condition_that_holds_for_one_build_excuses_that_build_alone() -> None:
    no_dsr = ((17763, 1000), (20348, 2762))
    one_sided = [
        decided("SVC-2", {NEW: "CONFIRMED"}, part) for part in ("server near", "server far")
    ]
    results = gate(report([decided("DEMO-7", {"": "CONFIRMED"}), *one_sided], builds=no_dsr))
    assert answers(results) == {"17763 before .1432": "qualified", NEW: "qualified"}


def test_a_condition_excuses_nothing_that_was_decided_against_the_claim() -> None:
    guilty = decided("SVC-2", {NEW: "VIOLATED"}, "server near")
    results = gate(report([decided("DEMO-7", {NEW: "CONFIRMED"}), guilty], dsr=False))
    assert results[0].answer == "not qualified"


def test_a_report_of_the_first_schema_qualifies_nothing() -> None:
    old = parse(
        dict(report([decided("DEMO-7", {NEW: "CONFIRMED"}), *SVC]).plain) | {"schema_version": "1"},
        "old",
    )
    assert gate(old)[0].answer == "incomplete"


@pytest.mark.parametrize("change", [{"claims": []}, {"facts": None}])
def test_an_empty_report_qualifies_nothing(change: dict[str, Any]) -> None:
    results = gate(
        parse(dict(report([decided("DEMO-7", {NEW: "CONFIRMED"}), *SVC]).plain) | change, "empty")
    )
    assert {result.answer for result in results} == {"incomplete"}
    assert exit_code(results) == 6


CHOICES = {
    "none": None, "all of it": {}, "its part": {"part": "p"}, "another part": {"part": "q"},
    "its build": {"build": NEW}, "another build": {"build": OLD}, "another claim": {"claim": "CONN-1"},
}  # fmt: skip
PLACES = ("the build", "another build", "no build", "no decision")
FINE = {
    "DEMO-7": {"CONFIRMED"}, "PLAT-6": {"CONFIRMED"}, "XSVC-4": {"CONFIRMED", "LIFTED", "NOT_OBSERVED"},
    "RST-1": {"CONFIRMED", "LIFTED", "NOT_OBSERVED"}, "XIPAM-2": {"CONFIRMED", "ADVISED"},
}  # fmt: skip
"""A claim of each kind to the verdicts with which a release can live."""


@pytest.mark.parametrize("claim", FINE)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("choice", CHOICES)
def test_every_verdict_at_every_place_with_every_waiver_is_answered_by_the_table(
    claim: str, place: str, choice: str
) -> None:
    wanted = GateSet(name="s", purpose="", demands=(Demand(claim=claim, parts=("p",)),))
    for verdict in ClaimVerdict:
        where = {"the build": NEW, "another build": OLD, "no build": ""}
        said = (
            decided(claim, {where[place]: verdict}, "p")
            if place in where
            else undecided(claim, verdict, "p")
        )
        fields = {**vars(WAIVER), "claim": claim, "verdicts": (verdict,), **(CHOICES[choice] or {})}
        given = (
            [Waiver(**fields)]
            if choice != "none" and verdict is not ClaimVerdict.INCONCLUSIVE
            else []
        )
        answer = judge(report([said]), [wanted], given, catalog())[0].answer
        open_ = verdict in ("NOT_RUN", "INCONCLUSIVE", "NOT_APPLICABLE")
        accepted = bool(given) and (
            choice in ("all of it", "its part") or (choice == "its build" and place == "the build")
        )
        if place == "another build":
            expected = "incomplete"
        elif verdict in FINE[claim] or accepted:
            expected = "qualified"
        else:
            expected = "incomplete" if open_ else "not qualified"
        assert answer == expected, f"{claim} {verdict} at {place} with a waiver for {choice}"


def test_nodes_that_a_claim_is_not_about_are_no_obstacle_beside_those_that_it_is() -> None:
    mixed = decided("DEMO-7", {NEW: "CONFIRMED"})
    mixed["decisions"] += decided("DEMO-7", {"": "NOT_APPLICABLE"})["decisions"]
    assert gate(report([mixed, *SVC]))[0].answer == "qualified"
