# SPDX-License-Identifier: Apache-2.0
"""Tells each of Allure's results in the suite's words: the claim as its title, the verdict, what was expected and seen.

Allure's plugin names results by test functions, and writes every fixture beside them.  Its files are told anew when the
run has ended, and fixtures are left out; what they attached belongs to the test.
"""

import datetime
import hashlib
import html
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from allure_commons.model2 import Status

from conformance.catalog import Claim
from conformance.model.claim import ClaimResult, ClaimVerdict
from conformance.model.decision import Decision
from conformance.report.run import RunReport
from conformance.verdicts.claims import SEEN, ClaimOutcome, TestOutcome, underlay

STATUS = {
    ClaimVerdict.VIOLATED: Status.FAILED,
    ClaimVerdict.INCONCLUSIVE: Status.BROKEN,
    ClaimVerdict.NOT_RUN: Status.UNKNOWN,
    ClaimVerdict.NOT_APPLICABLE: Status.SKIPPED,
}
"""Every other verdict is ``passed``.  What was not run is ``unknown``, so that Allure's ring is not green by it."""


def retell(report: RunReport, folder: Path) -> None:
    """Rewrite the results in a folder, and add one for each claim that no test has decided."""
    attached = _out_of_fixtures(folder)
    tests = {test.test: test for test in report.tests}
    claims = {outcome.claim.id: outcome.claim for outcome in report.claims}
    last = newest(folder)
    for path, content in written(folder, "*-result.json"):
        test = tests.get(label_of(content, "test"))
        content["attachments"] = _apart(
            [*(content.get("attachments") or []), *attached.get(content["uuid"], [])]
        )
        if test:
            content["name"] = title(test, claims)
        if test and last[test.test] == path:  # earlier attempts keep what they said
            _tell(content, test, claims, report)
        path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    for outcome in report.claims:
        if not outcome.results and outcome.verdict:
            write(_untested(outcome, report), folder)


