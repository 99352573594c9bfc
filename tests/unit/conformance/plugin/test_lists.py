# SPDX-License-Identifier: Apache-2.0
"""The plan says of each claim how many of its tests run here, and what policies of others may
take."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.catalog import Needs, catalog
from conformance.foreign.beforehand import Beforehand
from conformance.model.claim import ClaimVerdict
from conformance.plugin import lists
from conformance.schedule.plan import PlannedTest
from conformance.verdicts.prospect import ClaimPart, Prospect

RUNS = Prospect()
HELD = Prospect(verdict=ClaimVerdict.NOT_RUN, reason="one node", remedy="add one")
LOOK = Prospect(look=True, assumed=("the overlay",))


def a_test(name: str, *claims: str, uses: tuple[str, ...] = ()) -> PlannedTest:
    parts = tuple(ClaimPart(claim=claim) for claim in claims)
    return PlannedTest(test=name, parts=parts, needs=Needs(), uses=uses)


@pytest.mark.parametrize(
    ("prospects", "known", "told"),
    [
        ([RUNS], RUNS, ("runs", "1 test")),
        ([RUNS, RUNS], RUNS, ("runs", "2 tests")),
        ([RUNS, HELD], RUNS, ("runs", "1 of 2 tests; other tests cannot run: one node")),
        ([HELD, HELD], RUNS, ("NOT_RUN", "one node; add one")),
        ([RUNS], LOOK, ("after a look", "1 test; it is about the overlay")),
        (
            [HELD, RUNS],
            LOOK,
            (
                "after a look",
                "1 of 2 tests; it is about the overlay; other tests cannot run: one node",
            ),
        ),
    ],
)
def test_a_claim_runs_if_any_of_its_tests_does(
    prospects: list[Prospect], known: Prospect, told: tuple[str, str]
) -> None:
    assert lists._of_tests(prospects, known) == told


TESTS = [
    a_test("a", "CONN-1", "CONN-2", uses=("pods",)),
    a_test("b", "POL-1", uses=("pods", "policies")),
    a_test("c", "VXLAN-1"),
]


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        (Beforehand(), []),
        (
            Beforehand(closing="wide denies", exempt="label it"),
            ["wide denies", "may leave undecided CONN-1, CONN-2, POL-1; remedy: label it"],
        ),
        (
            Beforehand(opening="wide allows", exempt="label it"),
            ["wide allows", "may leave undecided POL-1; remedy: label it"],
        ),
        (
            Beforehand(closing="wide denies", opening="wide allows", exempt="label it"),
            [
                "wide denies",
                "wide allows",
                "may leave undecided CONN-1, CONN-2, POL-1; remedy: label it",
            ],
        ),
        (Beforehand(unread="Tier (403)"), ["policies that could not be read: Tier (403)"]),
    ],
)
def test_policies_that_only_allow_take_only_denials(found: Beforehand, lines: list[str]) -> None:
    head, title, *told = lists._foreign_policies(found, TESTS)
    assert (head, title) == ("", "Policies of other owners")
    assert told == [f"  {line}" for line in lines]


def test_policies_that_take_nothing_say_so() -> None:
    found = Beforehand(closing="wide denies", exempt="label it")
    assert list(lists._foreign_policies(found, []))[-1] == (
        "  may leave undecided no claim; remedy: label it"
    )


def test_the_catalog_is_listed_with_the_tests_of_each_claim() -> None:
    lines = list(lists.claims_list(TESTS, ["CONN-1", "CONN-3"]))
    claims = catalog()
    assert lines[:2] == ["", claims["CONN-1"].area]
    heads = [line for line in lines if line.startswith("  CONN-")]
    assert heads == [
        f"  {ident:9} {tested:8} {claims[ident].statement}"
        for ident, tested in (("CONN-1", "1 test"), ("CONN-3", "0 tests"))
    ]
    assert any("check: " in line for line in lines), "a named claim has every field"
    brief: list[Any] = [*lists.claims_list(TESTS, [])]
    assert not any("check: " in line for line in brief)
    assert len([line for line in brief if line.startswith("  CONN-1 ")]) == 1
