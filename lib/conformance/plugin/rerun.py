# SPDX-License-Identifier: Apache-2.0
"""``--rerun-of REPORT``: runs again what an earlier run left open or found wrong, and reports on both together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest

from conformance.catalog import catalog, digest
from conformance.errors import UsageProblem
from conformance.model.claim import ClaimResult, ClaimVerdict
from conformance.model.codec import from_plain
from conformance.model.explanation import Explanation
from conformance.model.facts import Facts
from conformance.model.images import RanImage, together
from conformance.model.installed import Installed
from conformance.model.verdict import ClaimKind
from conformance.qualify import again
from conformance.qualify.stored import Report, read
from conformance.report.run import Continued, RunReport
from conformance.verdicts.acceptable import UNDECIDED
from conformance.verdicts.claims import ClaimOutcome, TestOutcome, worst

TOLD = (
    "test", "verdict", "reason", "remedy", "seconds", "waited", "exclusive", "attempts", "worker", "ran", "figures",
    "cause",
)  # fmt: skip
"""What a report has of a test as its outcome has it; older ones have not all of it."""
REMEDY = (
    "name the cluster of that report (--kubeconfig, --context); a run's own lab ends with the run"
)


@dataclass(frozen=True, kw_only=True)
class Rerun:
    """An earlier run, and what of it is run again."""

    report: Report
    tests: frozenset[str]
    """Node ids of the tests that are run again."""

    @classmethod
    def of(cls, path: str, *, own_lab: bool) -> Rerun:
        """Raises UsageProblem: one line, before anything is touched."""
        report = read(Path(path))
        found = frozenset(again.to_run_again(report, digest()))
        if own_lab:
            raise UsageProblem(f"--rerun-of {path}: {REMEDY}")
        return cls(report=report, tests=found)

    @property
    def whole(self) -> bool:
        """Whether the earlier run was of everything, so that a claim without results has no test."""
        return all(claim.verdict is not None for claim in self.report.claims.values())

    @property
    def images(self) -> tuple[RanImage, ...]:
        """What the earlier run's pods ran."""
        plain: Sequence[Mapping[str, Any]] = self.report.plain.get("images") or []
        known = {field.name for field in fields(RanImage)}
        return tuple(
            from_plain(RanImage, {name: value for name, value in item.items() if name in known})
            for item in plain
        )

    @property
    def attested(self) -> Mapping[str, str]:
        """Claim to what a person attested about it, as the earlier report has it."""
        return {
            str(claim): str(said)
            for claim, said in (self.report.plain.get("attested") or {}).items()
        }

    @property
    def dates(self) -> Mapping[str, str]:
        """Claim to the date of the earlier run's evidence, where tests or a person gave it."""
        run = str(self.report.run["started"])[:10]
        return {
            str(claim["id"]): str(told.get("date") or run)
            for claim in self.report.plain["claims"]
            if (claim["results"] or claim["id"] in self.attested)
            and (told := claim.get("evidence") or {"date": run})
        }

    def answered(self, outcomes: Sequence[ClaimOutcome]) -> tuple[ClaimOutcome, ...]:
        """The claims, with what a person attested to the earlier run."""
        return tuple(
            replace(
                outcome,
                verdict=self.report.claims[outcome.claim.id].verdict,
                reason=said,
                remedy="",
            )
            if (said := self.attested.get(outcome.claim.id)) and not outcome.results
            else outcome
            for outcome in outcomes
        )

    def check(self, facts: Facts, installed: Installed) -> None:
        """Raises UsageProblem where the cluster is not the report's, or not as it was."""
        if found := list(again.differences(self.report, facts, installed)):
            raise UsageProblem(
                f"--rerun-of {self.report.where}: refused; {'; '.join(found)}; {REMEDY}"
            )

    def together(self, now: Sequence[TestOutcome]) -> tuple[TestOutcome, ...]:
        """All tests of the earlier run with what both runs say of them."""
        kinds = {claim.id: claim.kind for claim in catalog().values()}
        later = {outcome.test: outcome for outcome in now}
        earlier = [self._outcome(plain) for plain in self.report.plain["tests"]]
        known = {outcome.test for outcome in earlier}
        both = [
            _together(outcome, later[outcome.test], kinds) if outcome.test in later else outcome
            for outcome in earlier
        ]
        return (*both, *(outcome for outcome in now if outcome.test not in known))

    def join(
        self, report: RunReport, now: Sequence[TestOutcome], attested: Collection[str]
    ) -> RunReport:
        """Return a report with what it continues.

        ``now``: the tests that were run again; ``attested``: claims that a person answered for
        this run.
        """
        return replace(
            report,
            attested=self.attested,
            dates={
                claim: date
                for claim, date in self.dates.items()
                if claim not in self.attested or claim not in attested
            },
            continues=self.continued(now),
            images=together([*self.images, *report.images]),
        )

    def continued(self, now: Sequence[TestOutcome]) -> Continued:
        """What the report tells of the earlier run, and of each test that was run again."""
        before = {plain["test"]: str(plain["verdict"]) for plain in self.report.plain["tests"]}
        run = self.report.run
        return Continued(
            id=str(run["id"]),
            started=str(run["started"]),
            command=str(run["command"]),
            again={
                outcome.test: (before.get(outcome.test, ""), str(outcome.verdict))
                for outcome in now
            },
        )

    def _outcome(self, plain: Mapping[str, Any]) -> TestOutcome:
        kept = {name: plain[name] for name in TOLD if plain.get(name) is not None}
        results = again.results_of(self.report, plain["test"])
        told = _explanation(plain.get("explanation"))
        return replace(from_plain(TestOutcome, kept), results=results, explanation=told)


def _explanation(plain: Mapping[str, Any] | None) -> Explanation | None:
    """As a report has it, with its first line, which is made anew."""
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
    told = [*(before.attempts or (str(before.verdict),)), *(now.attempts or (str(now.verdict),))]
    decided = tuple(item for item in told if ClaimVerdict(item) not in UNDECIDED)
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


RERUN = pytest.StashKey["Rerun | None"]()
AGAIN = "conformance_again"
"""Key of what the controller hands to xdist's workers: node ids of the tests that are run again, or None for all.

They do not read the report themselves: ``reports/latest``, if that is what was named, leads to the new run by then.
"""


def tests_to_run(config: pytest.Config) -> frozenset[str] | None:
    """Node ids of the tests that ``--rerun-of`` leaves; None: it was not given.  In every process of the run."""
    if hasattr(config, "workerinput"):
        given = config.workerinput[AGAIN]
        return None if given is None else frozenset(given)
    found = rerun_of(config)
    return found.tests if found else None


def rerun_of(config: pytest.Config) -> Rerun | None:
    """What ``--rerun-of`` names, read once; None: nothing.  Raises UsageProblem."""
    if RERUN not in config.stash:
        option = config.option
        path = getattr(option, "rerun_of", None)
        named = option.kubeconfig or option.context or option.cluster not in (None, "lab")
        config.stash[RERUN] = Rerun.of(path, own_lab=not named) if path else None
    return config.stash[RERUN]
