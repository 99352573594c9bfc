# SPDX-License-Identifier: Apache-2.0
"""Reports of real runs on labs, and what comparisons, gates and reruns print about them."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest

from conformance.catalog import catalog
from conformance.model.counted import counted
from conformance.model.verdict import ClaimVerdict
from conformance.qualify.compare import compare
from conformance.qualify.gate import GateResult, exit_code, judge, unused
from conformance.qualify.waivers import Waiver, load
from conformance.report.page import render
from tests.golden.reports.texts import DEMO, FOLDER, POLICY_RULES, names, stored, texts

WAIVERS = Path(__file__).parents[4] / "docs" / "examples" / "waivers.yaml"
WAIVER = Waiver(
    claim="DEMO-7", verdicts=(ClaimVerdict.VIOLATED,), build="17763", reason="r", link="l", owner="o",
    expires=datetime.date(2099, 1, 1),
)  # fmt: skip


def gate(name: str, *waivers: Waiver) -> dict[str, GateResult]:
    return {result.build: result for result in judge(stored(name), [DEMO], waivers, catalog())}


@pytest.fixture(scope="module")
def texts_now() -> dict[str, str]:
    return dict(texts())


FILES = sorted(path.name for path in FOLDER.iterdir() if re.match("(diff|gate|rerun)-", path.name))


@pytest.mark.parametrize("name", FILES)
def test_a_text_is_as_it_was_written(name: str, texts_now: dict[str, str]) -> None:
    """After a change that is meant: ``python -m tests.golden.reports.texts``, and read what git shows."""
    assert texts_now[name] == (FOLDER / name).read_text(encoding="utf-8")


def test_every_text_has_its_file(texts_now: dict[str, str]) -> None:
    assert sorted(texts_now) == FILES


@pytest.mark.parametrize("name", names())
def test_a_report_from_before_later_facts_has_a_page(name: str) -> None:
    assert "</html>" in render(stored(name).plain)


def test_a_leak_on_one_of_two_builds_disqualifies_that_build_and_names_it() -> None:
    found = gate("leak")
    assert found["17763"].answer == "not qualified"
    assert {obstacle.claim for obstacle in found["17763"].standing} == {
        "DEMO-5",
        "DEMO-6",
        "DEMO-7",
    }
    assert found["20348"].answer == "qualified"
    worse = compare(stored("healthy"), stored("leak")).of("worse")
    assert {turned.where for turned in worse} == {"", "Windows 17763"}


def rules(name: str, *waivers: Waiver) -> dict[str, GateResult]:
    return {
        result.build: result for result in judge(stored(name), [POLICY_RULES], waivers, catalog())
    }


def test_a_release_with_a_defect_that_opens_what_policy_closes_does_not_qualify() -> None:
    """v3.32 lets through what an edited rule denies: connected where silence was expected, on both builds."""
    found = rules("v3.32-as-shipped")
    assert {result.answer for result in found.values()} == {"not qualified"}
    (edited,) = [obstacle for obstacle in found["20348"].standing if obstacle.claim == "XPOL-12"]
    assert (edited.part, edited.found) == ("windows server", "VIOLATED")
    assert "expected TIMED_OUT, observed CONNECTED" in edited.reason
    assert exit_code(list(found.values())) == 1


def test_the_release_that_opens_it_is_worse_than_the_one_before_and_what_both_break_is_not() -> (
    None
):
    found = compare(stored("v3.31-as-shipped"), stored("v3.32-as-shipped"))
    assert {turned.claim for turned in found.of("worse")} == {"XPOL-12"}
    assert {turned.where for turned in found.of("worse")} == {
        "", "part windows server", "Windows 17763", "Windows 20348",
    }  # fmt: skip
    assert "calico version: v3.31.7 -> v3.32.1" in found.facts
    assert found.exit_code == 1


def test_the_documented_waivers_accept_what_these_releases_break_and_show_it() -> None:
    accepted = load(WAIVERS, catalog(), datetime.date(2026, 11, 22))
    for name, claims in {
        "v3.31-as-shipped": {"XPOL-7", "XPOL-14"},
        "v3.32-as-shipped": {"XPOL-7", "XPOL-12", "XPOL-14"},
    }.items():
        for result in rules(name, *accepted).values():
            assert {obstacle.claim for obstacle in result.obstacles} == claims
            assert result.headline.endswith(
                f"qualify no release ({counted(len(claims), 'claim')} waived)"
            )


def test_what_a_release_does_not_break_leaves_its_waiver_unused() -> None:
    accepted = load(WAIVERS, catalog(), datetime.date(2026, 11, 22))
    old, new = (
        {waiver.claim for waiver in unused(accepted, list(rules(name, *accepted).values()))}
        for name in ("v3.31-as-shipped", "v3.32-as-shipped")
    )
    assert old - new == {"XPOL-12"}


def test_a_waiver_for_another_claim_helps_nothing() -> None:
    assert compare(stored("healthy"), stored("leak")).exit_code == 1
    assert gate("leak", WAIVER)["17763"].answer == "not qualified"
    every = [Waiver(**{**vars(WAIVER), "claim": claim}) for claim in ("DEMO-5", "DEMO-6", "DEMO-7")]
    assert gate("leak", *every)["17763"].headline.endswith("(3 claims waived)")


def test_a_healthy_lab_would_qualify_and_qualifies_nothing() -> None:
    assert {result.headline.partition(": ")[2] for result in gate("healthy").values()} == {
        "would qualify; results from a lab qualify no release"
    }
    assert {item["answer"] for item in stored("healthy").plain["gates"]} <= {
        "incomplete",
        "qualified",
    }
    assert not any(
        item["headline"].endswith(": qualified") for item in stored("healthy").plain["gates"]
    )


def test_a_cluster_without_the_v3_api_says_why_nothing_about_calico_s_policies_was_run() -> None:
    found = gate("without-v3")
    assert {result.answer for result in found.values()} == {"incomplete"}
    assert any(
        "projectcalico.org/v3" in str(each) for result in found.values() for each in result.standing
    )
    assert exit_code(list(found.values())) == 6


def test_a_violated_that_turned_green_on_a_rerun_is_still_violated_and_flaky() -> None:
    again = stored("rerun").plain["run"]["continues"]["again"]
    assert {tuple(both) for both in again.values()} == {("VIOLATED", "CONFIRMED")}
    claim = stored("rerun").claims["DEMO-7"]
    assert claim.verdict is ClaimVerdict.VIOLATED
    assert claim.reason.startswith("FLAKY (VIOLATED, CONFIRMED): ")
    assert gate("rerun")["17763"].answer == "not qualified"
    both = compare(stored("leak"), stored("rerun"))
    assert both.of("better") == ()
    assert "DEMO-7: attempts disagree, the worst counts" in both.flaky


def test_a_run_that_was_cut_short_says_so_and_qualifies_nothing() -> None:
    assert "were not run, because the run ended before them" in stored("cut-short").cut_short
    assert {result.answer for result in gate("cut-short").values()} == {"incomplete"}
