# SPDX-License-Identifier: Apache-2.0
"""Pytest's output for a test: a letter, a word, and a line of the short summary."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.model.claim import ClaimVerdict
from conformance.plugin import short_summary, status
from conformance.plugin.judge.stash import OUTCOME, WAITS


def a_report(
    verdict: str = "", reason: str = "", remedy: str = "", *, flaky: bool = False, **fields: Any
) -> Any:
    """A report of a phase of a test."""
    outcome = fields.get("outcome", "passed")
    properties = [("verdict", verdict)] if verdict else []
    properties += [("flaky", "PASSED, FAILED")] if flaky else []
    stored = {"verdict": verdict, "reason": reason, "remedy": remedy}
    properties += [(OUTCOME, json.dumps(stored))] if reason else []
    report = {
        "nodeid": "suites/dns/test_a.py::test_a",
        "when": "call",
        "user_properties": properties,
        "outcome": outcome,
        "passed": outcome == "passed",
        "failed": outcome == "failed",
        "skipped": outcome == "skipped",
        "longrepr": None,
        "longreprtext": "",
    }
    return SimpleNamespace(**{**report, **fields})


@pytest.mark.parametrize("verdict", ClaimVerdict)
def test_each_verdict_has_a_letter_and_its_own_word(verdict: ClaimVerdict) -> None:
    kind, letter, word = status.of(a_report(str(verdict))) or ("", "", "")
    assert len(letter) == 1
    assert (word if isinstance(word, str) else word[0]) == verdict
    assert kind


def test_letters_differ() -> None:
    found = [status.of(a_report(str(verdict))) for verdict in ClaimVerdict]
    assert len({each[1] for each in found if each}) == len(ClaimVerdict)


@pytest.mark.parametrize(
    ("report", "word"),
    [
        pytest.param(a_report("CONFIRMED", when="setup"), None, id="its set-up passed"),
        pytest.param(a_report("NOT_RUN", when="setup", outcome="skipped"), "NOT_RUN", id="skipped"),
        pytest.param(a_report("VIOLATED", outcome="rerun"), None, id="it runs again at once"),
        pytest.param(a_report("CONFIRMED", outcome=WAITS), WAITS.upper(), id="it runs again later"),
        pytest.param(a_report(), None, id="a test of somebody else"),
        pytest.param(a_report(when=status.CRASH), "INCONCLUSIVE", id="its worker died"),
        pytest.param(a_report("VIOLATED", when="teardown"), None, id="cleared up"),
        pytest.param(
            a_report("CONFIRMED", when="teardown", outcome="failed"), "INCONCLUSIVE", id="not so"
        ),
        pytest.param(a_report("VIOLATED", flaky=True), "VIOLATED FLAKY", id="attempts disagree"),
    ],
)  # fmt: skip
def test_a_phase_has_the_word_of_its_test(report: Any, word: str | None) -> None:
    found = status.of(report)
    assert (found[2][0] if found else None) == word


class Reporter:
    """pytest's terminal reporter, as far as a short summary uses it."""

    def __init__(self, chars: str, verbose: int = 0, **stats: list[Any]) -> None:
        self.reportchars = chars
        self.stats = stats
        self.config = SimpleNamespace(option=SimpleNamespace(verbose=verbose))
        self.lines: list[str] = []

    def write_sep(self, sep: str, title: str, **_: object) -> None:
        self.lines.append(title)

    def write_line(self, line: str) -> None:
        self.lines.append(line)


def told(reporter: Reporter) -> list[str]:
    left: list[str] = []
    short_summary.tell(reporter, lambda: left.append(reporter.reportchars))
    assert left == [reporter.reportchars]
    assert not set(reporter.reportchars) & {"s", "E", "f"}
    return reporter.lines


WRONG = a_report("VIOLATED", "CONN-1: no answer\nmore", outcome="failed")
BROKEN = a_report("INCONCLUSIVE", "no agent", outcome="failed")
LEFT = a_report("NOT_RUN", "no second node", "add one", outcome="skipped")
ELSEWHERE = a_report("NOT_APPLICABLE", "it is about bgp", outcome="skipped")
PLACE = "suites/dns/test_a.py"


def test_the_gravest_come_last_each_in_one_line() -> None:
    reporter = Reporter("sEfx", failed=[WRONG], error=[BROKEN], skipped=[LEFT, LEFT])
    assert told(reporter) == [
        "short test summary info",
        f"NOT_RUN [2] {PLACE}: no second node; add one",
        f"INCONCLUSIVE {PLACE}::test_a - no agent",
        f"VIOLATED {PLACE}::test_a - CONN-1: no answer",
    ]
    assert reporter.reportchars == "x"


def test_only_what_is_asked_for_is_printed() -> None:
    assert told(Reporter("E", failed=[WRONG], skipped=[LEFT])) == []
    assert len(told(Reporter("f", failed=[WRONG], error=[BROKEN]))) == 2


@pytest.mark.parametrize("verbose", [0, 1])
def test_tests_about_other_clusters_are_counted_and_shown_with_v(verbose: int) -> None:
    lines = told(Reporter("s", verbose, skipped=[ELSEWHERE, ELSEWHERE, LEFT]))
    counted = "NOT_APPLICABLE [2] not about this cluster; -v prints each reason"
    assert (counted in lines) is not bool(verbose)
    assert (f"NOT_APPLICABLE [2] {PLACE}: it is about bgp" in lines) is bool(verbose)
    assert f"NOT_RUN [1] {PLACE}: no second node; add one" in lines


def test_an_advice_that_the_reason_holds_is_not_repeated() -> None:
    said = a_report("NOT_RUN", "no second node: add one", "add one", outcome="skipped")
    assert told(Reporter("s", skipped=[said]))[1:] == [
        f"NOT_RUN [1] {PLACE}: no second node: add one"
    ]


def test_a_skip_that_the_judge_did_not_see_has_its_last_line() -> None:
    skipped = a_report(outcome="skipped", longrepr=("file", 1, "Skipped: first\nlast\n"))
    crashed = a_report(outcome="failed", longreprtext="many lines\nKeyError: 1\n")
    assert told(Reporter("sf", skipped=[skipped], failed=[crashed]))[1:] == [
        f"SKIPPED [1] {PLACE}: last",
        f"VIOLATED {PLACE}::test_a - KeyError: 1",
    ]
