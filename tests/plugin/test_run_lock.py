# SPDX-License-Identifier: Apache-2.0
"""The run lock is taken before the first test if an exclusive test is planned, and released
after the last test."""

from __future__ import annotations

import json
import time

import pytest

from .conftest import Project

SUITE = """
@verifies("VXLAN-10")
def test_cluster(): pass

@verifies("CONN-1")
def test_shared(): pass
"""


def log(project: Project) -> list[str]:
    lines = (project.path / "cluster.log").read_text().splitlines()
    return [
        line
        for line in lines
        if line in ("lock", "unlock", "clean_up", "close") or line.startswith("enter")
    ]


@pytest.mark.parametrize("workers", ["0", "2"])
def test_it_is_held_from_the_first_test_to_the_last_change(project: Project, workers: str) -> None:
    project.suite(SUITE)
    assert project.run("-n", workers, "--kubeconfig=lane", "--allow-cluster-disruptive").code == 0
    told = list(dict.fromkeys(line.partition(" ")[0] for line in log(project)))
    assert told == ["lock", "enter", "clean_up", "unlock", "close"]


@pytest.mark.parametrize(
    "arguments", [("-k", "test_shared"), ("--no-disruptive",), ("--plan",)], ids=str
)
def test_it_is_not_taken_when_nothing_exclusive_will_run(
    project: Project, arguments: tuple[str, ...]
) -> None:
    project.suite(SUITE)
    project.run(*arguments)
    assert "lock" not in log(project)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_one_that_another_run_holds_is_7_and_no_test_runs(project: Project, workers: str) -> None:
    project.suite(SUITE)
    run = project.run(
        "-n", workers, STAND_IN='{"held": "run 3f2a1c of me@here, since 10:00 has the run lock"}'
    )
    assert run.code == 7
    assert (
        "cannot run on this cluster: run 3f2a1c of me@here, since 10:00 has the run lock" in run.out
    )
    assert not [line for line in log(project) if line.startswith("enter")]
    assert {test["verdict"] for test in run.report["tests"]} == {"NOT_RUN"}
    assert "run 3f2a1c" in run.claim("VXLAN-10")["reason"]


@pytest.mark.parametrize("workers", ["0", "2"])
def test_one_whose_last_holder_died_and_left_the_cluster_changed_is_7_and_no_test_runs(
    project: Project, workers: str
) -> None:
    project.suite(SUITE)
    run = project.run(
        "-n",
        workers,
        STAND_IN='{"unrestored": ["run 3f2a1c died and left 1 change; put it back first"]}',
    )
    assert run.code == 7
    assert (
        "cannot run on this cluster: run 3f2a1c died and left 1 change; put it back first"
        in run.out
    )
    assert not [line for line in log(project) if line.startswith("enter")]
    assert "unlock" in log(project)


def test_one_that_was_lost_is_noted(project: Project) -> None:
    project.suite(SUITE)
    run = project.run(STAND_IN='{"lost": "run x has taken the run lock from this run, y"}')
    assert run.report["run"]["notes"][-1].startswith(
        "run x has taken the run lock from this run, y: nothing beyond"
    )


@pytest.mark.parametrize("workers", ["0", "2"])
def test_without_the_right_to_it_exclusive_tests_do_not_run_and_the_claims_are_named(
    project: Project, workers: str
) -> None:
    project.suite(SUITE)
    run = project.run(
        "-n", workers, STAND_IN='{"no_lock": "runner may not create leases.coordination.k8s.io"}'
    )
    assert (run.verdict("VXLAN-10"), run.verdict("CONN-1")) == ("NOT_RUN", "CONFIRMED")
    assert run.claim("VXLAN-10")["reason"] == "runner may not create leases.coordination.k8s.io"
    assert (
        "runner may not create leases.coordination.k8s.io; not decided for that reason: VXLAN-10"
        in run.report["run"]["notes"]
    )
    assert "lock" not in log(project)


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize(("seconds", "verdict"), [(60, "NOT_RUN"), (86400, "CONFIRMED")])
def test_nothing_is_changed_that_could_not_be_put_back_before_the_credentials_end(
    project: Project, workers: str, seconds: int, verdict: str
) -> None:
    project.suite(SUITE)
    ends = json.dumps({"token_ends": time.time() + seconds})
    run = project.run(
        "-n", workers, "--kubeconfig=lane", "--allow-cluster-disruptive", STAND_IN=ends
    )
    assert (run.verdict("VXLAN-10"), run.verdict("CONN-1")) == (verdict, "CONFIRMED")
    assert ("the user's credentials end at " in run.claim("VXLAN-10")["reason"]) == (
        verdict == "NOT_RUN"
    )
    assert ("lock" in log(project)) == (verdict == "CONFIRMED")
