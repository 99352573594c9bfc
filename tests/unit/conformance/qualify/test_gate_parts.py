# SPDX-License-Identifier: Apache-2.0
"""The parts of a claim that a gate demands: parts with conditions of their own, and new parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conformance.catalog import catalog, conditions
from conformance.model.verdict import ClaimVerdict
from conformance.qualify import sets as packaged
from conformance.qualify.gate import judge
from conformance.qualify.sets import Demand, GateSet
from tests.unit.conformance.qualify.reports import BOTH, NEW, OLD, decided, report, undecided


def of_parts(
    applies: dict[str, dict[str, Any]], *, unless: tuple[str, ...] = (), new: tuple[str, ...] = ()
) -> GateSet:
    """A set that demands DEMO-7 by these parts, with their conditions; ``new``: those that are provisional."""
    demand = Demand(
        claim="DEMO-7", parts=tuple(part for part in applies if part not in new), unless=unless,
        applies={part: conditions(plain) for part, plain in applies.items() if plain}, provisional=frozenset(new),
    )  # fmt: skip
    return GateSet(name="s", purpose="", demands=(demand,))


def answered(
    wanted: GateSet, results: list[dict[str, Any]], **cluster: Any
) -> dict[str, list[str]]:
    found = judge(report(results, **cluster), [wanted], (), catalog())
    return {result.build: [result.answer, *map(str, result.standing)] for result in found}


ANY = decided("DEMO-7", {NEW: "CONFIRMED"}, "any")
ON_BGP = of_parts({"any": {}, "p": {"modes": ["bgp"]}})


@pytest.mark.parametrize(
    "told",
    [[], [undecided("DEMO-7", "NOT_APPLICABLE", "p")], [undecided("DEMO-7", "NOT_RUN", "p")]],
)
def test_a_part_that_is_not_about_this_cluster_is_not_asked_for(told: list[dict[str, Any]]) -> None:
    assert answered(ON_BGP, [ANY, *told]) == {NEW: ["qualified"]}


@pytest.mark.parametrize(
    ("told", "answer"),
    [
        ([], ["incomplete", "DEMO-7 (p) not selected: no test of this part was in the run"]),
        (
            [undecided("DEMO-7", "NOT_APPLICABLE", "p")],
            ["incomplete", "DEMO-7 (p) NOT_APPLICABLE: DEMO-7 was NOT_APPLICABLE"],
        ),
        ([undecided("DEMO-7", "NOT_RUN", "p")], ["incomplete", "DEMO-7 (p) NOT_RUN: DEMO-7 was NOT_RUN"]),
        ([decided("DEMO-7", {NEW: "CONFIRMED"}, "p")], ["qualified"]),
        (
            [decided("DEMO-7", {OLD: "CONFIRMED"}, "p")],
            ["incomplete",
             f"DEMO-7 (p) not decided: no decision of the claim is about Windows {NEW}"],
        ),
    ],
)  # fmt: skip
def test_a_part_whose_condition_is_met_is_asked_for(
    told: list[dict[str, Any]], answer: list[str]
) -> None:
    assert answered(ON_BGP, [ANY, *told], mode="bgp") == {NEW: answer}


def test_a_part_is_asked_for_where_nobody_knows_whether_it_is_about_the_cluster() -> None:
    assert answered(ON_BGP, [ANY], mode=None)[NEW][0] == "incomplete"
    unread = of_parts({"any": {}, "p": {"mesh": True}})
    assert answered(unread, [ANY])[NEW] == [
        "incomplete", "DEMO-7 (p) not selected: no test of this part was in the run"
    ]  # fmt: skip


def test_a_condition_of_a_part_excuses_nothing_that_was_decided_against_it() -> None:
    assert (
        answered(ON_BGP, [ANY, decided("DEMO-7", {NEW: "VIOLATED"}, "p")])[NEW][0]
        == "not qualified"
    )


def test_a_condition_of_a_part_holds_for_each_build_by_itself() -> None:
    wanted = of_parts({"any": {}, "p": {"windows_builds": ">=20348"}})
    both = decided("DEMO-7", {OLD: "CONFIRMED", NEW: "CONFIRMED"}, "any")
    assert {build: told[0] for build, told in answered(wanted, [both], builds=BOTH).items()} == {
        OLD: "qualified", NEW: "incomplete"
    }  # fmt: skip


def test_where_no_part_of_a_claim_is_about_a_cluster_the_set_has_to_name_the_condition() -> None:
    """Else a set would say "qualified" of a claim of which nothing was asked."""
    parts: dict[str, dict[str, Any]] = {
        "p": {"modes": ["bgp"]},
        "q": {"modes": ["bgp"], "calico": ">=3.16"},
    }
    told = [undecided("DEMO-7", "NOT_APPLICABLE", part) for part in parts]
    for heard in (told, told[:1], []):
        assert answered(of_parts(parts), heard)[NEW][0] == "incomplete"
        assert answered(of_parts(parts, unless=("CNI",)), heard)[NEW][0] == "incomplete"
        assert answered(of_parts(parts, unless=("mode",)), heard)[NEW] == ["qualified"]


NEW_PART = of_parts({"any": {}, "n": {}}, new=("n",))


@pytest.mark.parametrize(
    "verdict", [verdict for verdict in ClaimVerdict if verdict is not ClaimVerdict.VIOLATED]
)
def test_a_part_that_no_real_cluster_has_shown_yet_is_not_asked_for(verdict: ClaimVerdict) -> None:
    assert answered(NEW_PART, [ANY]) == {NEW: ["qualified"]}
    assert answered(NEW_PART, [ANY, undecided("DEMO-7", str(verdict), "n")]) == {NEW: ["qualified"]}
    assert answered(NEW_PART, [ANY, decided("DEMO-7", {NEW: str(verdict)}, "n")]) == {
        NEW: ["qualified"]
    }


def test_what_such_a_part_finds_violated_counts() -> None:
    found = answered(NEW_PART, [ANY, decided("DEMO-7", {NEW: "VIOLATED"}, "n")])
    assert found == {NEW: ["not qualified", f"DEMO-7 (n) VIOLATED: DEMO-7 is VIOLATED on {NEW}"]}


def test_a_new_part_hides_nothing_of_the_others() -> None:
    assert answered(NEW_PART, [decided("DEMO-7", {NEW: "CONFIRMED"}, "n")])[NEW][0] == "incomplete"


def test_a_claim_of_which_every_part_is_new_and_nothing_was_selected_stays_open() -> None:
    assert answered(of_parts({"n": {}}, new=("n",)), [])[NEW][0] == "incomplete"


def test_parts_yaml_keeps_conditions_and_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "parts.yaml").write_text(
        "DEMO-7:\n- plain\n- {part: p, applies: {modes: [bgp]}}\n- {part: n, provisional: true}\n"
    )
    (tmp_path / "sets.yaml").write_text(
        "sets:\n  s: {for: tests, claims: [DEMO-7]}\n  t: {for: tests, claims: [{claim: DEMO-7, parts: [n, p]}]}\n"
        "excluded: {}\n"
    )
    monkeypatch.setattr(packaged, "DATA", tmp_path)
    for cached in (packaged.suite_parts, packaged.sets):
        monkeypatch.setattr(packaged, cached.__name__, cached.__wrapped__)
    whole, narrowed = (packaged.sets()[name].demands[0] for name in ("s", "t"))
    assert (whole.parts, narrowed.parts) == (("plain", "p"), ("p",))
    assert whole.applies == narrowed.applies == {"p": conditions({"modes": ["bgp"]})}
    assert whole.provisional == narrowed.provisional == {"n"}
