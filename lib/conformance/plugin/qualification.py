# SPDX-License-Identifier: Apache-2.0
"""The effect of ``--require``, ``--waivers``, ``--attest``, ``--fail-on`` and ``--baseline`` on a
report.

These options are read before the run touches anything, so that an expired waiver wastes no run.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from conformance.catalog import catalog
from conformance.errors import UsageProblem
from conformance.model.claim import ClaimResult, ClaimVerdict
from conformance.model.codec import to_plain
from conformance.model.facts import Facts
from conformance.qualify import attest, gate, waivers
from conformance.qualify.compare import Comparison, as_text, compare
from conformance.qualify.gate import GateResult
from conformance.qualify.sets import GateSet, sets
from conformance.qualify.stored import Report, read
from conformance.qualify.waivers import Waiver, waiver_for
from conformance.report.run import Gate, RunReport, SetAnswer
from conformance.report.summed_up import UNSELECTED
from conformance.verdicts.claims import ClaimOutcome, TestOutcome, exit_code
from conformance.verdicts.meaning import of_waived

QUALIFICATION = pytest.StashKey["Qualification"]()


def qualification(config: pytest.Config) -> Qualification:
    """Return the requirements of the options, which are read only once. Raise UsageProblem."""
    if QUALIFICATION not in config.stash:
        config.stash[QUALIFICATION] = Qualification.of(config)
    return config.stash[QUALIFICATION]


@dataclass(frozen=True, kw_only=True)
class Qualification:
    """The demands of the options on a report."""

    required: tuple[GateSet, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    attested: Mapping[str, attest.Attestation] = field(default_factory=dict)
    fail_on: frozenset[ClaimVerdict] = frozenset()
    baseline: Report | None = None
    accept_unverified: bool = False

    @classmethod
    def of(cls, config: pytest.Config) -> Qualification:
        """Read the options. Raise UsageProblem with a line for the user, before the run touches
        anything."""
        option = config.option
        today = datetime.datetime.now(datetime.UTC).date()
        return cls(
            required=sets().named(option.require) if option.require else (),
            waivers=waivers.load(Path(option.waivers), catalog(), today) if option.waivers else (),
            attested=attest.load(Path(option.attest), catalog(), today) if option.attest else {},
            fail_on=_verdicts(option.fail_on) if option.fail_on else frozenset(),
            baseline=read(Path(option.baseline)) if option.baseline else None,
            accept_unverified=option.accept_unverified_tls,
        )

    def answered(self, outcomes: Sequence[ClaimOutcome]) -> tuple[ClaimOutcome, ...]:
        """Return the claims, with attestations in place of "no program can decide it"."""
        return tuple(
            replace(outcome, verdict=attestation.answer, reason=str(attestation), remedy="")
            if (attestation := self.attested.get(outcome.claim.id)) and not outcome.results
            else outcome
            for outcome in outcomes
        )

    def apply(
        self, report: RunReport, pytest_status: int, *, by_user: bool
    ) -> tuple[RunReport, tuple[str, ...]]:
        """Return the report with its exit code, gates and waivers, and the lines of the comparison
        with the baseline."""
        report = replace(
            report,
            suite={**report.suite, "sets": sets().digest},
            waived=self._waived(report.claims),
            attested={**report.attested, **{key: str(a) for key, a in self.attested.items()}},
        )
        claims = _by_claim(report)
        answers = gate.judge(
            claims,
            tuple(sets().values()),
            self.waivers,
            catalog(),
            accept_unverified=self.accept_unverified,
        )
        gates = [each for of in self.required for each in answers if each.name == of.name]
        found = compare(self.baseline, claims, self.waivers) if self.baseline else None
        status = self._status(report.tests, pytest_status, by_user=by_user)
        causes = {**self._causes(report, gates, found), status: ""}
        code = next((code for code in GRAVEST_FIRST if code in causes), 0)
        unused = (f"waiver not used: {waiver}" for waiver in self._unused(report.claims, gates))
        report = replace(
            report,
            exit_code=code,
            exit_cause=causes[code] if code else "",
            notes=(*report.notes, *unused),
            gates=tuple(map(_reported, gates)),
            sets=tuple(map(_answer, answers)),
        )
        return report, tuple(as_text(found).splitlines()) if found else ()

    def _status(self, tests: Sequence[TestOutcome], pytest_status: int, *, by_user: bool) -> int:
        """Return the exit code of the tests; waived results do not count."""
        excused = [self._excused(test) for test in tests]
        open_verdicts = {ClaimVerdict.VIOLATED, ClaimVerdict.INCONCLUSIVE}
        is_settled = open_verdicts.isdisjoint(test.verdict for test in excused)
        if pytest_status == 1 and is_settled and excused != list(tests):
            pytest_status = 0
        return exit_code(excused, pytest_status, by_user=by_user)

    def _causes(
        self, report: RunReport, gates: Sequence[GateResult], found: Comparison | None
    ) -> dict[int, str]:
        """Map each exit code that options require to the first option that requires it. The text
        for 0 has no meaning."""
        against = [
            claim.claim.id
            for claim in report.claims
            if self._attested_against(claim, report.attested)
        ]
        short = dict.fromkeys(result.name for result in gates if result.answer != "qualified")
        failing = [claim.claim.id for claim in report.claims if self._fails(claim)]
        demands = [
            (1 if against else 0, f"--attest: {', '.join(against)} VIOLATED"),
            (gate.exit_code(gates), f"--require: {', '.join(short)} not fulfilled"),
            (1 if failing else 0, f"--fail-on: {', '.join(failing)}"),
        ]
        if found:
            demands.append((found.exit_code, f"--baseline: {found.cause}"))
        return dict(reversed(demands))

    def _unused(self, claims: Sequence[ClaimOutcome], gates: Sequence[GateResult]) -> list[Waiver]:
        """Return the waivers that accepted nothing, neither for a gate nor for a claim."""
        used = {
            id(waiver)
            for claim in claims
            for result in claim.results
            for waiver in self._waivers_of(result)
        }
        return [waiver for waiver in gate.unused(self.waivers, gates) if id(waiver) not in used]

    def out_of_reach(self, facts: Facts, claims: Sequence[ClaimOutcome]) -> list[str]:
        """Return a line for each required set that cannot be complete because some of its claims
        are not selected. ``claims``: their state before the first test."""
        plan = Report(run={}, facts=facts, claims={each.claim.id: each for each in claims})
        gone: dict[str, dict[str, None]] = {}
        for result in gate.judge(plan, self.required, (), catalog()):
            if ids := [each.claim for each in result.standing if each.found == UNSELECTED]:
                gone.setdefault(result.name, {}).update(dict.fromkeys(ids))
        return [
            f"--require {name} cannot be complete, not selected: {', '.join(ids)}"
            for name, ids in gone.items()
        ]

    def _waived(self, claims: Sequence[ClaimOutcome]) -> dict[str, str]:
        """Return the waiver of each claim whose verdict comes from waived results alone."""
        found = {}
        for claim in claims:
            guilty = [result for result in claim.results if result.verdict is claim.verdict]
            accepted = [waiver for result in guilty for waiver in self._waivers_of(result)]
            if guilty and all(accepted):
                found[claim.claim.id] = str(accepted[0])
        return found

    def _attested_against(self, outcome: ClaimOutcome, attested: Mapping[str, str]) -> bool:
        """Return whether a person attests that a claim is violated, and no waiver accepts it."""
        if (
            outcome.results
            or outcome.claim.id not in attested
            or outcome.verdict is not ClaimVerdict.VIOLATED
        ):
            return False
        return waiver_for(self.waivers, outcome.claim.id, outcome.verdict) is None

    def _fails(self, outcome: ClaimOutcome) -> bool:
        """Return whether a claim has an unwaived verdict of ``--fail-on``, even if only on a single
        build."""
        if not outcome.results:
            return (
                outcome.verdict in self.fail_on
                and waiver_for(self.waivers, outcome.claim.id, outcome.verdict) is None
            )
        return any(
            not all(self._waivers_of(replace(result, verdict=verdict)))
            for result in outcome.results
            for verdict in {result.verdict, *(each.verdict for each in result.decisions)}
            & self.fail_on
        )

    def _excused(self, test: TestOutcome) -> TestOutcome:
        """Return a test in the form that counts for the exit code: without its violations if all of
        them are waived."""
        guilty = [result for result in test.results if result.verdict is ClaimVerdict.VIOLATED]
        if (
            test.verdict is ClaimVerdict.VIOLATED
            and guilty
            and all(all(self._waivers_of(result)) for result in guilty)
        ):
            beside = {result.verdict for result in test.results} | {
                each.verdict for result in guilty for each in result.decisions
            }
            return replace(test, verdict=of_waived(beside))
        return test

    def _waivers_of(self, result: ClaimResult) -> list[Waiver | None]:
        """Return the waiver (or None) for each place where a result's verdict was decided."""
        builds = [
            build
            for decision in result.decisions
            if decision.verdict is result.verdict
            for build in (decision.about or ("",))
        ] or [""]
        return [
            waiver_for(self.waivers, result.claim, result.verdict, part=result.part, build=build)
            for build in builds
        ]


