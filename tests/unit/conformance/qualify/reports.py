# SPDX-License-Identifier: Apache-2.0
"""Invented reports, claim by claim, for tests of gates and comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conformance.catalog import catalog
from conformance.model.codec import to_plain
from conformance.model.decision import Decision
from conformance.model.verdict import PRECEDENCE, ClaimVerdict
from conformance.qualify.stored import Report, parse
from tests.plugin.stand_in_cluster import facts

OLD, NEW = "17763", "20348"
BOTH = ((17763, 5329), (20348, 2762))


def decided(claim: str, verdicts: Mapping[str, str], part: str = "") -> dict[str, Any]:
    """Return one test's result on a claim: the verdict for each Windows build (empty: a decision
    about no build)."""
    decisions = [
        Decision(
            claim=claim, part=part, test=f"suites/test_{claim}.py::test", source="linux-1", target=f"node-{build}",
            builds=(build,) if build else (), about=(build,) if build else (), verdict=ClaimVerdict(verdict),
            reason=f"{claim} is {verdict} on {build or 'Linux'}", halves=("open",),
        )
        for build, verdict in verdicts.items()
    ]  # fmt: skip
    worst = next(verdict for verdict in PRECEDENCE if verdict in verdicts.values())
    return _result(claim, part, str(worst), [to_plain(decision) for decision in decisions])


def a_gate(answer: str = "qualified", **fields: Any) -> dict[str, Any]:
    """Return a report's entry about a required set."""
    gate = {"name": "core", "build": NEW, "answer": answer, "headline": "core"}
    return gate | {"obstacles": [], "waived": []} | fields


def undecided(claim: str, verdict: str, part: str = "") -> dict[str, Any]:
    """Return one test's result on a claim that it did not decide."""
    return _result(claim, part, verdict, [])


def _result(claim: str, part: str, verdict: str, decisions: list[Any]) -> dict[str, Any]:
    return {
        "claim": claim, "verdict": verdict, "test": f"suites/test_{claim}.py::test[{part}]", "part": part, "remedy": "",
        "reason": f"{claim} was {verdict}", "evidence": "field", "measured": {}, "decisions": decisions,
    }  # fmt: skip


def report(
    results: Sequence[dict[str, Any]], *, evidence: str = "field", builds: Sequence[tuple[int, int]] = ((20348, 2762),),
    effect: Mapping[str, Any] | None = None, run: Mapping[str, Any] | None = None, **change: Any,
) -> Report:  # fmt: skip
    """Return a report with these results, in which all other claims were not selected."""
    claims = []
    for claim in catalog().values():
        mine = [result for result in results if result["claim"] == claim.id]
        heard = {each["verdict"] for each in mine}
        verdict = next((str(item) for item in PRECEDENCE if item in heard), None)
        claims.append({
            "id": claim.id, "area": claim.area, "statement": claim.statement, "kind": str(claim.kind),
            "verdict": verdict, "reason": mine[0]["reason"] if mine else "the selection leaves it out", "remedy": "",
            "results": mine, "missing_parts": [],
        })  # fmt: skip
    told = to_plain(facts(windows=len(builds), **change))
    for node, build in zip(
        [item for item in told["nodes"] if item["os"] == "windows"], builds, strict=True
    ):
        node["windows_build"] = list(build)
    plain = {
        "schema_version": "2",
        "run": {"id": "r1", "started": "2026-11-20T10:00:00Z", "evidence": evidence, **(run or {})},
        "facts": told,
        "claims": claims,
        "statistics": {"policy_effect": effect or {}},
    }
    return parse(plain, "a report")
