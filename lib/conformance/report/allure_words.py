# SPDX-License-Identifier: Apache-2.0
"""Allure's results in the suite's wording: the claim as title, the verdict, expected and observed
results.

Allure's plugin names results by test functions, and lists every fixture. When the run has ended,
this module rewrites the plugin's files. It removes fixtures and moves their attachments to the
test.
"""

import datetime
import hashlib
import html
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from allure_commons.model2 import Status

from conformance import printing
from conformance.catalog import Claim
from conformance.model.claim import ClaimKind, ClaimResult, ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.markdown import fenced
from conformance.report.run import RunReport
from conformance.verdicts.claims import SEEN, ClaimOutcome, TestOutcome, underlay

STATUS = {
    ClaimVerdict.VIOLATED: Status.FAILED,
    ClaimVerdict.INCONCLUSIVE: Status.BROKEN,
    ClaimVerdict.NOT_RUN: Status.UNKNOWN,
    ClaimVerdict.NOT_APPLICABLE: Status.SKIPPED,
}
"""Allure's status for each verdict; for every other verdict the status is ``passed``. Claims that
were not run are ``unknown``, so that they do not make Allure's ring green."""


def retell(report: RunReport, folder: Path) -> None:
    """Rewrite the results in a folder, and add a result for each claim that no test has decided."""
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
        if test and last[test.test] == path:  # results of earlier attempts keep their texts
            _tell(content, test, claims, report)
        _write(content, path)
    for path in folder.glob("*-attachment.txt"):  # this includes output that pytest captured
        text = path.read_text(encoding="utf-8", errors="replace")
        path.write_text(printing.plain(text), encoding="utf-8")
    for outcome in report.claims:
        if not outcome.results and outcome.verdict:
            write(_untested(outcome, report), folder)


def written(folder: Path, pattern: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield Allure's files and their contents. A file that a killed worker cut short is removed,
    since Allure would fail on it.
    """
    for path in sorted(folder.glob(pattern)):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            path.unlink()
        else:
            yield path, content


def title(test: TestOutcome, claims: Mapping[str, Claim]) -> str:
    """Return ``DEMO-7: windows->windows``, with the test's name if there is no part. Allure shows
    the claim's statement as the feature above this title. A test of no claim keeps its own name."""
    name = test.test.rpartition("::")[2]
    of_test = involved(test, claims)
    if not of_test:
        return name
    parts = list(dict.fromkeys(result.part for result in test.results if result.part))
    words = name.removeprefix("test_").replace("_", " ").replace("[", " [")
    return f"{', '.join(claim.id for claim in of_test)}: {', '.join(parts) or words}"


def involved(test: TestOutcome, claims: Mapping[str, Claim]) -> list[Claim]:
    """Return the claims of a test's results, each once; ``claims``: the run's claims by id."""
    names = dict.fromkeys(result.claim for result in test.results)
    return [claims[name] for name in names if name in claims]


def _tell(
    content: dict[str, Any], test: TestOutcome, claims: Mapping[str, Claim], report: RunReport
) -> None:
    """Write the data of a test's last attempt into Allure's result of this attempt."""
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
        ("severity", _severity(test, of_test)),
        ("cause", test.cause),
        ("tag", "waived" if any(claim.id in report.waived for claim in of_test) else ""),
    ]
    content["labels"] = [*content.get("labels", []), *_labels(more)]


def _severity(test: TestOutcome, claims: Sequence[Claim]) -> str:
    """Return Allure's severity. A packet that passes on a path which a policy should close is a
    ``blocker``."""
    if any(decision.opens for result in test.results for decision in result.decisions):
        return "blocker"
    if test.verdict is ClaimVerdict.VIOLATED:
        return "critical"
    kinds = {claim.kind for claim in claims}
    return "minor" if kinds and kinds <= {ClaimKind.RECOMMENDATION} else "normal"


def _links(claims: Sequence[Claim]) -> list[dict[str, str]]:
    """Return the sources of claims that a browser can open, each once."""
    return [
        {"type": "link", "name": str(source), "url": source.url}
        for source in dict.fromkeys(source for claim in claims for source in claim.sources)
        if source.url.startswith("https://")
    ]


