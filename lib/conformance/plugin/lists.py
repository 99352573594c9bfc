# SPDX-License-Identifier: Apache-2.0
"""``--plan`` and ``--list-claims``: the tests that would run here, with reasons, and the whole
catalog.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from conformance.catalog import (
    ALL,
    Applies,
    Catalog,
    Claim,
    IsolationKind,
    applicability,
    catalog,
    coverage,
)
from conformance.foreign.beforehand import Beforehand
from conformance.model.by_key import by_key
from conformance.model.counted import counted
from conformance.plugin.header import covered_nodes
from conformance.plugin.judge.stash import PLANNED
from conformance.plugin.state import State
from conformance.printing import say
from conformance.run.run import Run
from conformance.schedule import plan
from conformance.schedule.estimate import Estimate, estimate, lines_of_many_nodes, token_line
from conformance.schedule.plan import PlannedTest
from conformance.schedule.workers import workers_for
from conformance.verdicts.prospect import ClaimPart, Prospect, applying

AFTER_A_LOOK = "after a look"
"""The state of claims whose tests run only if a reading of the Windows nodes shows that they apply
to this cluster."""


def claims_list(
    tests: Sequence[PlannedTest], wanted: Sequence[str], *, whole: bool = False
) -> Iterator[str]:
    """Yield the catalog by area, with the number of tests of each claim; ``whole``: with every
    field of each claim."""
    claims = [claim for claim in catalog().values() if not wanted or claim.id in wanted]
    covered = coverage(
        catalog().values(), [(part.claim, test.test) for test in tests for part in test.parts]
    )
    for area, of_area in itertools.groupby(claims, lambda claim: claim.area):
        yield from ("", area)
        for claim in of_area:
            number = counted(len(covered.tests.get(claim.id, ())), "test")
            tested = "by hand" if claim.id in covered.manual else number
            yield from _claim_lines(claim, tested)
            yield from (
                f"  {'':18} part {part.part}: only on clusters with {part.applies}"
                for part in _with_conditions(claim, tests)
            )
            if wanted or whole:
                yield from _details(claim)
    yield ""
    yield str(covered)


def _claim_lines(claim: Claim, tested: str) -> Iterator[str]:
    modality = ", can happen" if claim.modality == "can happen" else ""
    tags = ", ".join(sorted(claim.tags))
    yield f"  {claim.id:9} {tested:8} {claim.statement}"
    yield f"  {'':9} {'':8} {claim.kind}{modality}; {claim.isolation}; tags {tags}"


def _details(claim: Claim) -> Iterator[str]:
    """Yield a claim's sources, the way it is checked, and what a test observes if the claim holds
    or fails."""
    yield from (f"  {'':18} {source}: {source.url}" for source in claim.sources)
    texts = {"check": claim.verify, "holds": claim.holds, "fails": claim.fails}
    yield from (f"  {'':18} {name}: {text}" for name, text in texts.items() if text)


def plan_list(run: Run, tests: Sequence[PlannedTest], *, whole: bool) -> Iterator[str]:
    """Yield every claim of the catalog, with its state by the facts."""
    assert run.facts is not None
    claims: Catalog = catalog()
    by_claim = by_key(
        (ident, test)
        for test in tests
        for ident in dict.fromkeys(part.claim for part in test.parts)
    )
    for area, of_area in itertools.groupby(claims.values(), lambda claim: claim.area):
        yield from ("", area)
        for claim in of_area:
            mine = by_claim.get(claim.id, [])
            word, why = _prospect(claim, claims, run, mine, whole=whole)
            yield f"  {claim.id:9} {word:14} {why}"
            yield from _parts_elsewhere(claim, mine, run)
    going = able_to_run(run, tests)
    if run.inspection and run.inspection.policies.lines:
        yield from _foreign_policies(run.inspection.policies, going)
    yield from _costs(run, going)


def able_to_run(run: Run, tests: Sequence[PlannedTest]) -> list[PlannedTest]:
    """Return the tests that can run according to all facts known about the cluster."""
    facts = run.facts
    assert facts is not None
    claims = catalog()
    return [
        test for test in tests if not plan.prospect_of(test, claims, facts, run.settings).verdict
    ]


def _foreign_policies(found: Beforehand, going: Sequence[PlannedTest]) -> Iterator[str]:
    """Yield the claims that may get no verdict because of policies of other owners, and the
    remedy."""
    yield from ("", "Policies of other owners")
    # policies that only open paths affect only denials
    use = "pods" if found.closing else "policies"
    claims = dict.fromkeys(part.claim for test in going if use in test.uses for part in test.parts)
    yield from (f"  {text}" for text in filter(None, [found.closing, found.opening]))
    if found.closing or found.opening:
        yield f"  may leave undecided {', '.join(claims) or 'no claim'}; remedy: {found.exempt}"
    if found.unread:
        yield f"  policies that could not be read: {found.unread}"


def _with_conditions(claim: Claim, tests: Sequence[PlannedTest]) -> list[ClaimPart]:
    """Return the parts of a claim that apply to only some of the clusters to which the claim
    applies."""
    parts = (
        part
        for test in tests
        for part in test.parts
        if part.claim == claim.id and part.applies != ALL
    )
    return list(dict.fromkeys(parts))


def _parts_elsewhere(claim: Claim, tests: Sequence[PlannedTest], run: Run) -> Iterator[str]:
    """Yield the parts that do not (or perhaps do not) apply to this cluster although their claim
    applies."""
    facts = run.facts
    assert facts is not None
    if not isinstance(applicability(claim, facts), Applies):
        return
    for part in _with_conditions(claim, tests):
        known = applying([part], catalog(), facts, looks=plan.may_look(run.settings))
        if settled := known.of(part):
            yield f"  {'':9} {settled[0]:14} part {part.part}: {settled[1]}"
        elif known.look:
            yield f"  {'':9} {AFTER_A_LOOK:14} part {part.part}: {'; '.join(known.assumed)}"


def _costs(run: Run, going: Sequence[PlannedTest]) -> Iterator[str]:
    """Yield the costs of cluster-wide tests for the cluster's other users."""
    assert run.facts is not None
    exclusive = plan.assign_exclusivity(going, catalog(), run.facts, run.settings)
    if run.inspection is None or all(item.kind != "cluster" for item in exclusive):
        return
    windows = [node.name for node in run.facts.by_os("windows")]
    yield from ("", "Effects on other users of the cluster")
    yield f"  each Windows node is drained, one after the other: {', '.join(windows)}"
    if len(windows) == 1:
        yield "  it is the only Windows node: everything that runs on Windows waits meanwhile"
    yield from (
        f"  node {node}: pods of DaemonSets lose their network, and are deleted and created again: "
        f"{', '.join(pods)}"
        for node, pods in run.inspection.third_party_pods.items()
    )


