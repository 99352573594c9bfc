"""``--plan`` and ``--list-claims``: what would run here and why, and what there is at all."""

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
from conformance.model.counted import counted
from conformance.model.facts import Facts
from conformance.plugin.judge import PLANNED
from conformance.plugin.state import State
from conformance.pods.placement import Placement
from conformance.run import plan
from conformance.run.estimate import Estimate, estimate, token_line
from conformance.run.limits import workers_for
from conformance.run.plan import PlannedTest
from conformance.run.run import Run
from conformance.verdicts.prospect import ClaimPart, applying


def claims_list(
    tests: Sequence[PlannedTest], wanted: Sequence[str], *, whole: bool = False
) -> Iterator[str]:
    """The catalog by area, with the number of tests of each claim; ``whole``: with all that it says of each."""
    claims = catalog()
    counted = coverage(
        claims.values(), [(part.claim, test.test) for test in tests for part in test.parts]
    )
    area = ""
    for claim in claims.values():
        if wanted and claim.id not in wanted:
            continue
        if claim.area != area:
            area = claim.area
            yield f"\n{area}"
        number = len(counted.tests.get(claim.id, ()))
        tested = (
            "by hand"
            if claim.id in counted.manual
            else f"{number} test{'' if number == 1 else 's'}"
        )
        modality = ", can happen" if claim.modality == "can happen" else ""
        yield f"  {claim.id:9} {tested:8} {claim.statement}"
        yield f"  {'':9} {'':8} {claim.kind}{modality}; {claim.isolation}; tags {', '.join(sorted(claim.tags))}"
        for part in _with_conditions(claim, tests):
            yield f"  {'':18} part {part.part}: only on clusters with {part.applies}"
        if wanted or whole:
            yield from (f"  {'':18} {source}: {source.url}" for source in claim.sources)
            told = {"checked so": claim.verify, "holds": claim.holds, "fails": claim.fails}
            yield from (f"  {'':18} {name}: {text}" for name, text in told.items() if text)
    yield ""
    yield str(counted)


def plan_list(run: Run, tests: Sequence[PlannedTest], *, whole: bool) -> Iterator[str]:
    """Every claim of the catalog against the facts."""
    assert run.facts is not None
    claims: Catalog = catalog()
    by_claim: dict[str, list[PlannedTest]] = {}
    for test in tests:
        for ident in dict.fromkeys(part.claim for part in test.parts):
            by_claim.setdefault(ident, []).append(test)
    area = ""
    for claim in claims.values():
        if claim.area != area:
            area = claim.area
            yield f"\n{area}"
        word, why = _prospect(claim, claims, run, by_claim.get(claim.id, []), whole=whole)
        yield f"  {claim.id:9} {word:14} {why}"
        yield from _parts_elsewhere(claim, by_claim.get(claim.id, []), run.facts)
    yield from _policies_of_others(run, tests)
    yield from _costs(run, tests)


def _policies_of_others(run: Run, tests: Sequence[PlannedTest]) -> Iterator[str]:
    """Which claims policies of others may take, and how to keep them from it."""
    assert run.facts is not None
    found = run.inspection.policies if run.inspection else None
    if found is None or not found.lines:
        return
    yield "\nPolicies of others"
    use = "pods" if found.closing else "policies"  # what only opens takes denials alone
    going = [
        test
        for test in tests
        if plan.prospect_of(test, catalog(), run.facts, run.settings).verdict is None
    ]
    claims = dict.fromkeys(part.claim for test in going if use in test.uses for part in test.parts)
    for told in filter(None, [found.closing, found.opening]):
        yield f"  {told}"
    if found.closing or found.opening:
        yield f"  may take {', '.join(claims) or 'no claim'}; to keep them: {found.exempt}"
    if found.unread:
        yield f"  could not be read: {found.unread}"


def _with_conditions(claim: Claim, tests: Sequence[PlannedTest]) -> list[ClaimPart]:
    """Parts of a claim that say something about some of its clusters only."""
    parts = (
        part
        for test in tests
        for part in test.parts
        if part.claim == claim.id and part.applies != ALL
    )
    return list(dict.fromkeys(parts))


