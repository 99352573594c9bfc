# SPDX-License-Identifier: Apache-2.0
"""Exclusive tests run alone, shared tests side by side, and no test waits for ever, as the
recorded turns of real runs show."""

from __future__ import annotations

import os
import signal
from itertools import combinations

import pytest

from conformance.run.directory import RunDirectory
from conformance.schedule.scheduler_lock import Exclusivity, ReadWriteGate
from tests.plugin.intervals import MIXED, Interval, turns

from .conftest import Project, Run
from .waiting import wait_for


def may_not_meet(interval: Interval, other: Interval) -> bool:
    kinds = {interval.kind, other.kind}
    return (
        "cluster" in kinds
        or kinds == {"node", "shared"}
        or (kinds == {"node"} and interval.node == other.node)
    )


def assert_apart(found: list[Interval]) -> None:
    assert [(a, b) for a, b in combinations(found, 2) if may_not_meet(a, b) and a.overlaps(b)] == []


@pytest.mark.parametrize("distribution", ["load", "worksteal"])
def test_exclusive_tests_overlap_with_none_and_shared_ones_do(
    project: Project, distribution: str
) -> None:
    project.suite(MIXED)
    run = project.run("-n", "8" if distribution == "load" else "4", "--dist", distribution)
    assert run.code == 0, run.out
    found = turns(run)
    assert len(found) == 30
    assert_apart(found)
    pairs = [(a, b) for a, b in combinations(found, 2) if a.overlaps(b)]
    assert any(a.kind == b.kind == "shared" and a.worker != b.worker for a, b in pairs)


def test_without_workers_exclusive_tests_come_last_and_all_is_the_same(project: Project) -> None:
    project.suite(MIXED)
    alone, parallel = project.run("-n", "0"), project.run("-n", "4")
    assert [interval.kind for interval in turns(alone)] == ["shared"] * 24 + ["node"] * 4 + [
        "cluster"
    ] * 2
    assert verdicts(alone) == verdicts(parallel)
    assert alone.code == parallel.code == 0


def verdicts(run: Run) -> dict[str, str]:
    return {test["test"]: test["verdict"] for test in run.report["tests"]}


def test_a_killed_worker_frees_its_turn(project: Project) -> None:
    project.suite(
        """
import os, signal, time
@verifies("VXLAN-10")
def test_cluster():
    os.kill(os.getpid(), signal.SIGKILL)

@verifies("VXLAN-10")
def test_cluster_as_well():
    pass

@verifies("CONN-1")
@pytest.mark.parametrize("number", range(6))
def test_shared(number):
    time.sleep(0.05)
"""
    )
    run = project.run("-n", "2")
    assert run.code == 6
    found = {name.rpartition("::")[2]: verdict for name, verdict in verdicts(run).items()}
    assert found.pop("test_cluster") == "INCONCLUSIVE"
    assert set(found.values()) == {"CONFIRMED"}


def test_tests_that_do_not_run_stop_nobody(project: Project) -> None:
    project.suite(MIXED)
    run = project.run("-n", "2", "--no-disruptive")
    assert {interval.kind for interval in turns(run)} == {"shared"}
    assert run.verdict("VXLAN-10") == "NOT_RUN"


def test_after_an_exclusive_test_what_is_kept_is_looked_at_again(project: Project) -> None:
    project.suite(
        """
from conformance.plugin import state

@pytest.fixture(scope="session", autouse=True)
def looks(pytestconfig):
    seen = []
    state.of(pytestconfig).restoration.epoch.register(lambda: seen.append(1))
    return seen

@verifies("CONN-1")
def test_shared(looks, record):
    record(looks=len(looks))

@verifies("VXLAN-10")
@pytest.mark.parametrize("number", range(3))
def test_cluster(looks, number, record):
    record(looks=len(looks))
"""
    )
    run = project.run()
    looks = {
        result["test"].rpartition("::")[2]: result["measured"]["looks"]
        for claim in ("CONN-1", "VXLAN-10")
        for result in run.claim(claim)["results"]
    }
    assert looks == {
        "test_shared": 0,
        "test_cluster[0]": 0,
        "test_cluster[1]": 1,
        "test_cluster[2]": 2,
    }


