# SPDX-License-Identifier: Apache-2.0
"""``--rerun-of REPORT``: runs again the tests that an earlier run left undecided or found wrong,
and reports on both runs together."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from conformance.catalog import digest
from conformance.errors import UsageProblem
from conformance.model.facts import Facts
from conformance.model.images import together
from conformance.model.installed import Installed
from conformance.qualify import again, outcomes
from conformance.qualify.stored import Report, read
from conformance.report.run import Continued, RunReport
from conformance.verdicts.claims import ClaimOutcome, TestOutcome

REMEDY = (
    "name the cluster of that report (--kubeconfig, --context); a run's own lab ends with the run"
)


@dataclass(frozen=True, kw_only=True)
class Rerun:
    """An earlier run, and its tests that are run again."""

    report: Report
    tests: frozenset[str]
    """Node ids of the tests that are run again."""

    @classmethod
    def of(cls, path: str, *, own_lab: bool) -> Rerun:
        """Return the run of a report. Raise UsageProblem with a line for the user, before the run
        touches anything."""
        report = read(Path(path))
        found = frozenset(again.to_run_again(report, digest()))
        if own_lab:
            raise UsageProblem(f"--rerun-of {path}: {REMEDY}")
        return cls(report=report, tests=found)

    @property
    def whole(self) -> bool:
        """Return whether the earlier run selected everything, so that a claim without results has
        no test."""
        return all(claim.verdict is not None for claim in self.report.claims.values())

    def answered(self, claims: Sequence[ClaimOutcome]) -> tuple[ClaimOutcome, ...]:
        """Return the claims, with a person's attestations from the earlier run."""
        return outcomes.answered(claims, self.report)

    def check(self, facts: Facts, installed: Installed) -> None:
        """Raise UsageProblem if the cluster is not the report's cluster, or has changed since."""
        if found := list(again.differences(self.report, facts, installed)):
            raise UsageProblem(
                f"--rerun-of {self.report.where}: refused; {'; '.join(found)}; {REMEDY}"
            )

    def together(self, now: Sequence[TestOutcome]) -> tuple[TestOutcome, ...]:
        """Return all tests of the earlier run with the results of both runs."""
        return outcomes.together(outcomes.tests(self.report), now)

    def join(
        self, report: RunReport, now: Sequence[TestOutcome], attested: Collection[str]
    ) -> RunReport:
        """Return a report merged with the report that it continues.

        ``now``: the tests that were run again; ``attested``: claims that a person answered for this
        run.
        """
        before = outcomes.attested(self.report)
        return replace(
            report,
            attested=before,
            dates={
                claim: date
                for claim, date in outcomes.dates(self.report).items()
                if claim not in before or claim not in attested
            },
            continues=self.continued(now),
            unverified=self.report.unverified or report.unverified,
            images=together([*outcomes.images(self.report), *report.images]),
        )

    def continued(self, now: Sequence[TestOutcome]) -> Continued:
        """Return the new report's data about the earlier run, and about each test that was run
        again."""
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


RERUN = pytest.StashKey["Rerun | None"]()
AGAIN = "conformance_again"
"""The key of the value that the controller passes to xdist's workers: node ids of the tests that
are run again, or None for all. Workers do not read the report themselves: if the user named
``reports/latest``, this link already leads to the new run."""


def tests_to_run(config: pytest.Config) -> frozenset[str] | None:
    """Return the node ids of the tests that ``--rerun-of`` selects; None without this option. The
    result is the same in every process of the run.
    """
    if hasattr(config, "workerinput"):
        given = config.workerinput[AGAIN]
        return None if given is None else frozenset(given)
    found = rerun_of(config)
    return found.tests if found else None


def rerun_of(config: pytest.Config) -> Rerun | None:
    """Return the report of ``--rerun-of``, read once; None without this option. Raise
    UsageProblem."""
    if RERUN not in config.stash:
        option = config.option
        path = getattr(option, "rerun_of", None)
        named = option.kubeconfig or option.context or option.cluster not in (None, "lab")
        config.stash[RERUN] = Rerun.of(path, own_lab=not named) if path else None
    return config.stash[RERUN]
