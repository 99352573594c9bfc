"""What Allure's own plugin does not write: labels by claim, the environment, categories, and results of tests that a
dead worker or an early end took with it.

Allure's results alone would be short of those (its plugin writes a result only when a test ends), so they are added
from the run's outcomes, and JSON, JUnit and Allure tell the same.
"""

import hashlib
import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from allure_commons.logger import AllureFileLogger
from allure_commons.model2 import Label, Status, StatusDetails, TestResult
from allure_commons.utils import uuid4

from conformance.catalog import Claim
from conformance.model.facts import Facts
from conformance.report.allure_words import STATUS, label_of, newest
from conformance.report.probing import lines
from conformance.report.run import RunReport
from conformance.verdicts.claims import TestOutcome

CATEGORIES = [
    {"name": str(verdict), "messageRegex": f"(?s)^{verdict}\\b.*", "matchedStatuses": [str(status)]}
    for verdict, status in STATUS.items()
]
"""For readers of Allure 2; Allure 3 takes them from its own configuration (:mod:`conformance.report.html`)."""


FACTS = (
    "calico_version",
    "kubernetes_version",
    "mode",
    "datastore",
    "install",
    "platform",
    "kube_proxy_mode",
)
"""Facts of the cluster that stand in environment.properties."""
OF_NO_CLAIM = "The suite itself"
"""Area of a test that decides no claim, such as that of the probes' own protocol."""


def labels(claims: Sequence[Claim]) -> list[tuple[str, str]]:
    """(kind, value) of a test's labels: epic = area, feature = claim, story is the test itself, tags of the catalog."""
    pairs = [("epic", claim.area) for claim in claims] or [("epic", OF_NO_CLAIM)]
    pairs += [("feature", f"{claim.id} {claim.statement}") for claim in claims]
    pairs += [("claim", claim.id) for claim in claims]
    pairs += [("tag", tag) for tag in sorted({tag for claim in claims for tag in claim.tags})]
    return list(dict.fromkeys(pairs))


def story(test: str) -> str:
    """A test's name as a sentence, the same for all its parameters."""
    return test.partition("[")[0].removeprefix("test_").replace("_", " ")


def write_surroundings(report: RunReport, folder: Path) -> None:
    """environment.properties, executor.json and categories.json."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = {
        "cluster": report.cluster.get("label", ""),
        "evidence": report.evidence,
        "command": report.command,
        **{
            f"label_{re.sub(r'[^A-Za-z0-9.]', '_', key)}": value
            for key, value in report.labels.items()
        },
        **(_of_cluster(report.facts) if report.facts else {}),
        **{re.sub("[- ]", "_", key): value for key, value in report.installed.versions.items()},
        "suite": report.suite.get("version", ""),
        "catalog": report.suite.get("catalog", "")[:12],
        **{f"probing_{number}": line for number, line in enumerate(lines(report.probing), 1)},
        **{f"note_{number}": note for number, note in enumerate(report.notes, 1)},
    }
    known = [f"{key}={_property(value)}\n" for key, value in entries.items() if value]
    files = {
        "environment.properties": "".join(known) or "\n",
        "executor.json": json.dumps(executor(report, os.environ)),
        "categories.json": json.dumps(CATEGORIES, indent=1),
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def _of_cluster(facts: Facts) -> dict[str, str]:
    """The versions, modes and nodes of a cluster."""
    windows = facts.by_os("windows")
    builds = {node.revision for node in windows if node.revision}
    calico = {facts.calico_on(node.name).value or "unknown" for node in windows}
    return {
        **{name: str(getattr(facts, name).value or "unknown") for name in FACTS},
        "windows_calico_versions": ", ".join(sorted(calico)) or "unknown",
        "windows_builds": ", ".join(sorted(builds)) or "unknown",
        "nodes": f"{len(facts.by_os('linux'))} Linux, {len(windows)} Windows",
    }


def executor(report: RunReport, environment: Mapping[str, str]) -> dict[str, str]:
    """Who ran it, as Allure shows it: GitHub Actions, GitLab or Jenkins by their variables, else this suite."""
    told = {
        "buildName": f"run {report.run_id} ({report.evidence or 'no cluster'})",
        "reportName": "Calico for Windows",
    }
    for name, kind, address in (
        (
            "GitHub Actions",
            "github",
            "{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}/actions/runs/{GITHUB_RUN_ID}",
        ),
        ("GitLab", "gitlab", "{CI_JOB_URL}"),
        ("Jenkins", "jenkins", "{BUILD_URL}"),
    ):
        try:
            return {"name": name, "type": kind, "buildUrl": address.format_map(environment), **told}
        except KeyError:
            continue
    return {"name": "calico-windows-conformance", "type": "local", **told}


def add_missing(
    tests: Sequence[TestOutcome], claims: dict[str, Claim], folder: Path, present: set[str]
) -> list[str]:
    """Write a result for every test that has none; returns their ids.  ``present``: :func:`written_tests`."""
    logger: Any = AllureFileLogger(str(folder))  # type: ignore[no-untyped-call]
    now = int(time.time() * 1000)
    added = []
    for test in tests:
        if test.test in present:
            continue
        name = test.test.rpartition("::")[2]
        result = TestResult(
            uuid=uuid4(),  # type: ignore[no-untyped-call]
            name=name,
            fullName=test.test,
            historyId=hashlib.md5(test.test.encode(), usedforsecurity=False).hexdigest(),
            status=STATUS.get(test.verdict, Status.PASSED),
            statusDetails=StatusDetails(message=f"{test.verdict}: {test.reason}"),
            start=now,
            stop=now,
        )
        involved = [claims[ident] for ident in dict.fromkeys(entry.claim for entry in test.results)]
        result.labels = [Label(name=kind, value=value) for kind, value in labels(involved)]
        result.labels += [
            Label(name="story", value=story(name)),
            Label(name="test", value=test.test),
        ]
        logger.report_result(result)
        added.append(test.test)
    return added


def mark_flaky(tests: Sequence[TestOutcome], folder: Path) -> None:
    """Let Allure know that attempts disagreed: its own mark, and the worst verdict's status on the newest attempt."""
    flaky = {test.test: test for test in tests if test.flaky}
    for name, path in newest(folder).items() if flaky else ():
        if test := flaky.get(name):
            content = json.loads(path.read_text(encoding="utf-8"))
            content["status"] = str(STATUS.get(test.verdict, Status.PASSED))
            content["statusDetails"] = {
                "message": test.reason,
                **(content.get("statusDetails") or {}),
                "flaky": True,
            }
            path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def written_tests(folder: Path) -> dict[str, str]:
    """Test (node id) to status, of the results in a folder."""
    found: dict[str, str] = {}
    for path in folder.glob("*-result.json"):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (
            ValueError
        ):  # cut short by a killed worker: as good as absent, and Allure would stumble over it
            path.unlink()
            continue
        if test := label_of(content, "test"):
            found[test] = content["status"]
    return found


def _property(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", " ")
