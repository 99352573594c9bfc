# SPDX-License-Identifier: Apache-2.0
"""A run that cannot begin, or that tested nothing of its selection, ends with exit code 4 or 7."""

from __future__ import annotations

import pytest

from tests.plugin.waiting import MANY

from .conftest import Project


@pytest.mark.parametrize("minutes", ["0", "-1", "nan"])
def test_minutes_in_which_nothing_could_run_are_refused(project: Project, minutes: str) -> None:
    project.suite('@verifies("CONN-1")\ndef test_it(): pass')
    run = project.run(f"--max-minutes={minutes}")
    assert run.code == 4
    assert f"--max-minutes {minutes}: expected more than 0" in run.out


def test_fewer_workers_than_none_are_refused_before_a_lab_is_started(project: Project) -> None:
    run = project.run("-n", "-2")
    assert (run.code, run.out.strip()) == (4, "ERROR: -n -2: expected 0 or more workers")


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["suites/nope"], 4, "suites/nope: there is no such file or folder"),
        (["-m", "nosuchmark"], 4, "no test has the mark nosuchmark; there are "),
        (["--clam=CONN-1"], 4, "--clam=CONN-1: no such option; did you mean --claim?"),
        (["--claim=CONN-1", "-k", "dns"], 5, "no test exists yet for dns: CONN-6"),
        (["--claim=DEMO-2", "-k", "node-to-pod"], 5, "DEMO-2 is not among -k 'node-to-pod'"),
    ],
)
def test_what_does_not_exist_is_said_in_one_line_before_a_lab_is_started(
    project: Project, arguments: list[str], code: int, told: str
) -> None:
    project.suite(MANY % "pass")
    run = project.run(*arguments)
    assert run.code == code
    assert told in run.out
    assert not (project.path / "cluster.log").exists()


def test_unusable_clusters_are_7_with_all_reasons(project: Project) -> None:
    project.suite('@verifies("CONN-1")\ndef test_it(): pass')
    run = project.run(STAND_IN='{"reasons": ["no Windows node", "may not create pods"]}')
    assert run.code == 7
    assert "no Windows node" in run.out
    assert "may not create pods" in run.out
    assert run.folder is not None


def test_a_cluster_that_breaks_while_it_is_looked_at_is_7_in_one_line(project: Project) -> None:
    project.suite('@verifies("CONN-1")\ndef test_it(): pass')
    run = project.run(STAND_IN='{"broken": "namespace x is still there\\n  finalizers none"}')
    assert run.code == 7
    assert "ERROR: cannot run on this cluster: namespace x is still there\n" in run.out
    assert "Traceback" not in run.out


def test_a_refused_kubeconfig_is_4_in_one_line(project: Project) -> None:
    project.suite('@verifies("CONN-1")\ndef test_it(): pass')
    run = project.run(
        "--kubeconfig",
        "missing.yaml",
        STAND_IN='{"usage": "kubeconfig missing.yaml: no such file"}',
    )
    assert run.code == 4
    assert "ERROR: kubeconfig missing.yaml: no such file" in run.out
    assert not list((project.path / "reports").glob("2*"))


@pytest.mark.parametrize("workers", ["0", "2"])
def test_windows_tests_that_found_no_windows_node_are_7(project: Project, workers: str) -> None:
    project.suite('@verifies("CONN-3")\ndef test_it(): pass')
    run = project.run("-n", workers, STAND_IN='{"windows": 0}')
    assert run.code == 7
    assert "note: no test that needs a Windows node ran (1 selected)" in run.out


def test_windows_tests_that_only_touched_linux_pods_are_7(project: Project) -> None:
    project.suite('@verifies("CONN-3")\ndef test_it(record): record.touched(["linux"])')
    run = project.run()
    assert run.code == 7
    assert "no test that needs a Windows node used a pod on one (1 ran)" in run.out


def test_a_selection_of_linux_parts_is_no_selection_of_windows_tests(project: Project) -> None:
    project.suite(
        '@verifies("CONN-3", part="linux->linux pod-ip")\ndef test_it(record): record.touched(["linux"])'
    )
    assert project.run().code == 0


@pytest.mark.parametrize("workers", ["0", "2"])
def test_wrong_marks_are_4_before_anything_runs(project: Project, workers: str) -> None:
    project.suite('@verifies("CONN-99")\ndef test_it(): pass')
    run = project.run("-n", workers)
    assert run.code == 4
    assert "verifies('CONN-99'): no such claim" in run.out


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("def test_it(): pass", "verifies no claim"),
        ('@verifies("CONN-1", part="{os}")\ndef test_it(): pass', "has parameters none"),
    ],
)
def test_tests_that_do_not_say_what_they_decide_are_4(
    project: Project, workers: str, body: str, words: str
) -> None:
    project.suite(body)
    run = project.run("-n", workers)
    assert run.code == 4
    assert words in run.out


def test_a_test_file_that_cannot_be_imported_is_not_green(project: Project) -> None:
    project.suite("import nonsense_that_is_not_there")
    assert project.run().code == 2
