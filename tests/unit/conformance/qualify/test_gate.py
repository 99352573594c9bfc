"""A gate passes what is acceptable and names everything else, for each Windows build; a lab never qualifies."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from conformance.catalog import catalog
from conformance.model.verdict import ClaimKind, ClaimVerdict
from conformance.qualify.acceptable import acceptable
from conformance.qualify.gate import GateResult, exit_code, judge, unused
from conformance.qualify.sets import Demand, GateSet
from conformance.qualify.stored import StoredReport
from conformance.qualify.waivers import Waiver
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


def gate(one: StoredReport, *waivers: Waiver) -> list[GateResult]:
    return list(judge(one, [TWO], waivers, catalog()))


def answers(results: list[GateResult]) -> dict[str, str]:
    return {one.build: one.answer for one in results}


def test_what_is_confirmed_in_every_part_qualifies() -> None:
    results = gate(report([decided("DEMO-7", {NEW: "CONFIRMED"}), *SVC]))
    assert answers(results) == {NEW: "qualified"}
    assert results[0].headline == "two, vxlan, Windows 20348: qualified"
    assert exit_code(results) == 0


def test_a_leak_on_one_of_two_builds_disqualifies_that_build_alone_and_is_named() -> None:
    svc = [decided("SVC-2", {OLD: "CONFIRMED", NEW: "CONFIRMED"}, one["part"]) for one in SVC]
    results = gate(report([decided("DEMO-7", {OLD: "VIOLATED", NEW: "CONFIRMED"}), *svc], builds=BOTH))
    assert answers(results) == {OLD: "not qualified", NEW: "qualified"}
    assert [str(one) for one in results[0].standing] == ["DEMO-7 VIOLATED: DEMO-7 is VIOLATED on 17763"]
    assert exit_code(results) == 1


def test_a_build_that_a_part_did_not_reach_leaves_the_gate_incomplete() -> None:
    results = gate(report([decided("DEMO-7", {NEW: "CONFIRMED", OLD: "CONFIRMED"}), *SVC], builds=BOTH))
    assert answers(results) == {OLD: "incomplete", NEW: "qualified"}
    assert str(results[0].standing[0]) == (
        "SVC-2 (server near) not decided: no decision of it is about Windows 17763"
    )  # fmt: skip
    assert exit_code(results) == 6


def test_a_part_that_was_not_in_the_run_leaves_it_incomplete() -> None:
    results = gate(report([decided("DEMO-7", {NEW: "CONFIRMED"}), SVC[0]]))
    assert [str(one) for one in results[0].standing] == [
        "SVC-2 (server far) not selected: no test of this part was in the run"
    ]  # fmt: skip
    assert results[0].answer == "incomplete"


def test_an_unselected_claim_leaves_it_incomplete() -> None:
    assert gate(report(SVC))[0].answer == "incomplete"


@pytest.mark.parametrize("verdict", ["NOT_RUN", "INCONCLUSIVE"])
def test_what_is_not_decided_is_incomplete_and_never_qualified(verdict: str) -> None:
    results = gate(report([undecided("DEMO-7", verdict), *SVC]))
    assert results[0].answer == "incomplete"
    assert exit_code(results) == 6


def test_trouble_that_belongs_to_no_node_counts_for_every_build() -> None:
    broken: dict[str, Any] = decided("DEMO-7", {NEW: "CONFIRMED"}) | {"verdict": "INCONCLUSIVE", "reason": "API gone"}
    assert str(gate(report([broken, *SVC]))[0].standing[0]) == "DEMO-7 INCONCLUSIVE: API gone"


def test_one_sick_node_leaves_the_other_build_qualified() -> None:
    svc = [decided("SVC-2", {OLD: "CONFIRMED", NEW: "CONFIRMED"}, one["part"]) for one in SVC]
    results = gate(report([decided("DEMO-7", {OLD: "INCONCLUSIVE", NEW: "CONFIRMED"}), *svc], builds=BOTH))
    assert answers(results) == {OLD: "incomplete", NEW: "qualified"}


def test_a_decision_between_linux_nodes_is_one_about_every_build() -> None:
    svc = [decided("SVC-2", {OLD: "CONFIRMED", NEW: "CONFIRMED"}, one["part"]) for one in SVC]
    results = gate(report([decided("DEMO-7", {"": "CONFIRMED"}), *svc], builds=BOTH))
    assert answers(results) == {OLD: "qualified", NEW: "qualified"}


def test_not_applicable_passes_only_for_a_condition_that_the_set_names() -> None:
    no_dsr = report([decided("DEMO-7", {NEW: "CONFIRMED"}), undecided("SVC-2", "NOT_APPLICABLE", "server near")],
                    windows_dsr=False)  # fmt: skip
    assert gate(no_dsr)[0].answer == "qualified"
    strict = GateSet(name="s", purpose="", demands=(Demand(claim="SVC-2", parts=("server near",)),))
    result = judge(no_dsr, [strict], (), catalog())[0]
    assert result.answer == "incomplete"
    assert result.standing[0].verdict == "NOT_APPLICABLE"


def test_a_waived_violation_is_shown_as_waived_and_stands_in_nobodys_way() -> None:
    results = gate(report([decided("DEMO-7", {NEW: "VIOLATED"}), *SVC]), WAIVER)
    assert results[0].answer == "qualified"
    assert results[0].headline.endswith("qualified (1 waived)")
    assert str(results[0].obstacles[0]).startswith("DEMO-7 VIOLATED, waived by jane until 2026-12-31: calico#1")
    assert unused([WAIVER], results) == ()


def test_a_waiver_for_another_build_does_not_help() -> None:
    narrow = Waiver(**{**vars(WAIVER), "build": OLD})
    results = gate(report([decided("DEMO-7", {NEW: "VIOLATED"}), *SVC]), narrow)
    assert results[0].answer == "not qualified"
    assert unused([narrow], results) == (narrow,)


def test_a_lab_never_qualifies_anything() -> None:
    results = gate(report([decided("DEMO-7", {NEW: "CONFIRMED"}), *SVC], evidence="lab"))
    assert results[0].headline == "two, vxlan, Windows 20348: would qualify; a lab qualifies nothing"


def test_a_run_that_was_cut_short_qualifies_nothing() -> None:
    results = gate(report([decided("DEMO-7", {NEW: "CONFIRMED"}), *SVC], run={"cut_short": "interrupted by SIGTERM"}))
    assert results[0].answer == "incomplete"
    assert str(results[0].standing[0]) == "the run cut short: interrupted by SIGTERM"


@pytest.mark.parametrize(
    ("kind", "verdict", "passes"),
    [
        (ClaimKind.CAPABILITY, "CONFIRMED", True), (ClaimKind.CAPABILITY, "NOT_OBSERVED", False),
        (ClaimKind.REQUIREMENT, "UNMET", False), (ClaimKind.LIMITATION, "LIFTED", True),
        (ClaimKind.KNOWN_ISSUE, "NOT_OBSERVED", True), (ClaimKind.KNOWN_ISSUE, "VIOLATED", False),
        (ClaimKind.RECOMMENDATION, "ADVISED", True), (ClaimKind.CAPABILITY, "LIFTED", False),
    ],
)  # fmt: skip
def test_what_is_acceptable_depends_on_the_kind_of_claim(kind: ClaimKind, verdict: str, passes: bool) -> None:
    assert acceptable(kind, ClaimVerdict(verdict)) is passes
