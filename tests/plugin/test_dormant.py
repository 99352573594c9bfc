# SPDX-License-Identifier: Apache-2.0
"""The plugin does nothing in runs of tests that do not belong to the suite."""

from __future__ import annotations

import pytest

from .conftest import Project
from .small_suite import SUITE


@pytest.fixture
def project(project: Project) -> Project:
    project.suite(SUITE)
    return project


def test_tests_of_the_library_wake_nothing(project: Project) -> None:
    project.suite("def test_it(): assert True", folder="tests")
    run = project.run("tests")
    assert run.code == 0
    assert not (project.path / "cluster.log").exists()
    assert not (project.path / "reports").exists()
    assert "1 passed" in run.out


@pytest.mark.parametrize("arguments", [["."], ["suites"], ["suites/test_it.py::test_names"], []])
def test_anything_below_suites_wakes_it(project: Project, arguments: list[str]) -> None:
    run = project.run(*arguments)
    assert run.code == 0, run.out
    assert (project.path / "cluster.log").exists()


def test_it_wakes_from_a_directory_below_too(project: Project) -> None:
    process = project.start("test_it.py::test_names", directory="suites")
    assert project.finish(process).code == 0
    assert (project.path / "cluster.log").exists()


def test_a_report_directory_given_as_a_word_of_its_own_does_not_lead_workers_astray(
    project: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    project.suite('@verifies("CONN-1")\ndef test_one(facts): pass')
    outside = tmp_path_factory.mktemp("outside") / "reports"
    run = project.run("-n", "2", "--report-dir", str(outside))
    assert run.code == 0, run.out
    assert (outside / "latest" / "conformance.json").exists()
