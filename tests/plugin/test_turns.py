# SPDX-License-Identifier: Apache-2.0
"""The order in which tests take their turns, and how nodes are assigned to them."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from conformance.schedule.scheduler_lock import SHARED, Exclusivity, HeldLocks, ReadWriteGate
from tests.plugin.intervals import MIXED, turns

from .conftest import Project


def test_tests_that_wait_long_come_first_and_exclusive_ones_last_all_the_same(
    project: Project,
) -> None:
    long = """
from conformance.marks import begins_early

@begins_early()
@verifies("CONN-2")
def test_long():
    pass

@begins_early()
@verifies("RST-3")
def test_long_and_exclusive():
    pass
"""
    project.suite(MIXED + long)
    names = [turn.test.rpartition("::")[2] for turn in turns(project.run("-n", "0"))]
    assert names[0] == "test_long"
    assert names[25] == "test_long_and_exclusive"
    assert [name.partition("[")[0] for name in names[1:25]] == ["test_shared"] * 24


def test_of_tests_with_nodes_to_themselves_those_of_each_system_take_turns(
    project: Project,
) -> None:
    linux = """
@verifies("XOP-3", part="linux nodes", alone_on="linux")
def test_linux_nodes():
    pass
"""
    project.suite(MIXED + linux)
    found = turns(project.run("-n", "0", "-k", "test_node or test_linux or test_cluster"))
    names = [turn.test.rpartition("::")[2].partition("[")[0] for turn in found]
    assert names == ["test_node", "test_linux_nodes", *["test_node"] * 3, *["test_cluster"] * 2]


def test_a_busy_worker_keeps_no_heap_of_tests_from_another(
    project: Project, tmp_path: Path
) -> None:
    done = tmp_path / "done"
    done.mkdir()
    project.suite(f"""
import time
from pathlib import Path

@verifies("CONN-1")
def test_busy_until_nearly_all_others_are_over():
    end = time.monotonic() + 30
    while len(list(Path({str(done)!r}).iterdir())) < 37:
        assert time.monotonic() < end, "they wait for this worker"
        time.sleep(0.02)

@verifies("CONN-1")
@pytest.mark.parametrize("number", range(40))
def test_quick(number):
    (Path({str(done)!r}) / str(number)).touch()
""")
    run = project.run("-n", "2")
    assert run.code == 0, run.out


def test_node_exclusive_tests_are_dealt_out_over_the_nodes_alike_in_all_workers(
    project: Project,
) -> None:
    project.suite(MIXED)
    run = project.run("-n", "3", "-k", "test_node")
    assert sorted(interval.node for interval in turns(run)) == ["win-0", "win-0", "win-1", "win-1"]
    told = {result["test"]: result["measured"]["node"] for result in run.claim("RST-3")["results"]}
    assert told == {interval.test: interval.node for interval in turns(run)}
    assert {test["exclusive"] for test in run.report["tests"]} == {"node win-0", "node win-1"}


def test_tests_that_ask_for_one_node_are_dealt_out_apart_from_those_that_ask_for_each_builds(
    project: Project,
) -> None:
    project.suite("""
@verifies("RST-3")
def test_one(own_node):
    pass

@verifies("RST-3")
def test_of_each_build(own_nodes):
    pass

@verifies("RST-3")
def test_one_more(own_node):
    pass
""")
    nodes = {turn.test.rpartition("::")[2]: turn.node for turn in turns(project.run("-n", "0"))}
    assert nodes == {"test_one": "win-0", "test_of_each_build": "win-0", "test_one_more": "win-1"}


def test_tests_of_two_nodes_may_run_side_by_side(project: Project) -> None:
    project.suite(MIXED.replace("SLEEP = 0.04", "SLEEP = 0.5"))
    found = turns(project.run("-n", "2", "-k", "test_node and (0 or 1)"))
    assert [interval.node for interval in found] == ["win-0", "win-1"] or [
        interval.node for interval in found
    ] == [
        "win-1",
        "win-0",
    ]
    assert found[0].overlaps(found[1])


def test_an_exclusive_test_is_not_starved_by_a_stream_of_shared_ones(tmp_path: Path) -> None:
    """Two workers' shared turns always overlap; whoever asks for the cluster gets it before those that come later."""
    stop, order = threading.Event(), list[str]()
    locks = [ReadWriteGate(tmp_path, ["a", "b"], patience=60) for _ in range(4)]

    def stream(gate: ReadWriteGate) -> None:
        while not stop.is_set():
            hold = gate.enter(SHARED, "shared", print)
            order.append("shared")
            time.sleep(0.02)
            hold.release()

    threads = [threading.Thread(target=stream, args=[gate]) for gate in locks[:3]]
    for thread in threads:
        thread.start()
    while len(order) < 12:
        time.sleep(0.005)
    asked = len(order)
    hold = locks[3].enter(Exclusivity(kind="cluster"), "cluster", print)
    began = len(order)
    hold.release()
    stop.set()
    for thread in threads:
        thread.join()
    assert (
        began - asked <= 6
    )  # those at the turnstile before it, at most: each stream's current and next


