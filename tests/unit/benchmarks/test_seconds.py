# SPDX-License-Identifier: Apache-2.0
"""The tests of ``--quick`` are chosen by the faults that they show per second, within the given
minutes."""

from __future__ import annotations

import json
from collections import Counter

from benchmarks import seconds
from benchmarks.seconds import Measured, greedy, quick, shares
from conformance.qualify.sets import sets

CORE = sets()["core"].demands[0].claim


def a_test(name: str, cost: float, *claims: str, exclusive: bool = False) -> Measured:
    return Measured(
        name=name, lab=cost / 5, real=cost, claims=frozenset(claims), exclusive=exclusive
    )


ROWS = {"one": frozenset({"a"}), "two": frozenset({"a", "b"}), "three": frozenset({"c"})}


def test_a_test_that_shows_more_in_a_second_comes_first() -> None:
    tests = [a_test("a", 40.0), a_test("b", 1.0), a_test("c", 4.0)]
    assert [test.name for test in greedy(tests, ROWS, Counter())] == ["b", "c", "a"]


def test_a_row_that_was_shown_is_worth_less() -> None:
    tests = [a_test("b", 1.0), a_test("c", 2.5)]
    assert [test.name for test in greedy(tests, ROWS, Counter())] == ["b", "c"]
    assert [test.name for test in greedy(tests, ROWS, Counter(two=3))] == ["c", "b"]


def test_a_quick_run_has_each_core_claim_and_what_fits_and_nothing_exclusive() -> None:
    budget = seconds.WORKERS * (60 * seconds.MINUTES - seconds.AROUND)
    tests = [
        a_test("core", 5.0, CORE), a_test("a", budget - 10.0), a_test("b", 6.0),
        a_test("c", 4.0, exclusive=True),
    ]  # fmt: skip
    for test in tests:
        test.rows = [about for about in ROWS.values() if test.name in about]
    chosen = quick(tests, ROWS)
    assert [test.name for test in chosen] == ["core", "b"], "a does not fit, c is exclusive"
    assert sum(test.cost for test in chosen) <= budget


def test_the_share_counts_rows_of_which_all_tests_run_and_of_which_any_does() -> None:
    assert shares(ROWS, ["a"]) == (1, 2)
    assert shares(ROWS, ["a", "b", "c"]) == (3, 3)


def test_the_page_says_what_the_data_file_says() -> None:
    found = json.loads(seconds.DATA.read_text(encoding="utf-8"))["quick"]
    page = seconds.PAGE.read_text(encoding="utf-8")
    assert seconds.with_paragraph(page, found) == page, "python -m benchmarks.seconds"
