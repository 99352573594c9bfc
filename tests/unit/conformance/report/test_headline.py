# SPDX-License-Identifier: Apache-2.0
"""The first line of a run's page, and whether it counts as a success."""

from __future__ import annotations

import json
from typing import Any

from conformance.errors import NotObservable
from conformance.report import terminal
from conformance.report.page import render
from conformance.report.page.answer import headline, reach
from conformance.verdicts.claims import BY_HAND, NO_TEST
from tests.golden.reports.texts import stored
from tests.unit.conformance.qualify.reports import NEW, OLD, a_gate, decided
from tests.unit.conformance.report.pages import LEAK, plain


def test_the_first_line_says_what_the_run_found() -> None:
    assert "<h1>1 claim is violated</h1>" in render(plain(LEAK))
    whole = plain(decided("DEMO-7", {NEW: "CONFIRMED"}))
    good = [claim for claim in whole["claims"] if claim["results"]]
    healthy = render(whole | {"claims": good})
    assert "<h1>Nothing violated</h1>" in healthy
    assert ">1 of the 1 claim that applies to this cluster holds as documented.</p>" in healthy
    assert '<header class="good">' in healthy
    asked, no_test = (
        {**claim, "verdict": "NOT_RUN", "results": [], "reason": why}
        for claim in good
        for why in ("x", NO_TEST)
    )
    below = "holds as documented. 1 was not decided, 1 has no test yet.</p>"
    page = render(whole | {"claims": [*good, asked, no_test]})
    assert f">1 of the 3 claims that apply to this cluster {below}" in page
    assert '<header class="warn">' in page


def test_what_a_cluster_cannot_show_and_what_no_program_decides_is_no_gap_of_a_run() -> None:
    (good,) = (
        claim
        for claim in plain(decided("DEMO-7", {NEW: "CONFIRMED"}))["claims"]
        if claim["results"]
    )
    others = [
        {**good, "verdict": "NOT_RUN", "results": [], "reason": why}
        for why in (f"{NotObservable.BEGINS}: no WireGuard", NO_TEST, BY_HAND)
    ]
    whole = plain() | {"claims": [good, *others]}
    assert headline(whole) == ("Nothing violated", "good")
    rest = "1 cannot be checked on it, 1 has no test yet, 1 needs a person."
    assert reach(whole).endswith(f"to this cluster holds as documented. {rest}")
    unmet = whole | {"claims": [good, {**good, "verdict": "UNMET"}]}
    assert headline(unmet) == ("Nothing violated", "warn")
    assert reach(unmet).endswith("holds as documented. 1 is UNMET.")
    both = whole | {"claims": [good, good, *others, *others]}
    rest = "2 cannot be checked on it, 2 have no test yet, 2 need a person."
    assert reach(both) == f"2 of the 8 claims that apply to this cluster hold as documented. {rest}"
    kept = json.loads(
        json.dumps(stored("whole").plain).replace("nothing here asks for it", NotObservable.BEGINS)
    )
    assert headline(kept)[1] == "good", "the best run of a lab"


def test_what_fills_a_node_is_no_gap_of_a_run_and_its_option_is_named() -> None:
    (good,) = (
        claim
        for claim in plain(decided("DEMO-7", {NEW: "CONFIRMED"}))["claims"]
        if claim["results"]
    )
    option = "allow that with --allow-node-fill; it takes minutes"
    fills = {**good, "verdict": "NOT_RUN", "results": [], "reason": "x", "remedy": option}
    whole = plain() | {"claims": [good, fills]}
    assert headline(whole) == ("Nothing violated", "good")
    assert reach(whole).endswith("holds as documented. 1 needs --allow-node-fill.")
    both = whole | {"claims": [good, fills, fills]}
    assert reach(both).endswith("holds as documented. 2 need --allow-node-fill.")
    left = whole | {"claims": [good, {**fills, "remedy": "allow that with --allow-disruptive"}]}
    assert headline(left) == ("Nothing violated", "warn")
    assert reach(left).endswith("holds as documented. 1 was not decided.")


def test_an_exit_code_that_no_claim_explains_is_in_the_first_line_and_no_success() -> None:
    whole = plain(exit_code=1, exit_cause="--baseline: DEMO-5 became worse") | {"claims": []}
    told = "Nothing violated; however, exit code 1: --baseline: DEMO-5 became worse"
    assert headline(whole) == (told, "bad")
    assert "<dd>1: --baseline: DEMO-5 became worse</dd>" in render(whole)


