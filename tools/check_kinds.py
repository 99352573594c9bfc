# SPDX-License-Identifier: Apache-2.0
"""Run the suite on a lab of every kind: ``python -m tools.check_kinds [PROFILE...]``.

A kind is a profile of ``hybridlab profiles``; new profiles are included automatically. Each run
leaves its report in reports/kinds/PROFILE, with its output in the same folder, and a table is
printed at the end. The files of tests/detection/rows contain the expected verdict of each claim;
with a profile that no file names, no claim may be violated. The exit code is 1 if a run ended, or
decided, otherwise than expected.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hybridlab.profiles.load import names
from tests.detection.table import Table, read

ROOT = Path(__file__).parents[1]
REPORTS = ROOT / "reports" / "kinds"
PYTEST = Path(sys.executable).with_name("pytest")
DECIDED = ("CONFIRMED", "VIOLATED", "UNMET", "ADVISED", "LIFTED", "NOT_OBSERVED")
COUNTED = ("VIOLATED", "INCONCLUSIVE", "UNMET", "ADVISED", "LIFTED", "NOT_RUN")
HEAD = ("kind", "decided", *COUNTED, "exit", "minutes", "unexpected results")


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The expected end of a run on a healthy lab of a kind."""

    exits: tuple[int, ...]
    claims: dict[str, tuple[str, ...]]
    """Map each claim to its possible verdicts; a claim that is missing here may have any verdict
    but VIOLATED."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The end of a run on one kind."""

    profile: str
    exit: int
    minutes: float
    claims: dict[str, str]
    """Map each claim to its verdict; empty: the run left no report."""

    def differences(self, expected: Expected) -> list[str]:
        """Return the deviations from the expectation, as ``CLAIM verdict (expected verdict)``."""
        found = [
            f"{claim} {verdict} (expected {' or '.join(expected.claims[claim])})"
            for claim, verdict in self.claims.items()
            if claim in expected.claims and verdict not in expected.claims[claim]
        ]
        found += [
            f"{claim} VIOLATED"
            for claim, verdict in self.claims.items()
            if claim not in expected.claims and verdict == "VIOLATED"
        ]
        if self.exit not in expected.exits:
            found.append(f"exit {self.exit} (expected {' or '.join(map(str, expected.exits))})")
        return found if self.claims else ["no report"]


def expected_on(profile: str, table: Table) -> Expected:
    """Return what a run on a healthy lab of a profile must give, by the table's clean verdicts."""
    if profile != "default" and profile not in table.profiles:
        return Expected(exits=(0,), claims={})
    healthy = [
        row
        for row in table.rows
        if row.profile == profile and not (row.set or row.tap or row.faults or row.edit)
    ]
    claims = {claim: table.healthy(claim, profile) for claim in table.clean}
    for row in healthy:
        claims |= {claim: (*claims[claim], verdict) for claim, verdict in row.expect.items()}
        claims |= {claim: (*claims[claim], *others) for claim, others in row.may.items()}
    return Expected(exits=tuple({row.exit for row in healthy}) or (0,), claims=claims)


def run(profile: str, workers: int) -> Outcome:
    """Run the suite on a lab of this profile."""
    folder = REPORTS / profile
    folder.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    command = [str(PYTEST), "suites", f"--lab-profile={profile}", f"-n{workers}"]
    with folder.with_suffix(".log").open("wb") as log:
        done = subprocess.run(
            [*command, f"--report-dir={folder}", "-p", "no:cacheprovider"],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
    minutes = (time.monotonic() - begun) / 60
    return Outcome(
        profile=profile, exit=done.returncode, minutes=minutes, claims=_claims(folder, begun)
    )


def _claims(folder: Path, begun: float) -> dict[str, str]:
    """Map each claim to its verdict in the folder's newest report; empty if this run left no
    report."""
    report = folder / "latest" / "conformance.json"
    age = time.monotonic() - begun
    if not report.exists() or time.time() - report.stat().st_mtime > age + 1:
        return {}
    plain: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    return {claim["id"]: claim["verdict"] for claim in plain["claims"]}


def page(outcomes: Sequence[Outcome], table: Table) -> str:
    """Return the table, with one line per kind."""
    lines = [f"| {' | '.join(HEAD)} |", f"|{' --- |' * len(HEAD)}"]
    for outcome in outcomes:
        counts = Counter(outcome.claims.values())
        cells = [
            outcome.profile,
            str(sum(counts[verdict] for verdict in DECIDED)),
            *(str(counts[verdict]) for verdict in COUNTED),
            str(outcome.exit),
            f"{outcome.minutes:.1f}",
            "; ".join(outcome.differences(expected_on(outcome.profile, table))) or "-",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Run the kinds one after the other, print the table, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.check_kinds", description=__doc__)
    parser.add_argument("profiles", nargs="*", help="profiles of the lab (default: all)")
    parser.add_argument("--workers", type=int, default=2, help="pytest -n (default: 2)")
    options = parser.parse_args(arguments)
    if unknown := sorted({*options.profiles} - {*names()}):
        print(f"unknown profiles: {', '.join(unknown)}; the profiles are {', '.join(names())}")
        return 4
    table = read()
    outcomes = []
    for profile in options.profiles or names():
        outcomes.append(run(profile, options.workers))
        print(page(outcomes[-1:], table).splitlines()[-1], flush=True)
    print(f"\n{page(outcomes, table)}")
    wrong = [
        outcome for outcome in outcomes if outcome.differences(expected_on(outcome.profile, table))
    ]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
