# SPDX-License-Identifier: Apache-2.0
"""Which turns may overlap, which test waits for which, and that nothing stays locked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, as_completed
from pathlib import Path

import pytest

from conformance.schedule.scheduler_lock import SHARED, Exclusivity, HeldLocks, ReadWriteGate

NODES = ("win-1", "win-2")
CLUSTER = Exclusivity(kind="cluster")
LAST = Exclusivity(kind="last")
WIN_1 = Exclusivity(kind="node", node="win-1")
WIN_2 = Exclusivity(kind="node", node="win-2")
BOTH = Exclusivity(kind="node", node="win-2", also=("win-1",))
PATIENCE = 0.05
"""Seconds until a waiting turn says for whom it waits."""


class Process:
    """One process of a run: its gate, and a thread in which its turn is asked for."""

    def __init__(self, locks: Path, name: str) -> None:
        self.gate = ReadWriteGate(locks, NODES, patience=PATIENCE)
        self.name = name
        self.lines: list[str] = []
        self.waiting = threading.Event()

    def enter(self, exclusivity: Exclusivity) -> HeldLocks:
        return self.gate.enter(exclusivity, self.name, self.lines.append)

    def ask(self, exclusivity: Exclusivity) -> Future[HeldLocks]:
        """Ask for a turn beside the test; ``waiting`` is set once the gate says that it waits."""

        def tell(line: str) -> None:
            self.lines.append(line)
            self.waiting.set()

        turn: Future[HeldLocks] = Future()

        def enter() -> None:
            turn.set_result(self.gate.enter(exclusivity, self.name, tell))

        # A daemon: a gate that never opens fails the test and does not keep pytest from ending.
        threading.Thread(target=enter, daemon=True).start()
        return turn


@pytest.fixture
def process(tmp_path: Path) -> Callable[[str], Process]:
    return lambda name: Process(tmp_path, name)


@pytest.mark.parametrize(
    ("held", "asked"),
    [
        pytest.param(SHARED, SHARED, id="shared beside shared"),
        pytest.param(WIN_1, WIN_2, id="different nodes"),
        pytest.param(SHARED, LAST, id="last beside shared, which another process still runs"),
        pytest.param(WIN_1, LAST, id="last beside a node's turn"),
    ],
)
def test_turns_that_overlap(
    process: Callable[[str], Process], held: Exclusivity, asked: Exclusivity
) -> None:
    first = process("first").enter(held)
    second = process("second").ask(asked).result(timeout=10)
    second.release()
    first.release()


@pytest.mark.parametrize(
    ("held", "asked"),
    [
        pytest.param(CLUSTER, SHARED, id="shared waits for the cluster's turn"),
        pytest.param(SHARED, CLUSTER, id="the cluster's turn waits for shared tests"),
        pytest.param(CLUSTER, WIN_1, id="a node's turn waits for the cluster's"),
        pytest.param(WIN_1, CLUSTER, id="the cluster's turn waits for a node's"),
        pytest.param(WIN_1, WIN_1, id="the same node"),
        pytest.param(BOTH, WIN_1, id="one of two nodes"),
        pytest.param(WIN_1, BOTH, id="two nodes, one of them taken"),
        pytest.param(SHARED, WIN_1, id="a node's turn waits for shared tests"),
        pytest.param(WIN_1, SHARED, id="shared waits for a node's turn"),
        pytest.param(CLUSTER, LAST, id="last waits for the cluster's turn"),
    ],
)
def test_turns_that_wait(
    process: Callable[[str], Process], held: Exclusivity, asked: Exclusivity
) -> None:
    first = process("first").enter(held)
    second = process("second")
    turn = second.ask(asked)
    assert second.waiting.wait(timeout=10), "it should wait"
    assert not turn.done()
    first.release()
    turn.result(timeout=10).release()


@pytest.mark.parametrize(
    ("held", "asked", "line"),
    [
        pytest.param(CLUSTER, SHARED, "second waits for first", id="a holder that signs is named"),
        pytest.param(WIN_1, WIN_1, "second waits for first", id="a node's holder is named"),
        pytest.param(
            SHARED, CLUSTER, "second waits for tests under way", id="shared holders sign nothing"
        ),
    ],
)
def test_a_turn_that_waits_names_the_holder(
    process: Callable[[str], Process], held: Exclusivity, asked: Exclusivity, line: str
) -> None:
    first = process("first").enter(held)
    second = process("second")
    turn = second.ask(asked)
    assert second.waiting.wait(timeout=10)
    first.release()
    turn.result(timeout=10).release()
    assert second.lines == [line]


def test_a_turn_that_waits_for_two_nodes_holds_neither_meanwhile(
    process: Callable[[str], Process],
) -> None:
    first = process("first").enter(WIN_2)
    second = process("second")
    turn = second.ask(BOTH)
    assert second.waiting.wait(timeout=10)
    process("third").ask(WIN_1).result(timeout=10).release()
    first.release()
    turn.result(timeout=10).release()


@pytest.mark.parametrize(
    ("left", "waits"),
    [
        pytest.param((), True, id="a process with tests of every kind left"),
        pytest.param(("node",), False, id="a process without shared tests left"),
        pytest.param(("node", "cluster", "last"), False, id="a process that is through"),
    ],
)
def test_a_node_turn_begins_once_no_process_has_shared_tests_left(
    process: Callable[[str], Process], left: tuple[str, ...], waits: bool
) -> None:
    other = process("other")
    other.gate.arrive()
    if left:
        other.gate.leave(*left)
    asking = process("asking")
    turn = asking.ask(WIN_1)
    assert asking.waiting.wait(timeout=10 if waits else 4 * PATIENCE) is waits
    other.gate.leave()
    turn.result(timeout=10).release()


@pytest.mark.parametrize("kind", [WIN_1, CLUSTER, LAST], ids=str)
def test_processes_that_arrived_do_not_wait_for_each_other(
    process: Callable[[str], Process], kind: Exclusivity
) -> None:
    both = process("first"), process("second")
    for each in both:
        each.gate.arrive()
    for turn in as_completed([each.ask(kind) for each in both], timeout=10):
        turn.result().release()


def test_leaving_twice_is_leaving_once(process: Callable[[str], Process]) -> None:
    gate = process("only").gate
    gate.arrive()
    gate.leave()
    gate.leave()


def test_locks_are_released_once_the_work_that_the_test_started_has_ended(
    process: Callable[[str], Process],
) -> None:
    held = process("first").enter(CLUSTER)
    work: Future[None] = Future()
    ended = threading.Event()
    held.release_after([work], ended.set)
    second = process("second")
    turn = second.ask(SHARED)
    assert second.waiting.wait(timeout=10)
    assert not ended.is_set()
    work.set_result(None)
    turn.result(timeout=10).release()
    assert ended.wait(timeout=10)


def test_locks_are_released_at_once_where_no_work_is_under_way(
    process: Callable[[str], Process],
) -> None:
    held = process("first").enter(CLUSTER)
    ended = threading.Event()
    done: Future[None] = Future()
    done.set_result(None)
    held.release_after([done], ended.set)
    assert ended.is_set()
    process("second").ask(SHARED).result(timeout=10).release()


def test_releasing_twice_frees_no_other_turn(process: Callable[[str], Process]) -> None:
    held = process("first").enter(CLUSTER)
    held.release()
    other = process("second").enter(CLUSTER)
    held.release()
    third = process("third")
    turn = third.ask(SHARED)
    assert third.waiting.wait(timeout=10)
    other.release()
    turn.result(timeout=10).release()


@pytest.mark.parametrize(
    ("exclusivity", "text", "nodes", "exclusive"),
    [
        (SHARED, "", (), False),
        (LAST, "", (), False),
        (CLUSTER, "cluster", (), True),
        (Exclusivity(kind="cluster", node="win-1"), "cluster", ("win-1",), True),
        (WIN_1, "node win-1", ("win-1",), True),
        (BOTH, "node win-2, win-1", ("win-2", "win-1"), True),
    ],
)
def test_reports_name_what_a_test_has_to_itself(
    exclusivity: Exclusivity, text: str, nodes: tuple[str, ...], exclusive: bool
) -> None:
    assert (str(exclusivity), exclusivity.nodes, exclusivity.exclusive) == (text, nodes, exclusive)
