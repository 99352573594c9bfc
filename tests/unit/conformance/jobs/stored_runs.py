# SPDX-License-Identifier: Apache-2.0
"""Stored reports as runs of parts of a suite, for tests of merging."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from conformance.jobs import merge as merging
from conformance.qualify.stored import Report
from tests.golden.reports.texts import stored

Plain = dict[str, Any]
Merge = Callable[..., tuple[int, Path]]


def kept(name: str, monkeypatch: pytest.MonkeyPatch) -> Plain:
    """Return a stored report; the catalog and the suite count as unchanged since its run."""
    report = stored(name)
    tested = {claim for claim, outcome in report.claims.items() if outcome.results}
    monkeypatch.setattr(merging, "digest", lambda: report.suite["catalog"])
    monkeypatch.setattr(merging, "suite_parts", lambda: dict.fromkeys(tested))
    return copy.deepcopy(dict(report.plain))


def part(whole: Plain, number: int, chosen: Callable[[str], bool], **run: Any) -> Plain:
    """Return the report of a run of some of the tests."""
    plain = copy.deepcopy(whole)
    plain["run"] |= {"id": f"run{number}", "started": f"2026-11-2{number}T10:00:00Z", **run}
    plain["tests"] = [test for test in plain["tests"] if chosen(test["test"])]
    for claim in plain["claims"]:
        claim["results"] = [
            result for result in claim["results"] if result["test"] and chosen(result["test"])
        ]
        if claim["evidence"]:
            claim["evidence"]["date"] = plain["run"]["started"][:10]
        if not claim["results"]:
            claim |= {"verdict": None, "reason": "the selection leaves it out"}
    return plain


def areas(whole: Plain) -> list[Plain]:
    """Return the runs of three groups of files."""
    files = sorted({test["test"].partition("::")[0] for test in whole["tests"]})
    groups = [set(files[number::3]) for number in range(3)]
    return [part(whole, number, in_files(group)) for number, group in enumerate(groups)]


def in_files(group: set[str]) -> Callable[[str], bool]:
    """Return a function that chooses the tests of some files."""
    return lambda test: test.partition("::")[0] in group


def every_third(order: list[str], number: int) -> Callable[[str], bool]:
    """Return a function that chooses the tests of one part."""
    return lambda test: order.index(test) % 3 == number


def by_place(report: Report) -> Mapping[tuple[str, ...], str]:
    """Map each claim, and each (claim, part, client's node, server's node), to its verdict."""
    found: dict[tuple[str, ...], str] = {
        (name,): str(claim.verdict) for name, claim in report.claims.items()
    }
    for claim in report.claims.values():
        for result in claim.results:
            found[result.claim, result.part] = str(result.verdict)
            for one in result.decisions:
                found[one.claim, one.part, one.source, one.target] = str(one.verdict)
    return found


def violated(plain: Plain, test: str) -> str:
    """Change a confirmed decision of a test to VIOLATED; return its claim."""
    for claim in plain["claims"]:
        for result in claim["results"]:
            if result["test"] == test and result["decisions"]:
                for what in (result, result["decisions"][0], claim):
                    what["verdict"] = "VIOLATED"
                (entry,) = [each for each in plain["tests"] if each["test"] == test]
                entry["verdict"] = "VIOLATED"
                return str(claim["id"])
    raise AssertionError(test)


def another_version(plain: Plain) -> None:
    plain["facts"]["calico_version"]["value"] = "v3.30.0"


def result_of(plain: Plain, claim: str) -> Any:
    """Return the results that a report has of a claim."""
    return next(one["results"] for one in plain["claims"] if one["id"] == claim)


def attempts(plain: Plain) -> int:
    """Return the number of attempts that the agents of all nodes made."""
    return sum(int(node["attempts"]) for node in plain["probing"]["nodes"])
