# SPDX-License-Identifier: Apache-2.0
"""Continues an earlier report: the tests to run again, the cluster, and the verdicts of both runs.

A rerun hides nothing. The worse of two decisions counts, and is marked FLAKY if the two differ. A
later decision only replaces NOT_RUN and INCONCLUSIVE, which decide nothing about the cluster.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from conformance.errors import UsageProblem
from conformance.model.claim import ClaimResult
from conformance.model.codec import from_plain
from conformance.model.decision import Decision
from conformance.model.facts import Facts
from conformance.model.installed import Installed
from conformance.model.verdict import ClaimKind, ClaimVerdict, precedence
from conformance.qualify.stored import Report, versions
from conformance.verdicts.acceptable import UNDECIDED
from conformance.verdicts.decisions import BETWEEN_TWO

AGAIN = frozenset({ClaimVerdict.VIOLATED, ClaimVerdict.INCONCLUSIVE, ClaimVerdict.NOT_RUN})
"""Verdicts of tests that are run again. A NOT_RUN test gets a verdict if the reason for NOT_RUN no
longer holds."""
BAD = frozenset(
    {ClaimVerdict.VIOLATED, ClaimVerdict.INCONCLUSIVE, ClaimVerdict.UNMET, ClaimVerdict.NOT_RUN}
)
"""Verdicts that a merged result takes over from any of its decisions, if they are worse than its
own verdict."""
FLAKY = "FLAKY"


def to_run_again(report: Report, digest: str) -> tuple[str, ...]:
    """Return the node ids of the tests to run again. ``digest`` identifies the catalog by which the
    new run judges them.

    Raise UsageProblem if the report cannot be continued, or has nothing to run again.
    """
    tests: Sequence[Mapping[str, Any]] = report.plain.get("tests") or []
    theirs = str(report.suite.get("catalog") or "")
    if report.schema == "1" or not theirs or not uid(report):
        raise UsageProblem(
            f"report {report.where} cannot be continued: it does not name its cluster and catalog"
        )
    if theirs != digest:
        raise UsageProblem(
            f"report {report.where} cannot be continued: it was judged by another catalog "
            f"({theirs[:12]}; this suite has "
            f"{digest[:12]}); use the suite of that report, or run everything"
        )
    if not tests:
        raise UsageProblem(
            f"report {report.where} cannot be continued: it lists no tests; run everything"
        )
    found = tuple(str(test["test"]) for test in tests if ClaimVerdict(test["verdict"]) in AGAIN)
    if not found:
        raise UsageProblem(
            f"nothing to run again: every test of {report.where} is decided and none is VIOLATED"
        )
    return found


def uid(report: Report) -> str:
    """Return the UID of the report's cluster; empty if the report has none."""
    return str(report.installed.get("cluster_uid") or "")


def differences(
    report: Report,
    facts: Facts,
    installed: Installed,
    *,
    now: str = "now",
    then: str = "in the report",
) -> Iterator[str]:
    """Yield the differences between this cluster and the report's cluster at the time of the
    report.

    ``now`` and ``then``: the words that follow the present and the report's value.
    """
    if uid(report) != installed.cluster_uid:
        yield (
            f"the clusters differ: the UID of kube-system is {installed.cluster_uid or 'unknown'} "
            f"{now}, {uid(report)} {then}"
        )
        return
    before = from_plain(Installed, report.installed)
    if report.facts:
        for name in ("calico_version", "kubernetes_version"):
            theirs = getattr(report.facts, name).value
            ours = getattr(facts, name).value
            if theirs != ours:
                yield f"{name.replace('_', ' ').capitalize()} is {ours} {now}, {theirs} {then}"
        revisions = {node.name: node.revision for node in facts.nodes}
        for node in report.facts.nodes:
            if revisions.get(node.name, "") != node.revision:
                here, there = (
                    f"Windows build {revision}" if revision else "no such Windows node"
                    for revision in (revisions.get(node.name), node.revision)
                )
                yield f"node {node.name}: {here} {now}, {there} {then}"
    present = versions(installed)
    earlier = versions(before)
    yield from (
        f"{', container '.join(what)}: {present.get(what) or 'not running'} {now}, "
        f"{earlier.get(what) or 'not running'} {then}"
        for what in sorted(present.keys() | earlier.keys())
        if present.get(what) != earlier.get(what)
    )