GRAVEST_FIRST = (3, 4, 2, 1, 6, 7, 5)
"""Exit codes in order of precedence: first codes that only pytest can return, then 1, then 6, then
the remaining codes."""


def _by_claim(report: RunReport) -> Report:
    """Return the part of a report that gates and comparisons read, without its JSON form."""
    return Report(
        run={
            "id": report.run_id,
            "started": report.started,
            "evidence": report.evidence,
            "cut_short": report.cut_short,
            "selection": report.selection,
            "unverified": report.unverified,
        },
        facts=report.facts,
        claims={outcome.claim.id: outcome for outcome in report.claims},
        statistics=to_plain(report.statistics),
        installed=to_plain(report.installed),
        suite=report.suite,
    )


def _answer(result: GateResult) -> SetAnswer:
    return SetAnswer(
        name=result.name, build=result.build, answer=result.word, headline=result.headline
    )


def _reported(result: GateResult) -> Gate:
    return Gate(
        name=result.name,
        build=result.build,
        answer=result.word,
        headline=result.headline,
        obstacles=tuple(map(str, result.standing)),
        waived=tuple(str(each) for each in result.obstacles if each.waiver),
    )


def _verdicts(text: str) -> frozenset[ClaimVerdict]:
    known = {str(verdict): verdict for verdict in ClaimVerdict}
    words = [word.strip().upper() for word in text.split(",") if word.strip()]
    if [word for word in words if word not in known] or not words:
        raise UsageProblem(f"--fail-on {text}: expected verdicts from {', '.join(known)}")
    return frozenset(known[word] for word in words)
