# SPDX-License-Identifier: Apache-2.0
"""The jobs in docs/examples/ci use existing options, targets, sets and files, and need no other
file."""

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
    """Copied without a change, the job runs up to its connection to the lane's cluster."""
    commands = "".join(line for line in path.read_text().splitlines() if ".venv/bin/pytest" in line)
    assert re.findall(r"--(waivers|attest|baseline|timings|images)\b", commands) == []


def needed(names: str) -> set[str]:
    """Return the options that a set needs on a named cluster, or it is always incomplete."""
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
        "pwsh --version", "make check-powershell",
    ]  # fmt: skip


@each_example
def test_an_example_has_the_job_that_executes_the_programs_for_windows(path: Path) -> None:
    assert re.search(r"\bmake check-powershell\b", path.read_text())


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


GITHUB = [EXAMPLES[0].parent / "github-actions.yaml", *(ROOT / ".github" / "workflows").iterdir()]
each_of_github = pytest.mark.parametrize("path", GITHUB, ids=lambda path: path.name)


@each_of_github
def test_actions_are_pinned_by_commit_and_named_by_version(path: Path) -> None:
    used = re.findall(r"uses: *(.*)$", path.read_text(), re.MULTILINE)
    assert used
    pinned = re.compile(r"actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [line for line in used if not pinned.fullmatch(line)] == []


def test_one_version_of_an_action_is_one_commit_everywhere() -> None:
    used = {
        line
        for path in GITHUB
        for line in re.findall(r"uses: *(.*)$", path.read_text(), re.MULTILINE)
    }
    assert len(used) == len({line.partition("@")[0] for line in used})


@each_of_github
def test_a_workflow_may_read_the_repository_and_nothing_else(path: Path) -> None:
    text = path.read_text()
    found = yaml.safe_load(text)
    assert found["permissions"] == {"contents": "read"}
    assert text.count("permissions:") == 1


@each_of_github
def test_no_checkout_leaves_the_repositorys_token_in_the_clone(path: Path) -> None:
    steps = [
        step for job in yaml.safe_load(path.read_text())["jobs"].values() for step in job["steps"]
    ]
    checkouts = [step for step in steps if step.get("uses", "").startswith("actions/checkout@")]
    assert checkouts
    kept = [step for step in checkouts if (step.get("with") or {}).get("persist-credentials", True)]
    assert kept == [], "with: {persist-credentials: false}"


@each_of_github
def test_no_command_is_made_of_an_expression_of_the_workflow(path: Path) -> None:
    """GitHub puts its value into the script as it is; a value of the environment is only text."""
    assert re.findall(r"^ *(?:- )?run: .*\$\{\{.*$", path.read_text(), re.MULTILINE) == []


@each_of_github
def test_a_second_run_of_a_workflow_does_not_work_beside_the_first(path: Path) -> None:
    found = yaml.safe_load(path.read_text())
    assert isinstance(found["concurrency"]["cancel-in-progress"], bool)
    assert found["concurrency"]["group"].startswith(found["name"])


def jobs(path: Path) -> dict[str, str]:
    """The jobs of an example, as text."""
    if path.suffix == ".yaml":
        content = yaml.safe_load(path.read_text())
        found = content.get("jobs", content)
        if content.get("kind") == "CronWorkflow":
            templates = content["spec"]["workflowSpec"]["templates"]
            found = {template["name"]: template for template in templates}
        return {name: yaml.safe_dump(job, width=1000) for name, job in found.items()}
    stages = re.split(r"\n    stage\('", path.read_text())[1:]
    return {stage.partition("'")[0]: stage for stage in stages}


@each_example
def test_what_npm_installs_runs_where_no_kubeconfig_is(path: Path) -> None:
    with_npm = {name: job for name, job in jobs(path).items() if "npm install" in job}
    (job,) = with_npm.values()
    assert not re.search(r"kubeconfig|LANE|secrets\.|withCredentials|environment:", job)
    assert re.search(r"npm install --no-save --ignore-scripts allure@\d+\.\d+\.\d+", job)
    assert "reports/history.jsonl" in job
    assert "conformance.report.html reports/20*" in job


@each_example
def test_a_violation_is_counted_once_and_both_files_are_kept(path: Path) -> None:
    """junit-claims.xml counts what junit.xml counts once more, by claim."""
    text = path.read_text()
    shown = re.findall(r"junit: (\S+)|junit testResults: '([^']+)'", text)
    assert {found for pair in shown for found in pair if found} <= {"reports/20*/junit.xml"}
    assert "reports/20*/junit*.xml" in text


def test_the_kubeconfig_of_the_example_for_github_is_gone_before_anything_else_runs() -> None:
    steps = yaml.safe_load(GITHUB[0].read_text())["jobs"]["conformance"]["steps"]
    runs = [step.get("run", "") for step in steps]
    (made,) = (number for number, run in enumerate(runs) if '> "$RUNNER_TEMP/lane.yaml"' in run)
    assert ".venv/bin/pytest" in runs[made + 1]
    assert runs[made + 2] == 'rm -f "$RUNNER_TEMP/lane.yaml"'
    assert steps[made + 2]["if"] == "always()"


GATE = ROOT / ".ci" / "run"
WORKFLOW = ROOT / ".github" / "workflows" / "gate.yaml"
PARTS = {"test": {"check", "check-selftest"}}
"""Steps of the gate that are several jobs of the workflow."""


def test_the_gates_steps_have_limits_of_80_minutes_in_all() -> None:
    limits = re.findall(r"^ *step (\d+) .*\bmake ", GATE.read_text(), re.MULTILINE)
    assert len(limits) == len(re.findall(r"^ *step \d", GATE.read_text(), re.MULTILINE))
    assert sum(map(int, limits)) <= 80


def test_the_workflow_runs_what_the_gate_runs_and_nothing_that_is_no_target() -> None:
    gate = set(re.findall(r"^ *step \d+ .*\bmake ([a-z-]+)", GATE.read_text(), re.MULTILINE))
    jobs = yaml.safe_load(WORKFLOW.read_text())["jobs"]["gate"]["strategy"]["matrix"]["include"]
    run = {job["command"].split()[0] for job in jobs}
    assert run == {part for step in gate for part in PARTS.get(step, {step})}
    makefile = (ROOT / "Makefile").read_text()
    assert [
        target for target in run | gate if not re.search(rf"^{target}:", makefile, re.MULTILINE)
    ] == []


def test_each_stage_on_jenkins_has_an_agent() -> None:
    """There is none for all, so that Allure may run on another: a step without an agent fails."""
    text = (EXAMPLES[0].parent / "Jenkinsfile").read_text()
    assert re.search(r"^  agent none$", text, re.MULTILINE)
    _, *stages = re.split(r"\n    stage\(", text)
    assert len(stages) == 3
    assert [
        stage for stage in stages if not re.search(r"^      agent any$", stage, re.MULTILINE)
    ] == []


@each_example
def test_reports_are_kept_for_a_table_of_claims_by_runs(path: Path) -> None:
    """No kubeconfig is needed, because the table is made from the reports of the runs."""
    (job,) = (job for job in jobs(path).values() if "calico-conformance matrix" in job)
    assert not re.search(r"kubeconfig|LANE|secrets\.|withCredentials|environment:", job)
    assert re.search(r"conformance\.json\\?\" \\?\"/?history/", job)
    assert "--html=reports/matrix.html" in job


def test_the_example_for_argo_has_a_task_for_each_template_and_one_gate_over_both_lanes() -> None:
    path = EXAMPLES[0].parent / "argo-workflows.yaml"
    templates = yaml.safe_load(path.read_text())["spec"]["workflowSpec"]["templates"]
    dag, *others = templates
    tasks = {task["name"]: task for task in dag["dag"]["tasks"]}
    assert {task["template"] for task in tasks.values()} == {each["name"] for each in others}
    lanes = [name for name, task in tasks.items() if task["template"] == "lane"]
    assert tasks["gate"]["depends"] == " && ".join(lanes)
    taken = {each["name"] for each in tasks["gate"]["arguments"]["artifacts"]}
    assert taken == set(lanes)
    with_secret = [each["name"] for each in others if "secret" in yaml.safe_dump(each)]
    assert with_secret == ["lane"]
