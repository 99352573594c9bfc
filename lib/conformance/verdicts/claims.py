# SPDX-License-Identifier: Apache-2.0
"""The verdict of each claim, from the outcomes of tests."""

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from conformance.catalog import (
    Applicability,
    Claim,
    IsolationKind,
    Modality,
    NotApplicable,
    applicability,
)
from conformance.catalog.known_issues import KnownIssue, known_issues
from conformance.errors import NotObservable
from conformance.model.by_key import by_key
from conformance.model.claim import (
    ACTIVE_HALF,
    PRECEDENCE,
    UNDERLAY,
    ClaimKind,
    ClaimResult,
    ClaimVerdict,
    precedence,
)
from conformance.model.decision import Decision
from conformance.model.explanation import Explanation
from conformance.model.facts import Facts
from conformance.model.figures import Figures
from conformance.verdicts.acceptable import UNDECIDED, about_the_cluster
from conformance.verdicts.decisions import by_build, over_builds

SEEN = {"open": "reached", "closed": "silently dropped", "behaviour": "as expected", "read": "read"}
"""The words that reports use for each kind of observation behind a confirmed decision."""
NO_TEST = "there is no test for it yet"
BY_HAND = "no program can decide it"
NOT_OBSERVABLE = NotObservable.BEGINS


@dataclass(frozen=True, kw_only=True)
class TestOutcome:
    """The outcome of a test, with its results for claims."""

    __test__ = False  # not a test class, whatever pytest thinks of its name

    test: str
    verdict: ClaimVerdict
    reason: str = ""
    remedy: str = ""
    results: tuple[ClaimResult, ...] = ()
    started: str = ""
    """The start of the test, UTC, RFC 3339; empty: not known."""
    seconds: float = 0.0
    waited: float = 0.0
    """Seconds that the test waited for its turn; this is not part of its duration."""
    exclusive: str = ""
    """The resource that the test had to itself: ``node NAME`` or ``cluster``; empty: none."""
    attempts: tuple[str, ...] = ()
    """Verdicts of the test's attempts, oldest first, if there was more than one attempt."""
    worker: str = ""
    touched: tuple[str, ...] = ()
    """Operating systems of the pods that the test used."""
    needs_windows: bool = False
    ran: bool = True
    """False if the test was planned, but nothing was reported about it."""
    figures: Figures = field(default_factory=Figures)
    explanation: Explanation | None = None
    """The explanation of the test's failure, if an expectation about an attempt failed."""
    cause: str = ""
    """The cause of the test's failure, in words shared with other failures of the same cause;
    empty: not known."""

    @property
    def flaky(self) -> bool:
        """Return whether the test's attempts disagree."""
        return len(set(self.attempts)) > 1


@dataclass(frozen=True, kw_only=True)
class ClaimOutcome:
    """The verdict of a claim in a report: the source of gates, comparisons and every output."""

    claim: Claim
    verdict: ClaimVerdict | None
    """The verdict; None: the claim was not selected."""
    reason: str
    remedy: str = ""
    decided: tuple[str, ...] = ()
    """Parts with a verdict; empty unless other parts have no verdict."""
    missing: tuple[str, ...] = ()
    """Parts without a verdict."""
    builds: Mapping[str, ClaimVerdict] = field(default_factory=dict)
    """The verdict on each Windows build, in order of the builds' names; empty: nothing was decided
    on any build."""
    results: tuple[ClaimResult, ...] = field(default=())
    known: tuple[KnownIssue, ...] = ()
    """Known issues that may explain why the claim is VIOLATED (:func:`explained`)."""
    applies: Applicability | None = None
    """The claim's applicability to the cluster; None: no cluster is known, or the claim was read
    from a stored report."""
    seconds: float = 0.0
    """The duration, in seconds, of all tests of the claim."""
    flaky: bool = False
    """True if the attempts of at least one test of the claim disagree."""
    share: str = ""
    """How much of the claim a quick run decides, ``in 2 of 14 parts``; empty: all of it, or the run
    was not quick."""

    @property
    def decisions(self) -> tuple[Decision, ...]:
        return tuple(decision for result in self.results for decision in result.decisions)

    @property
    def inapplicable_parts(self) -> dict[str, str]:
        """Map parts of an applicable claim to the reason why the part does not apply to this
        cluster.
        """
        if isinstance(self.applies, NotApplicable | None):
            return {}
        return {
            result.part: result.reason
            for result in self.results
            if result.part and result.verdict is ClaimVerdict.NOT_APPLICABLE
        }

    @property
    def opens(self) -> bool:
        """Return whether the claim is VIOLATED, and traffic passes that a policy should close."""
        return self.verdict is ClaimVerdict.VIOLATED and any(
            decision.opens for decision in self.decisions
        )

    @property
    def word(self) -> str:
        """Return the verdict, or ``not selected``."""
        return str(self.verdict) if self.verdict else "not selected"

    @property
    def on_builds(self) -> str:
        """Return ``on 17763, 20348``, or ``VIOLATED on 17763, CONFIRMED on 20348``; empty: the
        verdict belongs to no build."""
        return on_builds(self.claim.kind, self.verdict, self.builds)