def test_an_error_in_looking_again_is_inconclusive(project: Project) -> None:
    project.suite(
        """
from conformance.plugin import state

@pytest.fixture(scope="session", autouse=True)
def looks(pytestconfig):
    def look():
        raise EnvironmentBroken("pod a is gone, and no other pod is ready")
    state.of(pytestconfig).restoration.epoch.register(look)

@verifies("VXLAN-10")
@pytest.mark.parametrize("number", range(2))
def test_cluster(looks, number):
    pass
"""
    )
    run = project.run()
    assert [test["verdict"] for test in run.report["tests"]] == ["CONFIRMED", "INCONCLUSIVE"]
    assert "pod a is gone, and no other pod is ready" in run.claim("VXLAN-10")["reason"]


def test_work_that_a_test_started_holds_its_turn_open(project: Project) -> None:
    project.suite(
        """
import concurrent.futures, time
from conformance.plugin import state

@verifies("CONN-1")
def test_shared(pytestconfig):
    work = concurrent.futures.ThreadPoolExecutor(1).submit(time.sleep, 0.5)
    state.of(pytestconfig).background.append(lambda: [work])

@verifies("VXLAN-10")
def test_cluster():
    pass
"""
    )
    shared, cluster = turns(project.run())
    assert shared.ended < shared.released < cluster.began


@pytest.mark.parametrize("workers", ["0", "4"])
def test_last_failed_and_stop_at_the_first_work_beside_it(project: Project, workers: str) -> None:
    project.suite(MIXED + "    assert number != 5\n")
    cache = ("-p", "cacheprovider", "-n", workers)
    assert project.run(*cache).code == 1
    again = project.run(*cache, "--lf")
    assert list(verdicts(again).values()) == ["VIOLATED"]
    assert project.run(*cache, "-x").code == 1


def test_a_disruptive_node_takes_all_that_concerns_a_node(project: Project) -> None:
    project.suite(MIXED)
    run = project.run("--disruptive-node", "win-1", "-k", "test_node or test_cluster")
    assert {interval.node for interval in turns(run)} == {"win-1"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("--disruptive-node", "win-7"),
            "no such node; its nodes are linux-1 (linux), linux-2 (linux), win-0 (windows)",
        ),
        (("--kubeconfig=lane", "--disruptive-node", "win-1"), "add --allow-disruptive"),
        (("--no-disruptive", "--disruptive-node", "win-1"), "contradict each other"),
        (
            ("--disruptive-node", "linux-1"),
            "linux-1: no test changes a node of its operating system; name win-0 or ",
        ),
    ],
)
def test_a_wrong_disruptive_node_is_4_before_anything_is_touched(
    project: Project, arguments: tuple[str, ...], words: str
) -> None:
    project.suite(MIXED)
    run = project.run(*arguments)
    assert run.code == 4
    assert words in run.out
    log = project.path / "cluster.log"
    assert "connect" not in (log.read_text() if log.exists() else "")


def test_a_named_cluster_needs_permission(project: Project) -> None:
    project.suite(MIXED)
    run = project.run("--kubeconfig=lane", "-k", "test_cluster")
    assert run.verdict("VXLAN-10") == "NOT_RUN"
    assert run.claim("VXLAN-10")["remedy"] == "allow that with --allow-cluster-disruptive"
    assert (
        project.run(
            "--kubeconfig=lane", "--allow-cluster-disruptive", "-k", "test_cluster"
        ).verdict("VXLAN-10")
        == "CONFIRMED"
    )


def test_a_killed_run_leaves_no_lock(project: Project) -> None:
    project.suite(
        """
import os, time
@verifies("VXLAN-10")
def test_cluster():
    open('here', 'w').close()
    time.sleep(30)
"""
    )
    process = project.start("-n", "1")
    wait_for(project.path / "here")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    locks = RunDirectory((project.path / "reports" / "latest").resolve()).locks
    ReadWriteGate(locks, ["win-0"], patience=60).enter(
        Exclusivity(kind="cluster"), "next", print
    ).release()
