"""What ``--require``, ``--waivers``, ``--attest``, ``--fail-on`` and ``--baseline`` make of a finished report.

They are read before anything is touched, so that a waiver that has expired costs nobody a run.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from conformance.catalog import catalog
from conformance.errors import UsageProblem
from conformance.model.claim import ClaimResult, ClaimVerdict
from conformance.model.facts import Facts
from conformance.qualify import attest, gate, waivers
from conformance.qualify.compare import as_text, compare
from conformance.qualify.sets import GateSet, sets
from conformance.qualify.stored import StoredReport, parse, read
from conformance.qualify.waivers import Waiver, waiver_for
from conformance.report.run import Gate, RunReport, to_json
from conformance.report.summed_up import UNSELECTED
from conformance.verdicts.claims import ClaimOutcome, TestOutcome, exit_code
from conformance.verdicts.meaning import of_waived

QUALIFICATION = pytest.StashKey["Qualification"]()


def qualification(config: pytest.Config) -> Qualification:
    """What the options demand, read once.  Raises UsageProblem."""
    if QUALIFICATION not in config.stash:
        config.stash[QUALIFICATION] = Qualification.of(config)
    return config.stash[QUALIFICATION]


@dataclass(frozen=True, kw_only=True)
class Qualification:
    """What the options demand of a report."""

    required: tuple[GateSet, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    attested: Mapping[str, attest.Attestation] = field(default_factory=dict)
    fail_on: frozenset[ClaimVerdict] = frozenset()
    baseline: StoredReport | None = None

    @classmethod
    def of(cls, config: pytest.Config) -> Qualification:
        """From the options.  Raises UsageProblem: one line, before anything is touched."""
        option = config.option
        today = datetime.datetime.now(datetime.UTC).date()
        return cls(
            required=sets().named(option.require) if option.require else (),
            waivers=waivers.load(Path(option.waivers), catalog(), today) if option.waivers else (),
            attested=attest.load(Path(option.attest), catalog(), today) if option.attest else {},
            fail_on=_verdicts(option.fail_on) if option.fail_on else frozenset(),
            baseline=read(Path(option.baseline)) if option.baseline else None,
        )

    def answered(self, outcomes: Sequence[ClaimOutcome]) -> tuple[ClaimOutcome, ...]:
        """The claims, with what a person attested in the place of "no program can decide it"."""
        return tuple(
            replace(outcome, verdict=said.answer, reason=str(said), remedy="")
            if (said := self.attested.get(outcome.claim.id)) and not outcome.results
            else outcome
            for outcome in outcomes
        )

    def apply(
        self, report: RunReport, pytest_status: int, *, by_user: bool
    ) -> tuple[RunReport, tuple[str, ...]]:
        """The report with its exit code, gates and waivers; and lines about the baseline."""
        report = replace(report, suite={**report.suite, "sets": sets().digest})
        tests = [self._excused(test) for test in report.tests]
        excused = [one for one, test in zip(tests, report.tests, strict=True) if one is not test]
        remaining = {outcome.verdict for outcome in tests} & {
            ClaimVerdict.VIOLATED,
            ClaimVerdict.INCONCLUSIVE,
        }
        status = 0 if pytest_status == 1 and excused and not remaining else pytest_status
        causes = {exit_code(tests, status, by_user=by_user): ""}
        waived = self._waived(report.claims)
        attested = {
            **report.attested,
            **{claim: str(said) for claim, said in self.attested.items()},
        }
        if against := [
            claim.claim.id for claim in report.claims if self._attested_against(claim, attested)
        ]:
            causes.setdefault(1, f"--attest: {', '.join(against)} VIOLATED")
        stored = parse(to_json(report), "this run")
        gates = gate.judge(stored, self.required, self.waivers, catalog())
        short = dict.fromkeys(
            result.name for result in gates if result.answer in ("not qualified", "incomplete")
        )
        causes.setdefault(gate.exit_code(gates), f"--require: {', '.join(short)} not fulfilled")
        if failing := [claim.claim.id for claim in report.claims if self._fails(claim)]:
            causes.setdefault(1, f"--fail-on: {', '.join(failing)}")
        lines: tuple[str, ...] = ()
        if self.baseline:
            found = compare(self.baseline, stored, self.waivers)
            causes.setdefault(found.exit_code, f"--baseline: {found.cause}")
            lines = tuple(as_text(found).splitlines())
        used = {id(waiver) for waiver in self.waivers} - {
            id(waiver) for waiver in gate.unused(self.waivers, gates)
        }
        used |= {
            id(waiver)
            for claim in report.claims
            for result in claim.results
            for waiver in self._waivers_of(result)
        }
        notes = (
            *report.notes,
            *(f"waiver not used: {waiver}" for waiver in self.waivers if id(waiver) not in used),
        )
        return (
            replace(
                report,
                exit_code=_first(causes),
                exit_cause=causes.get(_first(causes), "") if _first(causes) else "",
                waived=waived,
                attested=attested,
                notes=notes,
                gates=tuple(
                    Gate(
                        name=result.name,
                        build=result.build,
                        answer=result.word,
                        headline=result.headline,
                        obstacles=tuple(map(str, result.standing)),
                        waived=tuple(str(each) for each in result.obstacles if each.waiver),
                    )
                    for result in gates
                ),
            ),
            lines,
        )

    def out_of_reach(self, facts: Facts, claims: Sequence[ClaimOutcome]) -> list[str]:
        """A line for each required set of which the selection leaves claims out; ``claims``: before a test has run."""
        plan = RunReport(
            run_id="",
            started="",
            seconds=0,
            exit_code=0,
            command="",
            cluster={},
            facts=facts,
            tests=(),
            claims=tuple(claims),
        )
        gone: dict[str, dict[str, None]] = {}
        for result in gate.judge(parse(to_json(plan), "the plan"), self.required, (), catalog()):
            if ids := [each.claim for each in result.standing if each.found == UNSELECTED]:
                gone.setdefault(result.name, {}).update(dict.fromkeys(ids))
        return [
            f"--require {name} cannot be complete, not selected: {', '.join(ids)}"
            for name, ids in gone.items()
        ]

    def _waived(self, claims: Sequence[ClaimOutcome]) -> dict[str, str]:
        """Claims whose verdict comes from results that are all waived."""
        found = {}
        for claim in claims:
            guilty = [result for result in claim.results if result.verdict is claim.verdict]
            accepted = [waiver for result in guilty for waiver in self._waivers_of(result)]
            if guilty and all(accepted):
                found[claim.claim.id] = str(accepted[0])
        return found

    def _attested_against(self, outcome: ClaimOutcome, attested: Mapping[str, str]) -> bool:
        """Whether a person says that a claim is violated, and no waiver accepts it."""
        if (
            outcome.results
            or outcome.claim.id not in attested
            or outcome.verdict is not ClaimVerdict.VIOLATED
        ):
            return False
        return waiver_for(self.waivers, outcome.claim.id, outcome.verdict) is None

    def _fails(self, outcome: ClaimOutcome) -> bool:
        """Whether a claim has a verdict of ``--fail-on`` somewhere, on one build only included, that is not waived."""
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
        """A test as the exit code counts it: what is waived is left out, and hides nothing beside it."""
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
        """For each place where a result's verdict was decided the waiver that accepts it there, or None."""
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


def _first(codes: Collection[int]) -> int:
    """The exit code that counts: what pytest alone can say, then 1, then 6, then the others."""
    for code in (3, 4, 2, 1, 6, 7, 5):
        if code in codes:
            return code
    return 0


def _verdicts(text: str) -> frozenset[ClaimVerdict]:
    known = {str(verdict): verdict for verdict in ClaimVerdict}
    words = [word.strip().upper() for word in text.split(",") if word.strip()]
    strange = [word for word in words if word not in known]
    if strange or not words:
        raise UsageProblem(f"--fail-on {text}: expected verdicts, of {', '.join(known)}")
    return frozenset(known[word] for word in words)
