# SPDX-License-Identifier: Apache-2.0
"""A test that ran more than once (pytest-rerunfailures): its worst attempt counts. If the attempts
disagree, the test is FLAKY.

A second attempt never hides an observation: a path that is closed every other time does not count
as open.
"""

from collections.abc import Sequence
from dataclasses import replace

from conformance.model.claim import ClaimResult, ClaimVerdict
from conformance.model.counted import counted
from conformance.model.decision import UNANSWERED
from conformance.verdicts.claims import TestOutcome, worst
from conformance.verdicts.prospect import ClaimPart, Prospect, not_run

FLAKY = "FLAKY"
"""The word by which outputs mark a test whose attempts disagree."""


def unanswered(tests: Sequence[TestOutcome]) -> str:
    """Return a note about paths that are CONFIRMED after unanswered attempts; empty: there are no
    such paths."""
    found = [
        f"{result.claim}, {decision.source} -> {decision.target}"
        for test in tests
        for result in test.results
        for decision in result.decisions
        if decision.verdict is ClaimVerdict.CONFIRMED and UNANSWERED in decision.reason
    ]
    if not found:
        return ""
    paths = counted(len(found), "CONFIRMED path")
    return (
        f"{paths} lost attempts after the first connection, the first {found[0]}: "
        "packets are lost now and then"
    )


def merged(attempts: Sequence[TestOutcome]) -> TestOutcome:
    """Return one outcome of all attempts at a test, oldest first."""
    if len(attempts) == 1:
        return attempts[0]
    verdict = worst({attempt.verdict for attempt in attempts})
    speaker = next(attempt for attempt in attempts if attempt.verdict is verdict)
    verdicts = tuple(str(attempt.verdict) for attempt in attempts)
    prefix = f"{FLAKY} ({', '.join(verdicts)}): " if len(set(verdicts)) > 1 else ""
    results = [
        _worst(each, prefix)
        for each in zip(*(attempt.results for attempt in attempts), strict=True)
    ]
    return replace(
        speaker,
        reason=f"{prefix}{speaker.reason}",
        results=tuple(results),
        seconds=sum(attempt.seconds for attempt in attempts),
        worker=attempts[-1].worker,
        touched=tuple(sorted({os for attempt in attempts for os in attempt.touched})),
        attempts=verdicts,
    )


def silenced(
    test: str, parts: Sequence[ClaimPart], evidence: str, *, crash: str, ended: str
) -> TestOutcome:
    """Return the outcome of a planned test without a report of its end.

    ``crash``: how its worker died; empty: no worker died, and ``ended`` is the reason.
    """
    verdict = ClaimVerdict.INCONCLUSIVE if crash else ClaimVerdict.NOT_RUN
    prospect = Prospect(
        verdict=verdict, reason=crash or ended, remedy="" if crash else "run it again"
    )
    return TestOutcome(
        test=test,
        verdict=verdict,
        reason=prospect.reason,
        remedy=prospect.remedy,
        results=not_run(test, parts, prospect, evidence),
        ran=bool(crash),
    )


def of_planned(
    outcome: TestOutcome | None, silent: TestOutcome, before: TestOutcome | None
) -> TestOutcome:
    """Return the outcome that counts for a planned test.

    ``outcome``: the reported outcome; None: nothing was reported. ``silent``: the outcome for a
    test without a report (:func:`silenced`); after a crash it also counts if the test was run again
    and then reported. ``before``: the outcome from before the test's worker died.
    """
    if outcome:
        return merged([*([before] if before else []), silent, outcome]) if silent.ran else outcome
    return before if before and before.verdict is ClaimVerdict.VIOLATED else silent


def _worst(results: Sequence[ClaimResult], prefix: str) -> ClaimResult:
    verdict = worst({result.verdict for result in results})
    speaker = next(result for result in results if result.verdict is verdict)
    differ = any(result.verdict is not verdict for result in results)
    return replace(speaker, reason=f"{prefix}{speaker.reason}") if differ else speaker
