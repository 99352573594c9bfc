# SPDX-License-Identifier: Apache-2.0
"""The parts of Allure's results that its plugin does not write: labels by claim, environment,
categories, missing results.

The plugin writes a result only when a test ends. Tests without a result, because a worker died or
the run ended early, are added from the run's outcomes. Thus JSON, JUnit and Allure agree.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from conformance.catalog import Claim
from conformance.model.facts import Facts
from conformance.printing import single
from conformance.report.allure_words import STATUS, added, involved, label_of, write, written
from conformance.report.probing import lines
from conformance.report.run import RunReport

CATEGORIES = [
    {"name": str(verdict), "messageRegex": f"(?s)^{verdict}\\b.*", "matchedStatuses": [str(status)]}
    for verdict, status in STATUS.items()
]
"""The categories that Allure 2 reads; Allure 3 reads its categories from its own configuration
(:mod:`conformance.report.html`)."""


FACTS = (
    "calico_version",
    "kubernetes_version",
    "mode",
    "datastore",
    "install",
    "platform",
    "kube_proxy_mode",
)
"""Facts about the cluster that are written into environment.properties."""
OF_NO_CLAIM = "The suite itself"
"""The area of a test that decides no claim, such as the test of the probes' own protocol."""


def labels(claims: Sequence[Claim]) -> list[tuple[str, str]]:
    """Return (kind, value) of a test's labels: the epic is the area, the feature is the claim, the
    story is the test itself, and the tags are the catalog's tags."""
    pairs = [("epic", claim.area) for claim in claims] or [("epic", OF_NO_CLAIM)]
    pairs += [("feature", f"{claim.id} {claim.statement}") for claim in claims]
    pairs += [("claim", claim.id) for claim in claims]
    pairs += [("tag", tag) for tag in sorted({tag for claim in claims for tag in claim.tags})]
    return list(dict.fromkeys(pairs))


def story(test: str) -> str:
    """Return a test's name as a sentence, which is the same for all parameters of the test."""
    return test.partition("[")[0].removeprefix("test_").replace("_", " ")


def write_surroundings(report: RunReport, folder: Path) -> None:
    """Write environment.properties, executor.json and categories.json."""
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
    known = [
        # escaped as a properties file requires
        f"{key}=" + single(value).replace("\\", "\\\\") + "\n"
        for key, value in entries.items()
        if value
    ]
    files = {
        "environment.properties": "".join(known) or "\n",
        "executor.json": json.dumps(executor(report, os.environ)),
        "categories.json": json.dumps(CATEGORIES, indent=1),
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def _of_cluster(facts: Facts) -> dict[str, str]:
    """Return the versions, modes and nodes of a cluster."""
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
    """Return the executor for Allure: GitHub Actions, GitLab or Jenkins if their environment
    variables are set, otherwise this suite.
    """
    build = {
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
            return {
                "name": name,
                "type": kind,
                "buildUrl": address.format_map(environment),
                **build,
            }
        except KeyError:
            continue
    return {"name": "calico-windows-conformance", "type": "local", **build}


def add_missing(report: RunReport, folder: Path) -> None:
    """Write a result for every test that has no result file."""
    present = written_tests(folder)
    claims = {outcome.claim.id: outcome.claim for outcome in report.claims}
    for test in report.tests:
        if test.test not in present:
            name = test.test.rpartition("::")[2]
            words = [
                *labels(involved(test, claims)),
                ("story", story(name)),
                ("test", test.test),
            ]
            write(added(test.test, name, test, words, report), folder)


def written_tests(folder: Path) -> dict[str, str]:
    """Map each test (by node id) to its status in the results of a folder."""
    return {
        test: content["status"]
        for _, content in written(folder, "*-result.json")
        if (test := label_of(content, "test"))
    }