def on_builds(
    kind: ClaimKind, verdict: ClaimVerdict | None, builds: Mapping[str, ClaimVerdict]
) -> str:
    """Return the text of :attr:`ClaimOutcome.on_builds` for a claim of a given kind."""
    found = by_key((verdict, build) for build, verdict in builds.items())
    if verdict not in found:  # the verdict is about a test as a whole
        return ""
    if list(found) == [verdict]:
        return f"on {', '.join(builds)}"
    order = sorted(found, key=precedence(kind).index)
    return ", ".join(f"{verdict} on {', '.join(found[verdict])}" for verdict in order)


def worst(verdicts: Collection[ClaimVerdict]) -> ClaimVerdict:
    """Return the verdict with the highest precedence."""
    return next(verdict for verdict in PRECEDENCE if verdict in verdicts)


def claim_outcomes(
    claims: Mapping[str, Claim], facts: Facts | None, tests: Sequence[TestOutcome], *, whole: bool
) -> tuple[ClaimOutcome, ...]:
    """Return one outcome per claim of the catalog. ``whole``: no option narrowed the selection, so
    a claim without results has no test."""
    by_claim = by_key(
        (ident, test)
        for test in tests
        for ident in dict.fromkeys(result.claim for result in test.results)
    )
    outcomes = []
    for claim in claims.values():
        mine = by_claim.get(claim.id, [])
        results = [result for test in mine for result in test.results if result.claim == claim.id]
        applies = applicability(claim, facts) if facts else None
        found = _decided(claim, results) if results else _untested(claim, applies, whole=whole)
        outcomes.append(
            replace(
                found,
                known=explained(found.results, facts),
                applies=applies,
                seconds=sum(test.seconds for test in mine),
                flaky=any(test.flaky for test in mine),
            )
        )
    return tuple(outcomes)


def explained(results: Sequence[ClaimResult], facts: Facts | None) -> tuple[KnownIssue, ...]:
    """Return known issues that may explain a VIOLATED claim. If one of its VIOLATED decisions
    matches no known issue, return none."""
    wrong = [
        [
            (each, result.reason)
            for each in result.decisions
            if each.verdict is ClaimVerdict.VIOLATED
        ]
        for result in results
        if result.verdict is ClaimVerdict.VIOLATED
    ]
    if facts is None or not all(wrong):
        return ()
    each = [
        [issue for issue in known_issues() if issue.fits(decision, facts, text)]
        for decision, text in itertools.chain.from_iterable(wrong)
    ]
    fitting = list(itertools.chain.from_iterable(each)) if all(each) else []
    return tuple(issue for issue in known_issues() if issue in fitting)


def _decided(claim: Claim, results: Sequence[ClaimResult]) -> ClaimOutcome:
    if passive := _passive_half(claim, results):
        results = (*results, passive)
    builds = by_build(
        [decision for each in results for decision in each.decisions if decides(decision, claim)]
    )
    verdict = over_builds({result.verdict for result in results}, builds)
    speaker = next((result for result in results if result.verdict is verdict), results[0])
    missing = _parts(result for result in results if result.verdict in UNDECIDED)
    closed = _parts(result for result in results if about_the_cluster(result.verdict))
    decided = tuple(part for part in closed if part not in missing)
    return ClaimOutcome(
        claim=claim,
        verdict=verdict,
        reason=speaker.reason,
        remedy=speaker.remedy,
        decided=decided if missing else (),
        missing=missing,
        builds=builds,
        results=tuple(results),
    )


def _parts(results: Iterable[ClaimResult]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(result.part for result in results if result.part))