def test_what_is_waived_is_said_in_the_first_line_and_hides_nothing_beside_it() -> None:
    whole = plain(LEAK, decided("DEMO-5", {OLD: "VIOLATED"})) | {
        "waived": {"DEMO-7": "DEMO-7, waived by jane"}
    }
    assert headline(whole) == ("1 claim is violated; violated, and waived: DEMO-7", "bad")
    both = whole | {"waived": dict.fromkeys(("DEMO-5", "DEMO-7"), "by jane")}
    assert headline(both) == ("2 claims are violated, and waived: DEMO-5, DEMO-7", "warn")
    assert '<header class="warn">' in render(both)
    both["run"] |= {"exit_code": 1, "exit_cause": "--baseline: CONN-1 became worse"}
    told = (
        "2 claims are violated, and waived: DEMO-5, DEMO-7; however, exit code 1: --baseline: "
        "CONN-1 became worse"
    )
    assert headline(both) == (told, "bad")
    short = plain(LEAK, cut_short="40 tests were not run") | {"waived": {"DEMO-7": "by jane"}}
    assert headline(short) == ("Cut short: it shows nothing about what it did not reach", "warn")


def test_a_run_that_decided_nothing_is_no_success() -> None:
    assert headline(plain() | {"claims": []}) == ("Nothing violated", "warn")
    assert reach(plain() | {"claims": []}).startswith("0 of the 0 claims")
    none = plain(exit_code=7) | {"claims": []}
    assert headline(none)[0].endswith("; however, exit code 7: " + terminal.EXIT_MEANINGS[7])


def test_what_else_than_a_gate_makes_the_exit_code_is_in_the_first_line_and_no_success() -> None:
    gate = a_gate()
    whole = plain(
        decided("DEMO-7", {NEW: "CONFIRMED"}), exit_code=1, exit_cause="--fail-on: CONN-1"
    ) | {"gates": [gate]}
    assert headline(whole) == ("Qualified: core; however, exit code 1: --fail-on: CONN-1", "bad")
    whole["run"]["exit_cause"] = "--require: core not fulfilled"
    assert headline(whole | {"gates": [gate | {"answer": "incomplete"}]}) == (
        "Incomplete: core",
        "warn",
    )


LOST = "node windows-2019 was lost during the run"


def test_an_incomplete_gate_has_the_number_of_claims_that_are_not_selected_besides_the_cause() -> (
    None
):
    """Without it, the lost node alone would seem to be in the gate's way."""
    left = [
        "CONN-1 (node to linux pod) not selected: no test of this part was in the run",
        "CONN-1 (node to windows pod) not selected: no test of this part was in the run",
        "CONN-2 not selected: the selection leaves it out",
    ]
    lost = decided("DEMO-7", {NEW: "INCONCLUSIVE"}) | {"reason": LOST}
    test = {"test": lost["test"], "verdict": "INCONCLUSIVE", "cause": LOST}

    def first(*obstacles: str, results: list[dict[str, Any]]) -> str:
        gates = [a_gate(answer="incomplete", obstacles=list(obstacles))]
        whole = plain(*results, exit_code=6, exit_cause="--require: core not fulfilled")
        tests = [test | {"explanation": {"lines": {}, "cause": LOST}}] if results else []
        return headline(whole | {"gates": gates, "tests": tests})[0]

    undecided = f"DEMO-7 INCONCLUSIVE: {LOST}"
    assert first(undecided, results=[lost]) == f"Incomplete: core: {LOST}"
    both = f"Incomplete: core: {LOST}; 2 claims not selected"
    assert first(undecided, *left, results=[lost]) == both
    assert first(left[2], results=[]) == "Incomplete: core; 1 claim not selected"


def test_what_qualifies_with_waivers_says_so_in_the_first_line_and_is_not_green() -> None:
    gate = a_gate(name="policy", waived=["DEMO-7 VIOLATED, waived by jane"])
    whole = plain(LEAK) | {"gates": [gate]}
    page = render(whole | {"waived": {"DEMO-7": "DEMO-7 VIOLATED, waived by jane"}})
    assert "<h1>Qualified: policy; with exceptions: DEMO-7 waived</h1>" in page
    assert '<header class="warn">' in page
    assert "DEMO-7 VIOLATED, waived by jane" in page.partition('<details class="gate">')[2]


def test_a_run_that_was_cut_short_says_so_first() -> None:
    short = "40 planned tests were not run"
    healthy = plain(decided("DEMO-7", {NEW: "CONFIRMED"}), cut_short=short)
    assert not reach(healthy)
    assert headline(healthy) == ("Cut short: it shows nothing about what it did not reach", "warn")
    assert headline(plain(LEAK, cut_short=short)) == (
        "1 claim is violated, and the run was cut short: it shows nothing about what it did not reach", "bad"
    )  # fmt: skip


def test_claims_that_are_inconclusive_for_one_reason_are_said_so() -> None:
    whole = plain(*(decided(ident, {NEW: "INCONCLUSIVE"}) for ident in ("DEMO-6", "DEMO-7")))
    assert headline(whole)[0] == "2 claims are inconclusive"
    whole["tests"] = [
        {"test": result["test"], "verdict": "INCONCLUSIVE", "cause": "windows-2019 was lost"}
        for claim in whole["claims"] for result in claim["results"]
    ]  # fmt: skip
    assert headline(whole) == ("2 claims are inconclusive: windows-2019 was lost", "warn")
