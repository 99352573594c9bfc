# SPDX-License-Identifier: Apache-2.0
"""A result consists only of decisions, for each build that the claim is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from conformance.catalog import catalog
from conformance.model.claim import ClaimResult, ClaimVerdict, Finding
from conformance.model.decision import Decision, Half
from conformance.schedule.builds import builds_of
from conformance.settings import Cover, Settings
from conformance.verdicts.judged import judged, of_test
from conformance.verdicts.statement import Statement
from tests.plugin.stand_in_cluster import facts, node

V = ClaimVerdict
OLD, NEW = "17763", "20348"
BOTH = {OLD: "win-2019", NEW: "win-2022"}


def way(build: str, verdict: V = V.CONFIRMED, half: Half = "open", **more: Any) -> Decision:
    about = (build,) if build else ()
    fields = {"source": "linux-1", "target": f"on-{build}", "builds": about, "about": about}
    return Decision(
        **{**fields, "verdict": verdict, "reason": f"{verdict} there", "halves": (half,), **more}
    )


def told(
    claim: str, *seen: Decision, builds: dict[str, str] | None = None, **statement: Any
) -> ClaimResult:
    said = Statement(decisions=list(seen), **statement)
    return judged(catalog()[claim], "a part", "t::a", said, BOTH if builds is None else builds)


def test_a_part_that_reached_every_build_is_confirmed_by_its_statement() -> None:
    found = told("CONN-3", way(OLD), way(NEW))
    assert (found.verdict, found.reason) == (V.CONFIRMED, catalog()["CONN-3"].statement)
    assert {(decision.claim, decision.part, decision.test) for decision in found.decisions} == {
        ("CONN-3", "a part", "t::a")
    }


def test_a_build_that_a_part_did_not_reach_is_not_run_and_named_with_its_node() -> None:
    found = told("CONN-3", way(OLD))
    assert found.verdict is V.NOT_RUN
    assert found.reason == "it was decided on 17763, not on 20348 (node win-2022)"
    assert [(decision.target, decision.about, decision.verdict) for decision in found.decisions][
        -1
    ] == (
        "win-2022",
        (NEW,),
        V.NOT_RUN,
    )


def test_what_was_read_of_the_cluster_reaches_no_build_and_lacks_none() -> None:
    assert told("PLAT-6", way("", half="read")).verdict is V.CONFIRMED


def test_a_violation_on_one_build_leaves_the_decision_on_the_other() -> None:
    found = told("CONN-3", way(OLD, V.VIOLATED), way(NEW), raised=Finding(V.VIOLATED, "it leaks"))
    assert (found.verdict, found.reason) == (V.VIOLATED, "it leaks")
    assert {decision.about: decision.verdict for decision in found.decisions} == {
        (OLD,): V.VIOLATED,
        (NEW,): V.CONFIRMED,
    }


def test_nothing_decided_confirms_nothing() -> None:
    assert told("CONN-3").verdict is V.NOT_RUN
    assert told("POL-1", way(OLD), way(NEW)).verdict is V.NOT_RUN
    assert told("POL-1", way(OLD), way(NEW, half="closed")).verdict is V.CONFIRMED


def test_a_path_that_is_to_be_open_and_is_not_violates_a_claim_of_denials_though_nothing_is_to_be_closed() -> (
    None
):
    for verdict in (V.VIOLATED, V.INCONCLUSIVE):
        found = told(
            "POL-1", way(OLD, verdict, claim="POL-1"), way(NEW, claim="POL-1"), in_body=True
        )
        assert (found.verdict, found.reason) == (verdict, f"{verdict} there")
    assert told("POL-1", way(OLD, V.NOT_RUN), way(NEW)).verdict is V.NOT_RUN


def test_that_something_can_happen_is_shown_by_its_happening_alone() -> None:
    closed, lost = way(OLD, half="closed"), way(OLD, V.NOT_OBSERVED, "behaviour", source="win-2019")
    assert told("RST-3", closed, lost, builds={}).verdict is V.NOT_OBSERVED
    assert told("RST-3", closed, builds={}).verdict is V.NOT_RUN
    assert (
        told("RST-3", closed, replace(lost, verdict=V.CONFIRMED), builds={}).verdict is V.CONFIRMED
    )


def test_a_limitation_that_one_build_still_has_is_confirmed_though_it_is_lifted_on_another() -> (
    None
):
    found = told("SVC-1", way(OLD, half="closed"), way(NEW, V.LIFTED, "closed"))
    assert found.verdict is V.CONFIRMED
    assert {decision.about: decision.verdict for decision in found.decisions}[NEW,] is V.LIFTED


def test_what_a_test_says_of_itself_holds_for_all_that_it_saw() -> None:
    found = told(
        "VXLAN-9", way(OLD), way(NEW), special={"VXLAN-9": Finding(V.LIFTED, "Windows followed")}
    )
    assert (found.verdict, found.reason) == (V.LIFTED, "Windows followed")


def test_an_unmet_demand_is_what_it_is_for_the_claim_s_kind() -> None:
    assert told("VXLAN-4", way(OLD, V.UNMET), way(NEW)).verdict is V.UNMET
    assert told("CONN-3", way(OLD, V.UNMET), way(NEW)).verdict is V.VIOLATED


def test_a_verdict_is_about_builds_that_the_claim_is_about() -> None:
    pair = way(OLD, half="closed", source="win-2022", builds=(OLD, NEW), about=(OLD,))
    found = told("SVC-2", pair, builds={NEW: "win-2022"})
    assert [decision.about for decision in found.decisions] == [(NEW,)]
    assert found.verdict is V.CONFIRMED


@pytest.mark.parametrize(
    ("claim", "expected"), [("SVC-2", {NEW}), ("SVC-1", {f"{OLD} before .1432"}), ("CONN-3", None)]
)
def test_applicability_is_asked_of_each_covered_node(claim: str, expected: set[str] | None) -> None:
    mixed = replace(
        facts(),
        nodes=(
            node("l", "linux"),
            node("a", "windows", (17763, 1)),
            node("b", "windows", (20348, 1)),
        ),
    )
    found = builds_of(catalog()[claim], mixed, Settings())
    assert set(found) == (expected or {NEW, f"{OLD} before .1432"})
    assert set(builds_of(catalog()["CONN-3"], mixed, Settings(cover=Cover(nodes=("b",))))) == {NEW}


def test_what_is_decided_of_one_part_says_nothing_of_another_and_what_was_raised_neither() -> None:
    one, other = (
        way(OLD, claim="CONN-3", part="a part"),
        way(OLD, V.VIOLATED, claim="CONN-3", part="another"),
    )
    raised = Finding(V.VIOLATED, "it leaks")
    assert told("CONN-3", one, other, builds={}, raised=raised, in_body=True).verdict is V.CONFIRMED
    assert told("CONN-3", other, builds={}, raised=raised, in_body=True).verdict is V.VIOLATED
    assert (
        told("CONN-3", one, builds={}, raised=Finding(V.INCONCLUSIVE, "clearing up")).verdict
        is V.INCONCLUSIVE
    )


def test_a_decision_that_names_its_claim_counts_for_that_alone() -> None:
    seen = [
        way(OLD, V.VIOLATED, claim="POL-1"),
        way(NEW, half="closed", claim="POL-1"),
        way(OLD, claim="XPOL-1"),
    ]
    seen += [way(NEW, V.LIFTED, claim="XPOL-1")]
    raised = Finding(V.VIOLATED, "it leaks")
    assert told("POL-1", *seen, raised=raised).verdict is V.VIOLATED
    assert told("XPOL-1", *seen, raised=raised).verdict is V.CONFIRMED
    assert told("XPOL-1", *seen, raised=Finding(V.INCONCLUSIVE, "no pod")).verdict is V.INCONCLUSIVE


def test_what_ended_a_test_and_is_told_by_no_decision_counts_for_every_part_that_was_decided_before() -> (
    None
):
    before = (way(OLD, claim="CONN-3"), way(NEW, claim="CONN-3"))
    for verdict in (V.INCONCLUSIVE, V.VIOLATED):
        raised = Finding(verdict, "the second change could not be asked about")
        found = told("CONN-3", *before, raised=raised, in_body=True)
        assert (found.verdict, found.reason) == (verdict, raised.reason)
    elsewhere = way(OLD, V.INCONCLUSIVE, claim="CONN-3", part="another part")
    raised = Finding(V.INCONCLUSIVE, "the other part is unsure")
    assert told("CONN-3", *before, elsewhere, raised=raised, in_body=True).verdict is V.CONFIRMED


def test_a_decision_counts_for_the_parts_whose_names_end_so_and_for_a_claim_without_parts() -> None:
    of_linux = way(OLD, V.VIOLATED, claim="XPOL-12", part="linux server")
    said = Statement(decisions=[of_linux, way(NEW, half="closed", claim="XPOL-12", part="server")])

    def verdict(part: str) -> V:
        return judged(catalog()["XPOL-12"], part, "t::a", said, {}).verdict

    assert verdict("edited rule, linux server") is V.VIOLATED
    assert verdict("edited rule, windows server") is V.CONFIRMED
    assert verdict("edited rule, windows client") is V.NOT_RUN
    assert verdict("") is V.VIOLATED


def outcome(verdict: V, reason: str = "") -> ClaimResult:
    return ClaimResult(claim="CONN-1", verdict=verdict, test="t", reason=reason, remedy=reason * 2)


@pytest.mark.parametrize("verdict", [each for each in V if each is not V.CONFIRMED])
def test_a_test_has_the_reason_of_the_first_result_with_its_worst_verdict(verdict: V) -> None:
    found = of_test([outcome(V.CONFIRMED, "c"), outcome(verdict, "a"), outcome(verdict, "b")], None)
    better = verdict in (V.NOT_OBSERVED, V.NOT_APPLICABLE)
    assert found == (Finding(V.CONFIRMED) if better else Finding(verdict, "a", "aa"))


@pytest.mark.parametrize("others", [(V.VIOLATED, V.INCONCLUSIVE), (V.INCONCLUSIVE, V.VIOLATED)])
def test_a_worse_result_is_the_test_s_wherever_it_stands(others: tuple[V, V]) -> None:
    found = of_test([outcome(each, str(each)) for each in (V.NOT_RUN, *others, V.UNMET)], None)
    assert (found.verdict, found.reason) == (V.VIOLATED, "VIOLATED")


def test_what_was_raised_is_told_with_the_worst_verdict() -> None:
    raised = Finding(V.INCONCLUSIVE, "no agent", "look")
    assert of_test([], None) == Finding(V.CONFIRMED)
    assert of_test([], raised) == raised
    assert of_test([outcome(V.CONFIRMED)], None) == Finding(V.CONFIRMED)
    assert of_test([outcome(V.VIOLATED, "a")], raised) == replace(raised, verdict=V.VIOLATED)