def written(folder: Path, pattern: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield Allure's files and what they hold.

    A file that a killed worker cut short is removed: Allure would stumble over it.
    """
    for path in sorted(folder.glob(pattern)):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            path.unlink()
        else:
            yield path, content


def title(test: TestOutcome, claims: Mapping[str, Claim]) -> str:
    """``DEMO-7 (windows->windows): Every other source ...``; a test of no claim keeps its own name."""
    of_test = involved(test, claims)
    if not of_test:
        return test.test.rpartition("::")[2]
    parts = list(dict.fromkeys(result.part for result in test.results if result.part))
    part = f" ({', '.join(parts)})" if parts else ""
    return f"{', '.join(claim.id for claim in of_test)}{part}: {of_test[0].statement}"


def involved(test: TestOutcome, claims: Mapping[str, Claim]) -> list[Claim]:
    """The claims of a test's results, each once; ``claims``: those of the run, by id."""
    names = dict.fromkeys(result.claim for result in test.results)
    return [claims[name] for name in names if name in claims]


def _tell(
    content: dict[str, Any], test: TestOutcome, claims: Mapping[str, Claim], report: RunReport
) -> None:
    """Write what is known of a test's last attempt into its result."""
    of_test = involved(test, claims)
    message = f"{test.verdict}: {test.reason or title(test, claims)}"
    content["status"] = str(STATUS.get(test.verdict, Status.PASSED))
    content["statusDetails"] = {
        **(content.get("statusDetails") or {}),
        "message": message,
        "flaky": test.flaky,
    }
    content["description"] = "\n\n".join(_description(test, of_test, report))
    content["links"] = _links(of_test)
    content["steps"] = list(_steps(test.results, content))
    decisions = [decision for result in test.results for decision in result.decisions]
    builds = sorted({build for decision in decisions for build in decision.about})
    more = [
        *(("kind", str(claim.kind)) for claim in of_test),
        *(("build", build) for build in builds),
        ("mode", _mode(report)),
        ("verdict", str(test.verdict)),
        ("evidence", report.evidence),
        ("tag", "waived" if any(claim.id in report.waived for claim in of_test) else ""),
    ]
    content["labels"] = [*content.get("labels", []), *_labels(more)]


def _links(claims: Sequence[Claim]) -> list[dict[str, str]]:
    """The sources of claims that a browser can open, each once."""
    return [
        {"type": "link", "name": str(source), "url": source.url}
        for source in dict.fromkeys(source for claim in claims for source in claim.sources)
        if source.url.startswith("https://")
    ]


def _description(test: TestOutcome, claims: Sequence[Claim], report: RunReport) -> Iterator[str]:
    """Markdown, in which nothing that a cluster named is markup."""
    waivers = [report.waived[claim.id] for claim in claims if claim.id in report.waived]
    subnets = underlay(result.measured for result in test.results)
    lines = (
        "*Evidence: lab. Windows was emulated; this qualifies no release.*"
        if report.evidence == "lab"
        else "",
        f"**{test.verdict}** {_plain(test.reason)}".strip(),
        *(
            f"{claim.id} ({claim.kind}, {claim.modality}): {_plain(claim.statement)}"
            for claim in claims
        ),
        *(f"Waived: {_plain(waiver)}" for waiver in waivers),
        f"Seen {_plain(subnets)}" if subnets else "",
        *(
            f"Not about this cluster: {result.claim}, part {_plain(result.part)}: "
            f"{_plain(result.reason)}"
            for result in test.results
            if result.part and result.verdict is ClaimVerdict.NOT_APPLICABLE
        ),
        f"What to do: {_plain(test.remedy)}" if test.remedy else "",
        f"FLAKY: attempts said {', '.join(test.attempts)}; the worst counts." if test.flaky else "",
    )
    return filter(None, lines)


def _plain(text: str) -> str:
    shown = html.escape(text, quote=False)
    return "".join(f"\\{letter}" if letter in "\\`*_[]#|~" else letter for letter in shown)


def _steps(results: Sequence[ClaimResult], content: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What was expected and seen between each pair of nodes, once for all claims of the test."""
    told: set[tuple[str, str, ClaimVerdict, str]] = set()
    for result in results:
        for decision in result.decisions:
            key = (decision.source, decision.target, decision.verdict, decision.reason)
            if key not in told:
                told.add(key)
                yield {
                    "name": _step(decision),
                    "status": str(STATUS.get(decision.verdict, Status.PASSED)),
                    "start": content.get("start"),
                    "stop": content.get("stop"),
                }


def _step(decision: Decision) -> str:
    where = " to ".join(filter(None, (decision.source, decision.target))) or "the cluster"
    if decision.verdict is ClaimVerdict.CONFIRMED:
        observed = ", ".join(SEEN[half] for half in decision.halves) or "as expected"
        return f"{where}: {observed}, because {decision.reason}"
    return f"{where}: {decision.verdict}: {decision.reason}"


def _untested(outcome: ClaimOutcome, report: RunReport) -> dict[str, Any]:
    """A result for a claim without a test, with the reason: ``unknown``, or ``skipped`` where it is not applicable.

    Not green either way: Allure's ring and the bars of its areas show how much nobody has looked at.
    """
    claim = outcome.claim
    labels = [
        ("epic", claim.area),
        ("feature", f"{claim.id} {claim.statement}"),
        ("claim", claim.id),
        ("tag", "no test"),
        ("kind", str(claim.kind)),
        ("mode", _mode(report)),
        ("verdict", str(outcome.verdict)),
        ("evidence", report.evidence),
    ]
    name = f"{claim.id}: {claim.statement}"
    return added(f"claim {claim.id}", name, outcome, labels, report) | {
        "description": f"**{outcome.verdict}** {_plain(outcome.reason)}",
        "links": _links([claim]),
    }


def added(
    key: str,
    name: str,
    outcome: TestOutcome | ClaimOutcome,
    labels: Sequence[tuple[str, str]],
    report: RunReport,
) -> dict[str, Any]:
    """Return the result of a test or claim of which Allure has none, as of the run's beginning.

    ``key``: what stays the same from run to run.
    """
    ident = hashlib.sha256(f"{report.run_id} {key}".encode()).hexdigest()
    status = STATUS.get(outcome.verdict, Status.PASSED) if outcome.verdict else Status.SKIPPED
    began = int(datetime.datetime.fromisoformat(report.started).timestamp() * 1000)
    return {
        "uuid": f"{ident[:8]}-{ident[8:12]}-{ident[12:16]}-{ident[16:20]}-{ident[20:32]}",
        "name": name,
        "fullName": key,
        "historyId": hashlib.md5(key.encode(), usedforsecurity=False).hexdigest(),
        "status": str(status),
        "statusDetails": {"message": f"{outcome.verdict}: {outcome.reason}"},
        "labels": _labels(labels),
        "start": began,
        "stop": began,
    }


def write(result: Mapping[str, Any], folder: Path) -> None:
    """Write a result under its own id."""
    text = json.dumps(result, ensure_ascii=False)
    (folder / f"{result['uuid']}-result.json").write_text(text, encoding="utf-8")


def _labels(pairs: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in dict.fromkeys(pairs) if value]


def label_of(content: Mapping[str, Any], name: str) -> str:
    """Return a result's first label of a name; empty: it has none."""
    return next(
        (str(label["value"]) for label in content.get("labels", []) if label["name"] == name), ""
    )


def _mode(report: RunReport) -> str:
    return str(report.facts.mode.value or "unknown") if report.facts else "unknown"


def newest(folder: Path) -> dict[str, Path]:
    """Test to the file of its last attempt."""
    found: dict[str, tuple[int, Path]] = {}
    for path, content in written(folder, "*-result.json"):
        entry = (int(content.get("start") or 0), path)
        test = label_of(content, "test")
        found[test] = max(found.get(test, entry), entry)
    return {test: path for test, (_, path) in found.items()}


def _out_of_fixtures(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Remove what tells of fixtures; returns what they attached, by the result that it belongs to."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path, content in written(folder, "*-container.json"):
        steps = [*(content.get("befores") or []), *(content.get("afters") or [])]
        attached = [item for step in steps for item in _attached(step)]
        for child in (content.get("children") or [])[:1]:  # what serves many tests is told once
            found.setdefault(child, []).extend(attached)
        path.unlink()
    return found


def _attached(step: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield from step.get("attachments") or []
    for item in step.get("steps") or []:
        yield from _attached(item)


def _apart(attachments: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Attachments with names that tell them apart: ``matrix``, ``matrix 2``."""
    seen: dict[str, int] = {}
    told = []
    for item in {str(each["source"]): each for each in attachments}.values():
        number = seen[item["name"]] = seen.get(item["name"], 0) + 1
        told.append({**item, "name": item["name"] if number == 1 else f"{item['name']} {number}"})
    return told
