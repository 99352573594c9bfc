"""A test that was tried several times (pytest-rerunfailures): the worst attempt counts, and the test is FLAKY.

Trying again never whitens what was seen: a path that is closed every other time is no path.
"""

from collections.abc import Sequence
from dataclasses import replace

from conformance.model.claim import ClaimResult
from conformance.verdicts.claims import TestOutcome, worst

FLAKY = "FLAKY"
"""How outputs mark such a test."""


def merged(attempts: Sequence[TestOutcome]) -> TestOutcome:
    """One outcome of all attempts at a test, oldest first."""
    if len(attempts) == 1:
        return attempts[0]
    verdict = worst({attempt.verdict for attempt in attempts})
    speaker = next(attempt for attempt in attempts if attempt.verdict is verdict)
    verdicts = tuple(str(attempt.verdict) for attempt in attempts)
    prefix = f"{FLAKY} ({', '.join(verdicts)}): " if len(set(verdicts)) > 1 else ""
    results = [_worst(each, prefix) for each in zip(*(attempt.results for attempt in attempts), strict=True)]
    return replace(
        speaker,
        reason=f"{prefix}{speaker.reason}",
        results=tuple(results),
        seconds=sum(attempt.seconds for attempt in attempts),
        worker=attempts[-1].worker,
        touched=tuple(sorted({os for attempt in attempts for os in attempt.touched})),
        attempts=verdicts,
    )


def _worst(results: Sequence[ClaimResult], prefix: str) -> ClaimResult:
    verdict = worst({result.verdict for result in results})
    speaker = next(result for result in results if result.verdict is verdict)
    differ = any(result.verdict is not verdict for result in results)
    return replace(speaker, reason=f"{prefix}{speaker.reason}") if differ else speaker
