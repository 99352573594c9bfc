# SPDX-License-Identifier: Apache-2.0
"""The jobs in docs/examples/ci use options, targets, sets and files that there are, and need no file of their own."""

from __future__ import annotations

import datetime
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from conformance.catalog import IsolationKind, catalog
from conformance.plugin import options
from conformance.qualify import waivers
from conformance.qualify.sets import sets

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "docs" / "examples" / "ci").iterdir())
OPTIONS = {words.partition("=")[0] for group in options.OPTIONS.values() for words in group}
GUIDE = ROOT / "docs" / "release-qualification.md"
WAIVERS = ROOT / "docs" / "examples" / "waivers.yaml"
RUN = "reports/2026-11-22T10-00-00Z-0a1b2c"
"""A run's folder, as conformance.run.directory names it."""
LEFT = {
    f"{RUN}/{name}"
    for name in (
        "report.html", "conformance.json", "junit.xml", "junit-claims.xml", "allure.html", "allure/x-result.json",
    )
}  # fmt: skip
"""What a run and ``make report`` leave there for a build to keep."""

each_example = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)


@each_example
def test_every_option_of_the_suite_in_an_example_is_one(path: Path) -> None:
    commands = [line for line in path.read_text().splitlines() if ".venv/bin/pytest" in line]
    assert commands
    for option in re.findall(r"(--[a-z-]+)", " ".join(commands)):
        assert option in OPTIONS


@each_example
def test_every_target_of_make_and_every_set_in_an_example_is_one(path: Path) -> None:
    text = path.read_text()
    targets = re.findall(r"\bmake ([a-z-]+)", text)
    assert targets
    makefile = (ROOT / "Makefile").read_text()
    assert [
        target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)
    ] == []
    (required,) = re.findall(r"--require=([a-z,-]+)", text)
    assert sets().named(required)


@each_example
def test_an_example_keeps_everything_that_a_run_leaves_for_others(path: Path) -> None:
    patterns = re.findall(r"reports/20\*/[\w.*/]+", path.read_text())
    kept = {
        file for file in LEFT for pattern in patterns if fnmatch(file, pattern.rstrip("*") + "*")
    }
    assert kept == LEFT


@each_example
def test_an_example_names_no_file_of_its_own_but_the_lane_s_kubeconfig(path: Path) -> None:
    """Copied as it is, the job gets as far as the lane."""
    commands = "".join(line for line in path.read_text().splitlines() if ".venv/bin/pytest" in line)
    assert re.findall(r"--(waivers|attest|baseline|timings|images)\b", commands) == []


def needed(names: str) -> set[str]:
    """Options without which a set can only be incomplete on a cluster that is named."""
    found = set()
    for claim in (
        catalog()[demand.claim] for each in sets().named(names) for demand in each.demands
    ):
        if claim.isolation.kind is IsolationKind.NODE_EXCLUSIVE:
            found.add("--allow-disruptive")
        if claim.isolation.kind is IsolationKind.DISRUPTIVE:
            found.add("--allow-cluster-disruptive")
        if claim.needs.external_target:
            found.add("--external-target")
    return found


@each_example
def test_an_example_allows_what_the_sets_that_it_requires_need(path: Path) -> None:
    """Else its gate is incomplete every night, for every release."""
    (command,) = (line for line in path.read_text().splitlines() if "--require=" in line)
    (required,) = re.findall(r"--require=([a-z,-]+)", command)
    assert needed(required) - set(re.findall(r"--[a-z-]+", command)) == set()


@pytest.mark.parametrize("name", sets())
def test_the_page_for_release_managers_names_what_a_set_needs(name: str) -> None:
    (row,) = re.findall(rf"^\| `{name}` \|.*$", GUIDE.read_text(), re.MULTILINE)
    assert set(re.findall(r"`(--[a-z-]+)", row)) == needed(name)


def test_githubs_runners_execute_the_programs_for_windows() -> None:
    """Their Linux image has PowerShell 7; elsewhere these tests are skipped where it is missing."""
    steps = yaml.safe_load((EXAMPLES[0].parent / "github-actions.yaml").read_text())["jobs"][
        "powershell"
    ]["steps"]
    assert [step["run"] for step in steps if "run" in step][1:] == [
        "pwsh --version", ".venv/bin/pytest tests/contract -k pwsh -n auto",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "path", [path for path in EXAMPLES if path.suffix == ".yaml"], ids=lambda path: path.name
)
def test_an_example_in_yaml_can_be_read(path: Path) -> None:
    assert isinstance(yaml.safe_load(path.read_text()), dict)


def test_the_waivers_of_the_example_can_be_used_and_are_about_what_a_set_demands() -> None:
    found = waivers.load(WAIVERS, catalog(), datetime.date(2026, 11, 22))
    demanded = {demand.claim for each in sets().values() for demand in each.demands}
    assert {waiver.claim for waiver in found} <= demanded
    assert all(waiver.link.startswith("https://") for waiver in found)


def test_the_answer_of_make_conformance_asks_for_every_set() -> None:
    (asked,) = re.findall(
        r"^SETS = (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert asked.split(",") == [*sets()]


GATE = ROOT / ".ci" / "run"
WORKFLOW = ROOT / ".github" / "workflows" / "gate.yaml"
PARTS = {"test": {"check", "check-selftest"}}
"""Steps of the gate that are several jobs of the workflow."""


def test_the_gates_steps_have_limits_of_80_minutes_in_all() -> None:
    limits = re.findall(r"^step (\d+) .*\bmake ", GATE.read_text(), re.MULTILINE)
    assert len(limits) == len(re.findall(r"^step ", GATE.read_text(), re.MULTILINE))
    assert sum(map(int, limits)) <= 80


def test_the_workflow_runs_what_the_gate_runs_and_nothing_that_is_no_target() -> None:
    gate = set(re.findall(r"^step \d+ .*\bmake ([a-z-]+)", GATE.read_text(), re.MULTILINE))
    jobs = yaml.safe_load(WORKFLOW.read_text())["jobs"]["gate"]["strategy"]["matrix"]["include"]
    run = {job["command"].split()[0] for job in jobs}
    assert run == {part for step in gate for part in PARTS.get(step, {step})}
    makefile = (ROOT / "Makefile").read_text()
    assert [
        target for target in run | gate if not re.search(rf"^{target}:", makefile, re.MULTILINE)
    ] == []