def _parts_elsewhere(claim: Claim, tests: Sequence[PlannedTest], facts: Facts) -> Iterator[str]:
    """What is not decided of a claim that is about this cluster, since a part of it is not, or nobody can tell."""
    if not isinstance(applicability(claim, facts), Applies):
        return
    for part in _with_conditions(claim, tests):
        if settled := applying([part], catalog(), facts, looks=False).of(part):
            yield f"  {'':9} {settled[0]:14} part {part.part}: {settled[1]}"


def _costs(run: Run, tests: Sequence[PlannedTest]) -> Iterator[str]:
    """What tests that change the whole cluster cost others on it."""
    assert run.facts is not None
    runs = [
        planned_test
        for planned_test in tests
        if not plan.prospect_of(planned_test, catalog(), run.facts, run.settings).verdict
    ]
    exclusive = plan.assign_exclusivity(runs, catalog(), run.facts, run.settings)
    if run.inspection is None or not any(
        exclusivity.kind == "cluster" for exclusivity in exclusive
    ):
        return
    windows = [node.name for node in run.facts.by_os("windows")]
    yield "\nWhat this costs others"
    yield f"  each Windows node is drained, one after the other: {', '.join(windows)}"
    if len(windows) == 1:
        yield "  it is the only one: what runs on Windows waits for it meanwhile"
    for node, pods in run.inspection.third_party_pods.items():
        yield f"  node {node}: pods of DaemonSets lose their network, and are deleted and made anew: {', '.join(pods)}"


def estimate_lines(run: Run, tests: Sequence[PlannedTest]) -> list[str]:
    """What those of the tests that would run take, and whether the user's token lasts as long."""
    found = estimated(run, tests)
    assert run.inspection is not None
    short = token_line(run.inspection.token_ends, found.minutes(found.workers)[1], time.time())
    return [*found.lines(), *([f"note: {short}"] if short else [])]


def estimated(run: Run, tests: Sequence[PlannedTest]) -> Estimate:
    """What those of the tests that would run take, by ``-n auto``'s workers."""
    assert run.inspection is not None
    facts = run.inspection.facts
    settings = run.settings
    claims = catalog()
    placement = Placement(facts, settings.tolerations, cover=settings.cover)
    coverage = [*placement.coverage("linux"), *placement.coverage("windows")]
    number, _ = workers_for(
        settings.workers, coverage, run.inspection.room, prepared=run.inspection.prepared
    )
    going = [
        test for test in tests if plan.prospect_of(test, claims, facts, settings).verdict is None
    ]
    return estimate(going, coverage, number, settings.workers)


def _prospect(
    claim: Claim, claims: Catalog, run: Run, tests: Sequence[PlannedTest], *, whole: bool
) -> tuple[str, str]:
    assert run.facts is not None
    whole_claim = ClaimPart(claim=claim.id)
    if settled := applying([whole_claim], claims, run.facts, looks=False).of(whole_claim):
        return str(settled[0]), settled[1]
    if not tests:
        if claim.isolation.kind is IsolationKind.MANUAL:
            return "by hand", claim.verify
        return ("no test", claim.statement) if whole else ("not selected", claim.statement)
    prospects = [plan.prospect_of(test, claims, run.facts, run.settings) for test in tests]
    held = [prospect for prospect in prospects if prospect.verdict]
    if len(held) == len(prospects):
        return str(held[0].verdict), f"{held[0].reason}; {held[0].remedy}"
    count = (
        f"{len(prospects) - len(held)} of {len(prospects)} tests"
        if held
        else counted(len(prospects), "test")
    )
    rest = f"; not the others: {held[0].reason}" if held else ""
    return "runs", f"{count}{rest}"


class PlanOnly:
    """The hook of a ``--plan`` run: print in place of running tests."""

    def __init__(self, state: State, *, whole: bool, short: Callable[[], Sequence[str]]) -> None:
        self.state = state
        self.whole = whole
        self.short = short

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        tests = [item.stash[PLANNED] for item in session.items]
        for line in plan_list(self.state.run, tests, whole=self.whole):
            print(line)
        print(
            "",
            *estimate_lines(self.state.run, tests),
            *(f"note: {line}" for line in self.short()),
            sep="\n",
        )
        return True