def estimate_lines(run: Run, tests: Sequence[PlannedTest]) -> list[str]:
    """Return how long the selected tests would take, and whether the user's token is valid for that
    time."""
    found = estimated(run, tests)
    assert run.inspection is not None
    short = token_line(run.inspection.token_ends, found.minutes(found.workers)[1], time.time())
    covered = len(covered_nodes(run.inspection.facts, run.settings))
    many = lines_of_many_nodes(found.shared, covered, run.settings.cover.pairs)
    return [*many, *found.lines(), *([f"note: {short}"] if short else [])]


def estimated(run: Run, tests: Sequence[PlannedTest]) -> Estimate:
    """Estimate how long the tests that can run take with the workers of ``-n auto``."""
    assert run.inspection is not None
    limits = run.settings.workers
    covered = covered_nodes(run.inspection.facts, run.settings)
    number, _ = workers_for(limits, covered, run.inspection.room, prepared=run.inspection.prepared)
    return estimate(able_to_run(run, tests), covered, number, limits, lab=run.choice.stands_in)


def _prospect(
    claim: Claim, claims: Catalog, run: Run, tests: Sequence[PlannedTest], *, whole: bool
) -> tuple[str, str]:
    assert run.facts is not None
    whole_claim = ClaimPart(claim=claim.id)
    looks = bool(tests) and plan.may_look(run.settings)
    known = applying([whole_claim], claims, run.facts, looks=looks)
    if settled := known.of(whole_claim):
        return str(settled[0]), settled[1]
    if not tests and claim.isolation.kind is IsolationKind.MANUAL:
        return "by hand", claim.verify
    if not tests:
        return "no test" if whole else "not selected", claim.statement
    prospects = [plan.prospect_of(test, claims, run.facts, run.settings) for test in tests]
    return _of_tests(prospects, known)


def _of_tests(prospects: Sequence[Prospect], known: Prospect) -> tuple[str, str]:
    """Return the plan's state and text for a claim with tests, which applies to this cluster as far
    as ``known`` shows."""
    held = [prospect for prospect in prospects if prospect.verdict]
    running = len(prospects) - len(held)
    if not running:
        return str(held[0].verdict), f"{held[0].reason}; {held[0].remedy}"
    text = f"{running} of {len(prospects)} tests" if held else counted(running, "test")
    if known.look:
        text = f"{text}; it is about {'; '.join(known.assumed)}"
    others = f"; other tests cannot run: {held[0].reason}" if held else ""
    return AFTER_A_LOOK if known.look else "runs", f"{text}{others}"


class PlanOnly:
    """The hook of a ``--plan`` run: it prints the plan instead of running tests."""

    def __init__(self, state: State, *, whole: bool, short: Callable[[], Sequence[str]]) -> None:
        self.state = state
        self.whole = whole
        self.short = short

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        tests = [item.stash[PLANNED] for item in session.items]
        say(
            *plan_list(self.state.run, tests, whole=self.whole),
            "",
            *estimate_lines(self.state.run, tests),
            *(f"note: {line}" for line in self.short()),
        )
        return True
