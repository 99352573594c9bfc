# SPDX-License-Identifier: Apache-2.0
"""A report notes what its run left out, what it lost, and why it ended early."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.catalog import Needs
from conformance.model.claim import ClaimResult, ClaimVerdict
from conformance.plugin import notes
from conformance.plugin.judge.stash import LATER
from conformance.schedule.plan import PlannedTest
from conformance.schedule.scheduler_lock import SHARED, Exclusivity
from conformance.verdicts.claims import TestOutcome
from tests.unit.conformance.builders import a_node, some_facts

NOT_RUN = ClaimVerdict.NOT_RUN


def a_test(*results: ClaimResult, ran: bool = True, remedy: str = "") -> TestOutcome:
    return TestOutcome(test="t", verdict=NOT_RUN, results=results, ran=ran, remedy=remedy)


@pytest.mark.parametrize(
    ("tests", "interrupted", "why"),
    [
        ([a_test()], False, ""),
        ([a_test()], True, ""),
        ([], False, ""),
        ([], True, "the run ended before its tests were known"),
        (
            [a_test(ran=False), a_test()],
            False,
            "1 planned test was not run, because the run ended before it",
        ),
        (
            [a_test(ran=False)] * 2,
            True,
            "2 planned tests were not run, because the run ended before them",
        ),
        (
            [a_test(remedy=LATER), a_test(ran=False)],
            False,
            "1 planned test was not run, because --max-minutes had passed",
        ),
        (
            [a_test(remedy=LATER)] * 3,
            False,
            "3 planned tests were not run, because --max-minutes had passed",
        ),
    ],
)
def test_a_run_that_did_not_reach_its_end_says_why(
    tests: list[TestOutcome], interrupted: bool, why: str
) -> None:
    assert notes.cut_short(tests, interrupted=interrupted) == why


@pytest.mark.parametrize(
    ("quick", "part", "note"),
    [
        (False, "", ""),
        (True, "", notes.QUICK),
        (True, "1/2", notes.QUICK),
        (False, "1/2", "part 1/2 (--shard): the other tests are in the other parts"),
    ],
)
def test_a_part_of_the_tests_is_noted(quick: bool, part: str, note: str) -> None:
    assert notes.selection(SimpleNamespace(quick=quick), part).endswith(note)
    assert bool(notes.selection(SimpleNamespace(quick=quick), part)) is bool(note)


@pytest.mark.parametrize(
    ("reach", "note"),
    [
        ({}, ""),
        (
            {"gone": "no API since 10:00"},
            "no API since 10:00; the remaining tests are INCONCLUSIVE",
        ),
        ({"gone": "no API since 10:00", "unusable": True}, ""),
        ({"was_gone": "no API for 3 min"}, "no API for 3 min; it answers again"),
    ],
)
def test_a_loss_of_the_api_server_is_noted_while_it_lasts_and_afterwards(
    reach: dict[str, Any], note: str
) -> None:
    given: Any = SimpleNamespace(**{"gone": "", "unusable": False, "was_gone": ""} | reach)
    found = notes.loss_of_cluster(given)
    assert found.startswith(note)
    assert bool(found) is bool(note)


def a_result(claim: str, reason: str) -> ClaimResult:
    return ClaimResult(claim=claim, verdict=NOT_RUN, test="t", reason=reason)


def test_a_reason_names_the_claims_that_it_costs() -> None:
    tests = [
        a_test(a_result("B-1", "one node"), a_result("C-1", "no BGP")),
        a_test(a_result("A-1", "one node"), a_result("B-1", "one node")),
    ]
    assert notes.cost_of("one node", tests) == "one node; not decided for that reason: A-1, B-1"
    assert notes.cost_of("no IPv6", tests) == ""


@pytest.mark.parametrize(
    ("labels", "note"),
    [
        ([{}], notes.AGENT_NOT_EXECUTED),
        ([{notes.AGENTS: "powershell-7.4"}, {}], "Windows agents: powershell 7.4 inside the lab"),
        (
            [{notes.AGENTS: "windows-b"}, {notes.AGENTS: "powershell-7"}],
            "Windows agents: powershell 7, windows-b inside the lab",
        ),
    ],
)
def test_a_lab_says_what_ran_its_windows_agents(labels: list[dict[str, str]], note: str) -> None:
    nodes = [a_node(f"w{number}", "windows", labels=each) for number, each in enumerate(labels)]
    assert notes.windows_agents(some_facts(*nodes)) == note


@pytest.mark.parametrize(
    ("keyword", "last", "there", "watch", "is_noted"),
    [
        ("vxlan", False, True, 1, True),
        ("vxlan", True, True, 1, False),
        ("vxlan", False, False, 1, False),
        ("vxlan", False, True, 0, False),
        ("", False, True, 1, False),
    ],
)
def test_a_standing_watch_that_k_leaves_out_is_noted(
    *,
    monkeypatch: pytest.MonkeyPatch,
    keyword: str,
    last: bool,
    there: bool,
    watch: int,
    is_noted: bool,
) -> None:
    monkeypatch.setattr(notes, "suite_tests", lambda folder: [SimpleNamespace(is_last=there)])
    config: Any = SimpleNamespace(option=SimpleNamespace(keyword=keyword), rootpath=Path())
    exclusivity = Exclusivity(kind="last") if last else SHARED
    planned = [PlannedTest(test="t", parts=(), needs=Needs(), exclusivity=exclusivity)]
    found = notes.watch_left_out(config, planned, watch)
    assert found.startswith(f"-k {keyword!r} leaves the standing watch out") is is_noted
    assert bool(found) is is_noted
