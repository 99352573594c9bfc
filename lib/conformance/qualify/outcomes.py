# SPDX-License-Identifier: Apache-2.0
"""The tests of stored reports with their results, and the combined results of several runs."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from conformance.catalog import catalog
from conformance.model.claim import ClaimResult, ClaimVerdict
from conformance.model.codec import from_plain
from conformance.model.explanation import Explanation
from conformance.model.images import RanImage
from conformance.model.verdict import ClaimKind
from conformance.qualify import again
from conformance.qualify.stored import Report
from conformance.verdicts.acceptable import UNDECIDED
from conformance.verdicts.claims import ClaimOutcome, TestOutcome, worst

TOLD = (
    "test",
    "verdict",
    "reason",
    "remedy",
    "seconds",
    "started",
    "waited",
    "exclusive",
    "attempts",
    "worker",
    "ran",
    "figures",
    "cause",
)
"""The fields that a test's outcome takes from a report; older reports lack some of these fields."""


def tests(report: Report) -> list[TestOutcome]:
    """Return the outcomes of a report's tests."""
    return [_outcome(report, plain) for plain in report.plain["tests"]]


def together(before: Sequence[TestOutcome], now: Sequence[TestOutcome]) -> tuple[TestOutcome, ...]:
    """Return all tests of an earlier and a later run, with the merged results of both runs."""
    kinds = {claim.id: claim.kind for claim in catalog().values()}
    later = {outcome.test: outcome for outcome in now}
    known = {outcome.test for outcome in before}
    both = [
        _together(outcome, later[outcome.test], kinds) if outcome.test in later else outcome
        for outcome in before
    ]
    return (*both, *(outcome for outcome in now if outcome.test not in known))


def images(report: Report) -> tuple[RanImage, ...]:
    """Return the images that the pods of a report's run used."""
    plain: Sequence[Mapping[str, Any]] = report.plain.get("images") or []
    known = {field.name for field in fields(RanImage)}
    return tuple(
        from_plain(RanImage, {name: value for name, value in item.items() if name in known})
        for item in plain
    )


def attested(report: Report) -> Mapping[str, str]:
    """Return the attestations of a report, by claim."""
    return {
        str(claim): str(attestation)
        for claim, attestation in (report.plain.get("attested") or {}).items()
    }


def answered(claims: Sequence[ClaimOutcome], report: Report) -> tuple[ClaimOutcome, ...]:
    """Return the claims with a report's attestations. An attestation replaces the verdict of a
    claim that no test decided."""
    given = attested(report)
    return tuple(
        replace(
            outcome,
            verdict=report.claims[outcome.claim.id].verdict,
            reason=given[outcome.claim.id],
            remedy="",
        )
        if given.get(outcome.claim.id) and not outcome.results
        else outcome
        for outcome in claims
    )


def dates(report: Report) -> Mapping[str, str]:
    """Map each claim with evidence from tests or a person to the date of its evidence."""
    run = str(report.run["started"])[:10]
    answered = attested(report)
    return {
        str(claim["id"]): str(evidence.get("date") or run)
        for claim in report.plain["claims"]
        if (claim["results"] or claim["id"] in answered)
        and (evidence := claim.get("evidence") or {"date": run})
    }


def _outcome(report: Report, plain: Mapping[str, Any]) -> TestOutcome:
    kept = {name: plain[name] for name in TOLD if plain.get(name) is not None}
    results = again.results_of(report, plain["test"])
    explanation = _explanation(plain.get("explanation"))
    return replace(from_plain(TestOutcome, kept), results=results, explanation=explanation)


def _explanation(plain: Mapping[str, Any] | None) -> Explanation | None:
    """Return a report's explanation with a newly made first line."""
    return (
        from_plain(Explanation, {name: plain[name] for name in plain if name != "headline"})
        if plain
        else None
    )


def _together(before: TestOutcome, now: TestOutcome, kinds: Mapping[str, ClaimKind]) -> TestOutcome:
    if not now.ran:
        return before
    results = again.merged(before.results, now.results, kinds)
    verdict = again.together(before.verdict, now.verdict, ClaimKind.CAPABILITY)
    if results:
        verdict = worst({result.verdict for result in results})
    speaker: ClaimResult | TestOutcome = next(
        (result for result in results if result.verdict is verdict), now
    )
    attempts = [
        *(before.attempts or (str(before.verdict),)),
        *(now.attempts or (str(now.verdict),)),
    ]
    decided = tuple(item for item in attempts if ClaimVerdict(item) not in UNDECIDED)
    return replace(
        now,
        verdict=verdict,
        reason=speaker.reason if verdict is not ClaimVerdict.CONFIRMED else now.reason,
        remedy=speaker.remedy,
        results=results,
        seconds=before.seconds + now.seconds,
        attempts=decided if len(decided) > 1 else (),
        figures=now.figures if now.figures.tries or now.figures.effects else before.figures,
    )
