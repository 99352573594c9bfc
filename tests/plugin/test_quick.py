# SPDX-License-Identifier: Apache-2.0
"""``--quick`` runs the intended tests, and every output reports them as quick."""

from __future__ import annotations

import json
import re

import pytest

from conformance.schedule.order import WORLDS, order
from tests.plugin.selecting import ROOT

from .conftest import Project

NAME = next(name for name in sorted(order().quick) if "[" not in name)
FILE, TEST = NAME.split("::")
SUITE = f"""
@verifies("POL-1", part="{{part}}")
def {TEST}(): pass
@verifies("POL-1", part="tcp-port")
def test_long(): pass
@verifies("VXLAN-9", active=True)
def test_vni(): pass
"""


@pytest.fixture
def project(project: Project) -> Project:
    project.suite(SUITE.replace("{part}", "something"), FILE)
    return project


def test_a_quick_run_chooses_by_the_packaged_list_and_every_output_marks_it(
    project: Project,
) -> None:
    run = project.run("--quick", STAND_IN=json.dumps({}))
    assert [test["test"] for test in run.report["tests"]] == [f"suites/{NAME}"]
    assert run.report["run"]["selection"].startswith("quick run (--quick)")
    assert run.claim("POL-1")["share"].startswith("in 1 of ")
    assert any(note.startswith("quick run") for note in run.report["run"]["notes"])
    assert run.folder is not None
    page = (run.folder / "report.html").read_text()
    assert "quick run (--quick)" in page
    assert f"CONFIRMED {run.claim('POL-1')['share']}" in page


def test_a_quick_run_disrupts_nothing_whatever_its_list_has(project: Project) -> None:
    project.suite(f'@verifies("VXLAN-9", active=True)\ndef {TEST}(): pass\n', FILE)
    run = project.run("--quick", STAND_IN=json.dumps({}))
    assert run.code == 5
    assert "VXLAN-9" not in run.out


def test_a_whole_run_is_not_marked(project: Project) -> None:
    run = project.run(STAND_IN=json.dumps({}))
    assert len(run.report["tests"]) == 3
    assert "selection" not in run.report["run"]
    assert "share" not in run.claim("POL-1")


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--require=core", "--quick runs a part of the tests, and --require needs all"),
        ("--smoke", "--quick and --smoke choose different tests"),
    ],
)
def test_gates_refuse_a_quick_run_before_it_begins(
    project: Project, option: str, said: str
) -> None:
    run = project.run("--quick", option)
    assert run.code == 4
    assert said in run.out


def test_most_of_the_packaged_quick_run_is_still_there() -> None:
    """Names of tests that are renamed stand in the file until it is written anew."""
    texts = {path: path.read_text() for path in (ROOT / "suites").rglob("test_*.py")}
    functions = {
        f"{path.parent.name}/{path.name}::{name}"
        for path, text in texts.items()
        for name in re.findall(r"^def (test_\w+)\(", text, re.M)
    }
    quick = {name.partition("[")[0] for name in order().quick}
    gone = quick - functions
    assert len(gone) <= len(quick) / 10, f"python -m benchmarks.seconds chooses anew: {gone}"
    assert not [name for name in quick if name.startswith(WORLDS)]
