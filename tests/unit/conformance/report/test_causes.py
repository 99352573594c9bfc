# SPDX-License-Identifier: Apache-2.0
"""A cause has the time at which a test first observed it, and the best known statement about its
layer."""

from __future__ import annotations

from typing import Any

from conformance.model.explanation import UNKNOWN
from conformance.report.causes import Cause, of_report
from tests.unit.conformance.qualify.reports import NEW, decided
from tests.unit.conformance.report.pages import plain

LATER, EARLIER = "2026-11-29T10:00:20Z", "2026-11-29T10:00:10Z"


def cause(*explanations: dict[str, Any], text: str = "Felix does not run") -> Cause:
    tests = [
        {"explanation": each, "started": f"2026-11-29T10:00:0{number}Z"}
        for number, each in enumerate(explanations, 1)
    ]
    return Cause(text=text, claims=[], tests=tests, again="")


def test_it_was_observed_first_by_the_earliest_test_whichever_failed_first() -> None:
    assert cause({"since": LATER}, {}, {"since": EARLIER}).since == EARLIER
    assert cause({}, {}).since == "2026-11-29T10:00:01Z", "else when its first test began"
    assert cause().since == ""


def test_a_layer_that_one_test_names_counts_more_than_another_test_that_names_none() -> None:
    named, unknown = "HNS lacks x on w: Felix did not program it", f"{UNKNOWN}: a or b"
    for first, second in ((named, unknown), (unknown, named)):
        found = cause({"lines": {"layer": first}}, {"lines": {"layer": second}}, {"lines": {}})
        assert found.layer == named
    assert cause({"lines": {"layer": unknown}}).layer == unknown
    assert cause({"lines": {}}, {}).layer == ""


def test_what_was_observed_is_said_where_the_text_does_not_say_it() -> None:
    seen = {"expected": "TIMED_OUT", "observed": "CONNECTED", "share": "2 of 9 paths"}
    assert cause(seen).observed == "expected TIMED_OUT, observed CONNECTED, 2 of 9 paths"
    assert cause(seen | {"share": ""}).observed == "expected TIMED_OUT, observed CONNECTED"
    assert cause(seen, text="expected TIMED_OUT, observed CONNECTED").observed == ""
    assert cause({}).observed == ""


def test_only_tests_that_name_a_cause_are_its_tests() -> None:
    whole = plain(
        decided("DEMO-7", {NEW: "VIOLATED"}) | {"test": "s::a"},
        decided("DEMO-7", {NEW: "VIOLATED"}) | {"test": "s::b"},
    )
    whole["tests"] = [
        {"test": "s::a", "verdict": "VIOLATED", "cause": "Felix does not run"},
        {"test": "s::b", "verdict": "VIOLATED", "cause": ""},
    ]
    (found,) = of_report(whole)
    assert [test["test"] for test in found.tests] == ["s::a"]
    whole["tests"][0]["cause"] = ""
    (found,) = of_report(whole)
    assert [test["test"] for test in found.tests] == ["s::a", "s::b"]