def results_of(report: Report, test: str) -> tuple[ClaimResult, ...]:
    """Return the results of a test of the report."""
    return tuple(
        result
        for claim in report.claims.values()
        for result in claim.results
        if result.test == test
    )


def merged(
    before: Sequence[ClaimResult], now: Sequence[ClaimResult], kinds: Mapping[str, ClaimKind]
) -> tuple[ClaimResult, ...]:
    """Merge the outcomes of two runs of a test. ``kinds``: the kinds of claims by id."""
    later = {(result.claim, result.part): result for result in now}
    earlier = {(result.claim, result.part): result for result in before}
    return tuple(
        _merged(earlier[key], later[key], kinds[key[0]])
        if key in earlier and key in later
        else later.get(key) or earlier[key]
        for key in {**earlier, **later}
    )


def _merged(before: ClaimResult, now: ClaimResult, kind: ClaimKind) -> ClaimResult:
    order = precedence(kind)
    decisions = tuple(_decisions(before, now))
    verdict = together(before.verdict, now.verdict, kind)
    verdict = min(
        [verdict, *(decision.verdict for decision in decisions if decision.verdict in BAD)],
        key=order.index,
    )
    speaker = now if now.verdict is verdict else before
    reasons = (decision.reason for decision in decisions if decision.verdict is verdict)
    reason = speaker.reason if speaker.verdict is verdict else next(reasons, speaker.reason)
    verdicts = [item for item in (before.verdict, now.verdict) if item is not ClaimVerdict.NOT_RUN]
    prefix = (
        f"{FLAKY} ({', '.join(verdicts)}): "
        if len(set(verdicts)) > 1
        and verdict is not now.verdict
        and not reason.startswith(FLAKY)  # in a second rerun the reason already begins with FLAKY
        else ""
    )
    return replace(speaker, verdict=verdict, reason=f"{prefix}{reason}", decisions=decisions)


def together(before: ClaimVerdict, now: ClaimVerdict, kind: ClaimKind) -> ClaimVerdict:
    """Return the verdict that counts after two runs: usually the worse of the two.

    However, NOT_RUN gives way to any other verdict, and an undecided earlier verdict gives way to a
    later decision.
    """
    if now is ClaimVerdict.NOT_RUN:
        return before
    if (before in UNDECIDED and now not in UNDECIDED) or (before is ClaimVerdict.NOT_RUN):
        return now
    return min((before, now), key=precedence(kind).index)


def _decisions(before: ClaimResult, now: ClaimResult) -> Iterator[Decision]:
    """Yield each pair of nodes once, with the worse of the two decisions about it."""
    later = {(decision.source, decision.target): decision for decision in now.decisions}
    settled = {
        build
        for decision in now.decisions
        if decision.verdict not in UNDECIDED
        for build in decision.about
    }
    for decision in before.decisions:
        key = (decision.source, decision.target)
        if key in later:
            other = later.pop(key)
            if decision.verdict in UNDECIDED and other.verdict is not ClaimVerdict.NOT_RUN:
                yield other
            elif (
                other.verdict in UNDECIDED
                and decision.verdict not in UNDECIDED
                and other.verdict is ClaimVerdict.NOT_RUN
            ):
                yield decision
            else:
                yield min((decision, other), key=lambda each: BETWEEN_TWO.index(each.verdict))
        elif decision.verdict not in UNDECIDED or not _settled(decision, now, settled):
            yield decision
    yield from later.values()


def _settled(decision: Decision, now: ClaimResult, builds: set[str]) -> bool:
    """Return whether the later run decided, on any nodes, all Windows builds of a decision that was
    left open. For a decision about no build, return whether the later run decided the result."""
    return set(decision.about) <= builds if decision.about else now.verdict not in UNDECIDED