def _description(test: TestOutcome, claims: Sequence[Claim], report: RunReport) -> Iterator[str]:
    """Yield lines of Markdown, in which no text of a cluster is markup."""
    waivers = [report.waived[claim.id] for claim in claims if claim.id in report.waived]
    subnets = underlay(result.measured for result in test.results)
    lines = (
        "*Evidence: lab. Windows was emulated; this qualifies no release.*"
        if report.evidence == "lab"
        else "",
        f"**{test.verdict}** {_plain(test.reason)}".strip(),
        f"Cause: {_plain(test.cause)}" if test.cause else "",
        fenced(str(test.explanation), "text") if test.explanation else "",
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
        f"FLAKY: attempts ended as {', '.join(test.attempts)}; the worst counts."
        if test.flaky
        else "",
    )
    return filter(None, lines)


def _plain(text: str) -> str:
    shown = html.escape(text, quote=False)
    return "".join(f"\\{letter}" if letter in "\\`*_[]#|~" else letter for letter in shown)


def _steps(results: Sequence[ClaimResult], content: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a step with expected and observed results for each pair of nodes, once for all claims
    of the test."""
    shown: set[tuple[str, str, ClaimVerdict, str]] = set()
    for result in results:
        for decision in result.decisions:
            key = (decision.source, decision.target, decision.verdict, decision.reason)
            if key not in shown:
                shown.add(key)
                yield {
                    "name": _step(decision),
                    "status": str(STATUS.get(decision.verdict, Status.PASSED)),
                    "start": content.get("start"),  # attempts of all pairs are made together
                    "stop": content.get("start"),
                }


def _step(decision: Decision) -> str:
    where = " to ".join(filter(None, (decision.source, decision.target))) or "the cluster"
    if decision.verdict is ClaimVerdict.CONFIRMED:
        observed = ", ".join(SEEN[half] for half in decision.halves) or "as expected"
        return f"{where}: {observed}, because {decision.reason}"
    return f"{where}: {decision.verdict}: {decision.reason}"


def _untested(outcome: ClaimOutcome, report: RunReport) -> dict[str, Any]:
    """Return a result for a claim without a test, with the reason. Its status is ``unknown``, or
    ``skipped`` if the claim is not applicable.

    Neither status is green, so that Allure's ring and the bars of its areas show how many claims
    nobody has tested.
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
    """Return a result for a test or claim that Allure lacks; its time is the run's start. ``key``:
    the identity of the test or claim, which is the same in every run.
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
    _write(result, folder / f"{result['uuid']}-result.json")


def _write(result: Mapping[str, Any], path: Path) -> None:
    text = json.dumps(printing.within(result, printing.plain), ensure_ascii=False)
    path.write_text(text, encoding="utf-8")


def _labels(pairs: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in dict.fromkeys(pairs) if value]


def label_of(content: Mapping[str, Any], name: str) -> str:
    """Return the value of a result's first label with this name; return an empty string if there is
    none."""
    return next(
        (str(label["value"]) for label in content.get("labels", []) if label["name"] == name), ""
    )


def _mode(report: RunReport) -> str:
    return str(report.facts.mode.value or "unknown") if report.facts else "unknown"


def newest(folder: Path) -> dict[str, Path]:
    """Map each test to the file of its last attempt."""
    found: dict[str, tuple[int, Path]] = {}
    for path, content in written(folder, "*-result.json"):
        entry = (int(content.get("start") or 0), path)
        test = label_of(content, "test")
        found[test] = max(found.get(test, entry), entry)
    return {test: path for test, (_, path) in found.items()}


def _out_of_fixtures(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Remove the files of fixtures; return the fixtures' attachments, by the result to which they
    belong."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path, content in written(folder, "*-container.json"):
        steps = [*(content.get("befores") or []), *(content.get("afters") or [])]
        attached = [item for step in steps for item in _attached(step)]
        for child in (content.get("children") or [])[:1]:  # fixtures of many tests are shown once
            found.setdefault(child, []).extend(attached)
        path.unlink()
    return found


def _attached(step: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield from step.get("attachments") or []
    for item in step.get("steps") or []:
        yield from _attached(item)


def _apart(attachments: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return attachments with distinct names: ``matrix``, ``matrix 2``."""
    number_of_text: dict[str, int] = {}
    lines = []
    for item in {str(each["source"]): each for each in attachments}.values():
        number = number_of_text[item["name"]] = number_of_text.get(item["name"], 0) + 1
        lines.append({**item, "name": item["name"] if number == 1 else f"{item['name']} {number}"})
    return lines
