# SPDX-License-Identifier: Apache-2.0
"""A run that continues another run runs the tests that were left open, and its report has both
runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.catalog.loading import digest
from conformance.errors import UsageProblem
from conformance.model.claim import ClaimVerdict
from conformance.plugin import rerun as reruns
from conformance.plugin.rerun import AGAIN, Rerun, rerun_of
from conformance.report.run import RunReport
from conformance.verdicts.claims import TestOutcome
from tests.unit.conformance.qualify.reports import NEW, decided, report

TESTS = [
    {"test": "t::a", "verdict": "VIOLATED"},
    {"test": "t::b", "verdict": "CONFIRMED"},
    {"test": "t::c", "verdict": "NOT_RUN"},
]


def plain(**change: Any) -> dict[str, Any]:
    """A stored report of three tests of which two are open."""
    made = dict(report([decided("DEMO-7", {NEW: "VIOLATED"})]).plain)
    made["run"] = made["run"] | {"command": "pytest -n 2"}
    made |= {"suite": {"catalog": digest()}, "installed": {"cluster_uid": "u"}, "tests": TESTS}
    return made | change


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "conformance.json").write_text(json.dumps(plain()))
    return tmp_path


def test_tests_that_are_open_are_run_again(path: Path) -> None:
    rerun = Rerun.of(str(path), own_lab=False)
    assert rerun.tests == {"t::a", "t::c"}
    assert not rerun.whole


def test_a_run_on_a_lab_of_its_own_cannot_be_continued(path: Path) -> None:
    with pytest.raises(UsageProblem, match=r"--rerun-of .*: name the cluster of that report"):
        Rerun.of(str(path), own_lab=True)


def config(path: Path | None, **option: Any) -> Any:
    """pytest's config with --rerun-of."""
    given = {"rerun_of": path and str(path), "kubeconfig": None, "context": None, "cluster": None}
    return SimpleNamespace(option=SimpleNamespace(**given | option), stash={})


@pytest.mark.parametrize(
    ("option", "refused"),
    [
        ({}, True),
        ({"cluster": "lab"}, True),
        ({"cluster": "kubeconfig"}, False),
        ({"kubeconfig": "k"}, False),
        ({"context": "c", "cluster": "lab"}, False),
    ],
)
def test_a_run_has_to_name_the_cluster(path: Path, option: dict[str, Any], refused: bool) -> None:
    if refused:
        with pytest.raises(UsageProblem, match="name the cluster"):
            reruns.tests_to_run(config(path, **option))
    else:
        assert reruns.tests_to_run(config(path, **option)) == frozenset({"t::a", "t::c"})


def test_without_the_option_all_tests_run_and_the_report_is_read_once(path: Path) -> None:
    assert reruns.tests_to_run(config(None)) is None
    asked = config(path, kubeconfig="k")
    first = rerun_of(asked)
    (path / "conformance.json").unlink()
    assert rerun_of(asked) is first is not None


@pytest.mark.parametrize(("given", "tests"), [(None, None), (["t::a"], {"t::a"}), ([], set())])
def test_a_worker_runs_what_its_controller_says(given: Any, tests: set[str] | None) -> None:
    worker: Any = SimpleNamespace(workerinput={AGAIN: given})
    assert reruns.tests_to_run(worker) == tests


def test_the_report_says_what_each_test_was_before_and_is_now(path: Path) -> None:
    rerun = Rerun.of(str(path), own_lab=False)
    now = [
        TestOutcome(test="t::a", verdict=ClaimVerdict.CONFIRMED),
        TestOutcome(test="t::d", verdict=ClaimVerdict.VIOLATED),
    ]
    found = rerun.continued(now)
    assert (found.id, found.command) == ("r1", "pytest -n 2")
    assert found.again == {"t::a": ("VIOLATED", "CONFIRMED"), "t::d": ("", "VIOLATED")}
    both = {each.test: str(each.verdict) for each in rerun.together(now)}
    assert both["t::b"] == "CONFIRMED"
    assert both["t::d"] == "VIOLATED"
    assert list(both) == ["t::a", "t::b", "t::c", "t::d"]


@pytest.mark.parametrize(
    ("before", "now", "joined"),
    [("", "", ""), ("x", "", "x"), ("", "y", "y"), ("x", "y", "x")],
)
def test_a_report_is_unverified_if_either_run_was(
    path: Path, before: str, now: str, joined: str
) -> None:
    made = Rerun.of(str(path), own_lab=False)
    run = dict(made.report.run) | ({"unverified": before} if before else {})
    rerun = replace(made, report=replace(made.report, run=run))
    mine = RunReport(
        run_id="r2", started="2026-11-21T10:00:00Z", seconds=1.0, exit_code=0, command="pytest",
        cluster={}, facts=None, tests=(), claims=(), unverified=now,
    )  # fmt: skip
    found = rerun.join(mine, [], [])
    assert (found.unverified, found.continues and found.continues.id) == (joined, "r1")
