# SPDX-License-Identifier: Apache-2.0
"""No test judges a cluster that another test has changed until the change is restored, whoever
restores it, and even if nobody can."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from .conftest import Project, Run

DIES = """
import os, signal
from pathlib import Path

@verifies("VXLAN-10")
@pytest.mark.parametrize("number", range(4))
def test_cluster(number, run_directory, record):
    try:
        Path("died").touch(exist_ok=False)
    except FileExistsError:
        record(epoch=run_directory.epoch())
        assert "put back is done" in Path("cluster.log").read_text()
    else:
        os.kill(os.getpid(), signal.SIGKILL)
"""
"""The first of them dies; the others judge."""
DEAD = r"suites/test_it\.py::test_cluster\[\d\]"


def others(run: Run) -> list[dict[str, Any]]:
    """The results of those that did not die."""
    results = run.claim("VXLAN-10")["results"]
    found = [result for result in results if "crashed while running" not in result["reason"]]
    assert (len(results), len(found)) == (4, 3)
    return found


def test_tests_wait_until_a_dead_workers_changes_are_put_back(project: Project) -> None:
    project.suite(DIES)
    run = project.run("-n", "2", STAND_IN=json.dumps({"putting back takes": 0.7}))
    found = others(run)
    assert {item["verdict"] for item in found} == {"CONFIRMED"}
    assert all(item["measured"]["epoch"] for item in found), "what is kept was looked at again"
    assert re.search(
        f"waits until the changes of {DEAD} are restored, since its worker gw. died", run.out
    )


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"not put back": "not restored: the VNI"}, "not restored: the VNI"),
        (
            {"put back fails": "no API"},
            "it is not known whether everything was restored: no API; pytest --restore",
        ),
    ],
    ids=["not-restored", "not-known"],
)
def test_what_is_not_put_back_makes_the_tests_after_it_inconclusive(
    project: Project, told: dict[str, str], why: str
) -> None:
    project.suite(DIES)
    run = project.run("-n", "2", STAND_IN=json.dumps(told))
    assert run.code == 6
    last = next(line for line in run.out.splitlines() if line.startswith("report: "))
    assert "(exit code 6: " in last
    assert why in last or not why.startswith("not restored")
    for other in others(run):
        assert other["verdict"] == "INCONCLUSIVE"
        assert re.search(
            f"cluster may differ from its state before {DEAD}, "
            f"whose changes are not restored: {why}",
            other["reason"],
        )


def test_tests_do_not_wait_for_ever(project: Project) -> None:
    project.suite(DIES)
    (project.path / "timings.yaml").write_text("run:\n  put_back: 300 ms\n")
    run = project.run(
        "-n", "2", "--timings=timings.yaml", STAND_IN=json.dumps({"putting back takes": 2})
    )
    assert run.code == 6
    waited = [
        other
        for other in others(run)
        if "died, and its changes were not restored in 0.3 s" in other["reason"]
    ]
    assert waited
    assert {item["verdict"] for item in waited} == {"INCONCLUSIVE"}


def test_a_test_that_cannot_put_back_spoils_its_node_and_no_other(project: Project) -> None:
    project.suite(
        """
from conformance.plugin import state

@pytest.fixture
def changed(pytestconfig, number):
    yield
    with state.of(pytestconfig).restoration.putting_back():
        if number == 0:
            raise EnvironmentBroken("not restored: Felix")

@verifies("RST-3")
@pytest.mark.parametrize("number", range(4))
def test_node(number, changed):
    pass

@verifies("VXLAN-10")
def test_cluster():
    raise AssertionError("never reached")
"""
    )
    run = project.run("-n", "0")
    found = {test["test"].rpartition("::")[2]: test["verdict"] for test in run.report["tests"]}
    assert found["test_node[0]"] == found["test_node[2]"] == found["test_cluster"] == "INCONCLUSIVE"
    assert found["test_node[1]"] == found["test_node[3]"] == "CONFIRMED"
    assert run.claim("VXLAN-10")["reason"].endswith(
        "node win-0 may differ from its state before suites/test_it.py::test_node[0], "
        "whose changes are not restored: "
        "not restored: Felix"
    )


def test_a_problem_of_the_whole_cluster_keeps_tests_of_other_nodes_from_beginning(
    project: Project,
) -> None:
    project.suite(
        """
from conformance.plugin import state

@pytest.fixture
def changed(pytestconfig, number):
    yield
    with state.of(pytestconfig).restoration.putting_back(everywhere=True):
        if number == 0:
            raise EnvironmentBroken("node win-1 is not Ready again")

@verifies("RST-3")
@pytest.mark.parametrize("number", range(4))
def test_node(number, changed):
    assert number == 0, "it began"
"""
    )
    run = project.run("-n", "0")
    assert run.code == 6
    tests = {test["test"].rpartition("::")[2]: test for test in run.report["tests"]}
    assert tests["test_node[0]"]["reason"] == "in clearing up: node win-1 is not Ready again"
    for number in (1, 2, 3):
        assert tests[f"test_node[{number}]"]["verdict"] == "INCONCLUSIVE"
        assert tests[f"test_node[{number}]"]["reason"].endswith(
            "not restored: node win-1 is not Ready again"
        )


def test_a_test_that_cannot_put_back_judges_nothing_when_it_is_tried_again(
    project: Project,
) -> None:
    project.suite(
        """
from pathlib import Path
from conformance.plugin import state

@pytest.fixture
def changed(pytestconfig):
    yield
    with state.of(pytestconfig).restoration.putting_back():
        raise EnvironmentBroken("not restored: Felix")

@verifies("RST-3")
def test_node(changed):
    Path("tried").touch(exist_ok=False)
"""
    )
    run = project.run("-n", "0", "--reruns", "1")
    assert "1 rerun" in run.out
    assert run.claim("RST-3")["reason"] == "in clearing up: not restored: Felix"
    assert "FileExistsError" not in run.out


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize(
    ("named", "told", "waited"),
    [
        (
            "--kubeconfig=lane",
            {"gone": "no answer for 40 s", "not put back": "VNI 4096 -> 4097 stays"},
            True,
        ),
        ("--kubeconfig=lane", {"gone": "no answer for 40 s"}, False),
        ("--kubeconfig=lane", {"not put back": "VNI 4096 -> 4097 stays"}, False),
        (
            "--no-watch",
            {"gone": "no answer for 40 s", "not put back": "VNI 4096 -> 4097 stays"},
            False,
        ),
    ],
    ids=["a-change-stays", "nothing-stays", "it-answers", "with-the-lab"],
)
def test_a_cluster_that_went_away_changed_is_tried_for_a_while(
    project: Project, workers: str, named: str, told: dict[str, str], waited: bool
) -> None:
    project.suite('@verifies("CONN-1")\ndef test_it(): pass')
    run = project.run("-n", workers, named, STAND_IN=json.dumps(told))
    lines = (project.path / "cluster.log").read_text().splitlines()
    assert ("away 900" in lines) == waited
    said = "the API server does not answer; this run tries for up to 15 min to restore what it has changed: VNI 4096"
    assert (said in run.out) == waited