def test_an_exclusive_turn_begins_when_all_are_through_with_what_comes_before_it(
    tmp_path: Path,
) -> None:
    """Whoever waits for it stands in nobody's way: shared tests, and those with a node to themselves, go on."""
    gates = [ReadWriteGate(tmp_path, ["a", "b"], patience=60) for _ in range(3)]
    for gate in gates:
        gate.arrive()
    begun = {kind: threading.Event() for kind in ("node", "cluster")}

    def turn(gate: ReadWriteGate, exclusivity: Exclusivity) -> None:
        hold = gate.enter(exclusivity, exclusivity.kind, print)
        begun[exclusivity.kind].set()
        hold.release()

    exclusive = [Exclusivity(kind="cluster"), Exclusivity(kind="node", node="a")]
    threads = [
        threading.Thread(target=turn, args=pair) for pair in zip(gates, exclusive, strict=False)
    ]
    for thread in threads:
        thread.start()
    gates[2].enter(SHARED, "shared", print).release()
    assert not any(event.wait(0.1) for event in begun.values())
    gates[2].leave("node")
    assert begun["node"].wait(10)
    assert not begun["cluster"].wait(0.1), "the second process may have more tests for nodes"
    gates[1].leave()
    gates[2].leave()
    assert begun["cluster"].wait(10)
    for thread in threads:
        thread.join()


@pytest.mark.parametrize(
    "wants",
    [Exclusivity(kind="node", node="b"), Exclusivity(kind="node", node="b", also=("a",))],
    ids=str,
)
def test_who_waits_for_a_node_keeps_nobody_from_another(tmp_path: Path, wants: Exclusivity) -> None:
    gates = [ReadWriteGate(tmp_path, ["a", "b"], patience=60) for _ in range(3)]
    first, got = (
        gates[0].enter(Exclusivity(kind="node", node="b"), "first", print),
        list[HeldLocks](),
    )
    waits = threading.Thread(
        target=lambda: got.append(gates[1].enter(wants, "second", print)), daemon=True
    )
    waits.start()
    waits.join(0.1)
    beside = threading.Thread(
        target=lambda: gates[2].enter(Exclusivity(kind="node", node="a"), "third", print).release(),
        daemon=True,
    )
    beside.start()
    beside.join(10)
    assert not beside.is_alive()
    assert not got
    first.release()
    waits.join(10)
    got[0].release()


def test_waiting_is_told_apart_from_the_tests_own_time(project: Project) -> None:
    project.suite(
        """
import time
@verifies("VXLAN-10")
@pytest.mark.parametrize("number", range(2))
def test_cluster(number):
    time.sleep(1.0)  # longer than the other worker needs to get here
"""
    )
    run = project.run("-n", "2")
    first, second = turns(run)
    assert second.asked < first.released <= second.began
    tests = {test["test"]: test for test in run.report["tests"]}
    for interval in (first, second):
        assert tests[interval.test]["waited"] == round(interval.began - interval.asked, 3)
        assert tests[interval.test]["seconds"] <= round(
            interval.ended - interval.began, 3
        )  # its own time lies within its turn
    assert {test["exclusive"] for test in tests.values()} == {"cluster"}
    assert run.folder
    (told,) = (run.folder / "attachments").glob("*/*waited*")
    assert told.read_text().endswith("s for cluster (exclusive)\n")
    attached = [path.read_text() for path in (run.folder / "allure").glob("*-attachment.txt")]
    assert told.read_text() in attached


def test_who_waits_long_says_for_whom(project: Project) -> None:
    project.suite(
        """
import time
@verifies("VXLAN-10")
@pytest.mark.parametrize("number", range(2))
def test_cluster(number):
    time.sleep(1)
"""
    )
    (project.path / "timings.yaml").write_text("run:\n  progress_every: 200 ms\n")
    run = project.run("-n", "2", "--timings=timings.yaml")
    assert "waits for suites/test_it.py::test_cluster[" in run.out