def decides(decision: Decision, claim: Claim) -> bool:
    """Return whether a decision counts for the claim. For a claim that something can happen, only a
    decision in which it happened is CONFIRMED."""
    shown = decision.verdict is not ClaimVerdict.CONFIRMED or "behaviour" in decision.halves
    return shown or claim.modality is not Modality.CAN_HAPPEN


def _passive_half(claim: Claim, results: Sequence[ClaimResult]) -> ClaimResult | None:
    """Return a NOT_RUN result if a limitation was only read and never tried; None: nothing is
    missing.

    For a claim of another kind, reading is enough to decide it. The fact that nothing was tried is
    still reported (:func:`half`).
    """
    read = all("read" in decision.halves for result in results for decision in result.decisions)
    if claim.kind is not ClaimKind.LIMITATION or not read or not half(claim, results):
        return None
    return ClaimResult(
        claim=claim.id,
        verdict=ClaimVerdict.NOT_RUN,
        test="",
        part=ACTIVE_HALF,
        reason=half(claim, results),
        remedy=claim.verify,
        active=True,
        evidence=results[0].evidence,
    )


def half(claim: Claim, results: Sequence[ClaimResult]) -> str:
    """Return why no test decided a claim's active half, which changes something. Return an empty
    string if a test decided it, or if the claim has no such half."""
    decided = [result for result in results if about_the_cluster(result.verdict)]
    if claim.active is None or not decided or any(result.active for result in decided):
        return ""
    if tried := next(
        (result for result in results if result.active and result.part != ACTIVE_HALF), None
    ):
        return f"it was only read, not tested by a change: {tried.reason}"
    return f"it was only read, not tested by a change: {NO_TEST}"


def underlay(measured: Iterable[Mapping[str, object]]) -> str:
    """Return the underlay subnets of a claim's tests, each once; empty: none is recorded."""
    return "; ".join(
        dict.fromkeys(str(figures[UNDERLAY]) for figures in measured if UNDERLAY in figures)
    )


def _untested(claim: Claim, applies: Applicability | None, *, whole: bool) -> ClaimOutcome:
    if not whole:
        return ClaimOutcome(claim=claim, verdict=None, reason="the selection leaves it out")
    if isinstance(applies, NotApplicable):
        return ClaimOutcome(claim=claim, verdict=ClaimVerdict.NOT_APPLICABLE, reason=str(applies))
    if claim.isolation.kind is IsolationKind.MANUAL:
        return ClaimOutcome(
            claim=claim, verdict=ClaimVerdict.NOT_RUN, reason=BY_HAND, remedy=claim.verify
        )
    return ClaimOutcome(
        claim=claim, verdict=ClaimVerdict.NOT_RUN, reason=NO_TEST, remedy="write a test"
    )


def exit_code(tests: Sequence[TestOutcome], pytest_status: int, *, by_user: bool = False) -> int:
    """Return the run's exit code (0 to 7) from its tests and pytest's own status.

    The codes 3 and 4 are pytest's own; 7 means that the machine lacks a resource. A violated claim
    has precedence over everything except an interruption by the user (``by_user``: pytest's status
    2 is due to Ctrl-C, and not to -x under xdist).
    """
    if pytest_status in (3, 4) or (pytest_status == 2 and by_user):
        return pytest_status
    verdicts = {test.verdict for test in tests}
    if ClaimVerdict.VIOLATED in verdicts:
        return 1
    if pytest_status != 7 and (ClaimVerdict.INCONCLUSIVE in verdicts or pytest_status == 1):
        return 6
    if pytest_status != 0:
        return pytest_status
    if windows_missed(tests):
        return 7
    return 2 if any(not test.ran for test in tests) else 0


def windows_missed(tests: Sequence[TestOutcome]) -> str:
    """Return why a selection of Windows tests decides nothing about Windows; empty if it decides
    something, or if no such test was selected.
    """
    wanted = [test for test in tests if test.needs_windows]
    if not wanted:
        return ""
    applicable = [test for test in wanted if test.verdict is not ClaimVerdict.NOT_APPLICABLE]
    if applicable and all(test.verdict is ClaimVerdict.NOT_RUN for test in applicable):
        return f"no test that needs a Windows node ran ({len(applicable)} selected): {applicable[0].reason}"
    used_pods = [test for test in wanted if test.touched]
    if used_pods and not any("windows" in test.touched for test in used_pods):
        return f"no test that needs a Windows node used a pod on one ({len(used_pods)} ran)"
    return ""
