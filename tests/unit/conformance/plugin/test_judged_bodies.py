# SPDX-License-Identifier: Apache-2.0
"""What a test raises becomes its verdict and its outcome in pytest's terms, whoever raises it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.catalog import Needs, catalog
from conformance.errors import (
    EnvironmentBroken,
    MissingCapability,
    Nonconformance,
    NotAboutThisCluster,
    ProbeBroken,
    Unmet,
    Wavered,
)
from conformance.model.claim import ClaimResult, ClaimVerdict
from conformance.model.decision import Decision
from conformance.plugin.judge import Judge
from conformance.plugin.judge.stash import PLANNED, PROSPECT, PUT_OFF, STATEMENT
from conformance.schedule.plan import PlannedTest
from conformance.schedule.scheduler_lock import SHARED, Exclusivity
from conformance.verdicts.prospect import ClaimPart, Prospect
from conformance.verdicts.statement import Statement
from tests.unit.conformance.builders import a_node, a_windows_node, some_facts

CLUSTER = Exclusivity(kind="cluster")
DEMANDS = next(claim.id for claim in catalog().values() if claim.kind == "requirement")
PROMISES = next(claim.id for claim in catalog().values() if claim.kind == "capability")


class Judged:
    """A test of a claim, and a judge without a cluster."""

    def __init__(
        self,
        claim: str = PROMISES,
        exclusivity: Exclusivity = SHARED,
        result: ClaimVerdict = ClaimVerdict.CONFIRMED,
        **state: Any,
    ) -> None:
        self.failed: list[BaseException] = []
        self.attached: list[str] = []
        attachments = SimpleNamespace(
            end=lambda: None, text=lambda name, text: self.attached.append(name)
        )
        epoch = SimpleNamespace(catch_up=lambda: None, advance=lambda: None)
        restoration = SimpleNamespace(not_put_back=state.pop("not_put_back", ""), epoch=epoch)
        self.reach = SimpleNamespace(ended=state.pop("ended", ""), gone=state.pop("gone", ""))
        run = SimpleNamespace(
            facts=None,
            over=state.pop("over", ""),
            reach=self.reach,
            blame_machine=lambda error: None,
            settings=SimpleNamespace(dry_run=state.pop("dry_run", False)),
            evidence="lab",
        )
        self.state = SimpleNamespace(
            attachments=attachments,
            restoration=restoration,
            put_off=[],
            tries_at_once=state.pop("tries_at_once", False),
            felix_down=lambda nodes: {},
        )
        judge: Any = object.__new__(Judge)
        self.judge: Any = judge
        judge.state, judge.run, judge.catalog = self.state, run, catalog()
        judge._fail = lambda item, error: self.failed.append(error)
        judge.decide = lambda item: None
        decided = ClaimResult(claim=claim, verdict=result, test="t", reason="r", remedy="do it")
        judge._results = lambda item, statement: (decided,)
        part = (ClaimPart(claim=claim),)
        planned = PlannedTest(test="t", parts=part, needs=Needs(), exclusivity=exclusivity)
        self.item: Any = SimpleNamespace(
            stash=pytest.Stash(), session=SimpleNamespace(shouldstop=False)
        )
        self.item.stash[PLANNED] = planned
        self.item.stash[PROSPECT] = Prospect()
        self.item.stash[STATEMENT] = Statement()

    def raises(
        self, error: BaseException | None, hook: str = "pytest_runtest_call"
    ) -> tuple[str, str]:
        """Let a phase raise this; return the verdict that is kept, and what pytest gets."""
        phase: Generator[None, object, object] = getattr(self.judge, hook)(self.item)
        try:
            next(phase)
            if error is None:
                phase.send(None)
            else:
                phase.throw(error)
        except StopIteration:
            got = "passed"
        except BaseException as raised:  # pytest's own are no Exceptions
            got = f"{type(raised).__name__}: {raised}"
        kept = self.item.stash[STATEMENT].raised
        return (str(kept.verdict) if kept else "", got)


@pytest.mark.parametrize(
    ("error", "verdict", "got", "collected"),
    [
        (None, "", "passed", False),
        (Nonconformance("it is open"), "VIOLATED", "Nonconformance: it is open", True),
        (AssertionError("assert 1 == 2"), "VIOLATED", "AssertionError: assert 1 == 2", True),
        (ProbeBroken("no answer"), "INCONCLUSIVE", "ProbeBroken: no answer", True),
        (KeyError("a bug"), "INCONCLUSIVE", "KeyError: 'a bug'", True),
        (
            MissingCapability("one node", "add one"),
            "NOT_RUN",
            "Skipped: NOT_RUN: one node; add one",
            False,
        ),
        (NotAboutThisCluster("no BGP"), "NOT_APPLICABLE", "Skipped: NOT_APPLICABLE: no BGP", False),
        (pytest.skip.Exception("not today"), "NOT_RUN", "Skipped: not today", False),
        (pytest.fail.Exception("Timeout"), "INCONCLUSIVE", "EnvironmentBroken: Timeout", True),
    ],
)
def test_a_body_that_raises_has_the_verdict_of_its_error(
    error: BaseException | None, verdict: str, got: str, collected: bool
) -> None:
    test = Judged()
    found = test.raises(error)
    assert (found[0], found[1][: len(got)]) == (verdict, got)
    assert bool(test.failed) is collected
    assert not test.item.stash[STATEMENT].calling


@pytest.mark.parametrize(
    ("claim", "got", "collected"),
    [(DEMANDS, "passed", False), (PROMISES, "Unmet: Always", True)],
)
def test_an_unmet_demand_fails_only_a_test_of_a_claim_that_demands_nothing(
    claim: str, got: str, collected: bool
) -> None:
    test = Judged(claim)
    assert test.raises(Unmet("Always")) == ("UNMET", got)
    assert (bool(test.failed), test.attached) == (collected, ["unmet"])


@pytest.mark.parametrize(
    ("result", "got"),
    [
        (ClaimVerdict.CONFIRMED, "passed"),
        (ClaimVerdict.LIFTED, "passed"),
        (ClaimVerdict.INCONCLUSIVE, "EnvironmentBroken: r"),
        (ClaimVerdict.NOT_RUN, "Skipped: NOT_RUN: r; do it"),
    ],
)
def test_a_body_that_returns_must_have_decided_its_claim(result: ClaimVerdict, got: str) -> None:
    assert Judged(result=result).raises(None)[1] == got


@pytest.mark.parametrize(
    ("test", "earlier", "put_off"),
    [
        pytest.param(Judged(), False, True, id="a shared test"),
        pytest.param(Judged(exclusivity=CLUSTER), False, False, id="an exclusive test"),
        pytest.param(Judged(), True, False, id="its second run"),
        pytest.param(Judged(tries_at_once=True), False, False, id="with --reruns"),
    ],
)
def test_a_path_that_wavered_is_tried_once_more_later(
    test: Judged, earlier: bool, put_off: bool
) -> None:
    if earlier:
        test.item.stash[PUT_OFF] = False
    assert test.raises(Wavered("open, then closed"))[0] == "INCONCLUSIVE"
    assert test.state.put_off == ([test.item] if put_off else [])
    assert test.item.stash.get(PUT_OFF, False) is put_off


def test_nothing_but_a_wavering_path_is_put_off() -> None:
    test = Judged()
    test.raises(ProbeBroken("no answer"))
    assert test.state.put_off == []


def test_a_lost_node_makes_a_missing_capability_inconclusive_but_for_a_dry_run() -> None:
    lack = MissingCapability("one node", "add one")
    verdict, got = Judged(result=ClaimVerdict.INCONCLUSIVE).raises(lack)
    assert (verdict, got) == (
        "INCONCLUSIVE",
        "EnvironmentBroken: r\n  lacking   one node; add one",
    )
    dry = Judged(result=ClaimVerdict.INCONCLUSIVE, dry_run=True)
    assert dry.raises(lack) == ("NOT_RUN", "Skipped: NOT_RUN: one node; add one")


SETUP = "pytest_runtest_setup"


@pytest.mark.parametrize(
    ("make", "error", "verdict", "got"),
    [
        (Judged, None, "", "passed"),
        (
            lambda: Judged(over="after 10 min"),
            None,
            "NOT_RUN",
            "Skipped: NOT_RUN: after 10 min; give the run more minutes",
        ),
        (
            lambda: Judged(ended="no node left"),
            None,
            "NOT_RUN",
            "Skipped: NOT_RUN: no node left; repair that",
        ),
        (lambda: Judged(gone="no API"), None, "INCONCLUSIVE", "EnvironmentBroken: no API"),
        (lambda: Judged(not_put_back="VNI"), None, "INCONCLUSIVE", "EnvironmentBroken: VNI"),
        (
            Judged,
            AssertionError("a fixture's"),
            "INCONCLUSIVE",
            "EnvironmentBroken: set-up of the test failed: a fixture's",
        ),
        (
            Judged,
            MissingCapability("one node", "add one"),
            "NOT_RUN",
            "Skipped: NOT_RUN: one node; add one",
        ),
        (Judged, pytest.skip.Exception(""), "NOT_RUN", "Skipped: "),
        (
            Judged,
            EnvironmentBroken("no pod"),
            "INCONCLUSIVE",
            "EnvironmentBroken: no pod",
        ),
    ],
)
def test_an_error_in_set_up_is_never_a_verdict_about_the_cluster(
    make: Callable[[], Judged], error: BaseException | None, verdict: str, got: str
) -> None:
    test = make()
    del test.item.stash[STATEMENT]  # it is its first attempt
    found = test.raises(error, SETUP)
    assert (found[0], found[1][: len(got)]) == (verdict, got)


TEARDOWN = "pytest_runtest_teardown"


@pytest.mark.parametrize(
    ("body", "error", "verdict"),
    [
        (None, None, ""),
        (None, EnvironmentBroken("it stays"), "INCONCLUSIVE"),
        (None, AssertionError("it stays"), "INCONCLUSIVE"),
        (Nonconformance("open"), EnvironmentBroken("it stays"), "VIOLATED"),
        (Nonconformance("open"), None, "VIOLATED"),
    ],
)
def test_a_failing_clean_up_hides_no_violation(
    body: BaseException | None, error: BaseException | None, verdict: str
) -> None:
    test = Judged()
    test.raises(body)
    found, got = test.raises(error, TEARDOWN)
    assert found == verdict
    assert got.startswith("EnvironmentBroken: ") is bool(error)
    if isinstance(error, AssertionError):
        assert got == "EnvironmentBroken: clearing up after the test failed: it stays"


def test_a_run_that_no_test_can_decide_stops_after_the_test() -> None:
    test = Judged(ended="no node left")
    test.raises(None, TEARDOWN)
    assert test.item.session.shouldstop == "no node left"
    test = Judged()
    test.item.session.shouldstop = "Ctrl-C"
    test.raises(None, TEARDOWN)
    assert test.item.session.shouldstop == "Ctrl-C"


def a_decision(verdict: str, source: str, target: str, *about: str) -> Decision:
    return Decision(
        source=source,
        target=target,
        builds=about,
        about=about,
        verdict=ClaimVerdict(verdict),
        reason="r",
        halves=("open",),
    )


@pytest.mark.parametrize(
    ("decisions", "windows", "named"),
    [
        pytest.param([], 1, [], id="nothing is wrong"),
        pytest.param([a_decision("VIOLATED", "l1", "w1", "17763")], 1, ["w1"], id="one node"),
        pytest.param([a_decision("VIOLATED", "w1", "w2", "17763", "20348")], 1, [], id="all nodes"),
        pytest.param([a_decision("VIOLATED", "w1", "w2", "20348")], 1, ["w2"], id="one end"),
        pytest.param([a_decision("INCONCLUSIVE", "l1", "w1", "17763")], 1, [], id="no violation"),
        pytest.param([a_decision("VIOLATED", "l1", "w1", "17763")], 2, [], id="it needs both"),
        pytest.param([a_decision("VIOLATED", "l1", "l1")], 1, [], id="only Linux"),
    ],
)
def test_a_repetition_needs_only_the_windows_nodes_that_were_wrong(
    decisions: list[Decision], windows: int, named: list[str]
) -> None:
    test = Judged()
    test.judge.run.facts = some_facts(
        a_node("l1"), a_windows_node("w1", 17763, windows_build=(17763, 5329)), a_windows_node("w2")
    )
    test.item.stash[PLANNED] = replace(test.item.stash[PLANNED], needs=Needs(windows=windows))
    test.item.stash[STATEMENT].keep(decisions)
    assert test.judge._blamed(test.item) == named
