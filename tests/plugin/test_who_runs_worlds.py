# SPDX-License-Identifier: Apache-2.0
"""Two workers run the worlds of policies with any ``-n``, because each of these workers makes its
own pods for them."""

import ast
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from conformance.plugin.worlds import FILE, SEATED, Dealer
from conformance.schedule.order import order

from .conftest import ROOT, Project
from .intervals import turns

WORLDS = """
import time

@verifies("POL-1")
@pytest.mark.parametrize("number", range(9))
def test_world(number):
    time.sleep(0.05)
"""
OTHERS = """
import time

@verifies("CONN-1")
@pytest.mark.parametrize("number", range(20))
def test_shared(number):
    time.sleep(0.05)

@verifies("VXLAN-10")
def test_cluster():
    pass
"""


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_at_most_two_workers_run_worlds_last_or_where_there_are_others_before_all_else(
    project: Project, workers: int
) -> None:
    project.suite(OTHERS)
    project.suite(WORLDS, name=FILE)
    run = project.run("-n", str(workers))
    assert run.code == 0, run.out
    found = turns(run)
    assert len(found) == 30
    of_worlds = {turn.worker for turn in found if "test_world[" in turn.test}
    assert len(of_worlds) == min(workers, SEATED)
    assert len({turn.worker for turn in found}) == workers
    for worker in of_worlds:
        own = [
            "test_world[" in turn.test
            for turn in found
            if turn.worker == worker and "test_cluster" not in turn.test
        ]
        assert own == sorted(own, reverse=workers > SEATED)


@pytest.mark.parametrize(
    "chosen",
    [
        [f"suites/{FILE}"],
        [f"suites/{FILE}::test_world[1]", f"suites/{FILE}::test_world[2]"],
        [f"suites/{FILE}::test_world[1]", "suites/test_it.py::test_shared[1]"],
    ],
)
def test_of_fewer_tests_than_workers_none_is_left_out(project: Project, chosen: list[str]) -> None:
    project.suite(OTHERS)
    project.suite(WORLDS, name=FILE)
    run = project.run("-n", "12", *chosen)
    assert run.code == 0, run.out
    assert len(turns(run)) == (len(chosen) if len(chosen) > 1 else 9)


def test_worlds_go_on_where_workers_that_run_them_are_lost(
    project: Project, tmp_path: Path
) -> None:
    project.suite(OTHERS)
    project.suite(
        f"""
import os
from pathlib import Path

@verifies("POL-1")
@pytest.mark.parametrize("number", range(9))
def test_world(number):
    if number in (1, 4):
        os._exit(1)
    (Path({str(tmp_path)!r}) / str(number)).touch()
""",
        name=FILE,
    )
    run = project.run("-n", "3")
    assert run.code != 0
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.isdigit()) == list(
        "0235678"
    )


@dataclass(eq=False)
class Worker:
    """The dealer's knowledge of one worker."""

    shutting_down: bool = False
    given: list[int] = field(default_factory=list)

    def send_runtest_some(self, tests: list[int]) -> None:
        self.given += tests

    def shutdown(self) -> None:
        self.shutting_down = True


def test_who_is_about_to_end_is_none_of_the_two_that_run_worlds() -> None:
    dealer, workers = (
        Dealer.__new__(Dealer),
        [Worker(shutting_down=True), Worker(), Worker(), Worker()],
    )
    dealer.collection, dealer.pending = (
        [f"suites/{FILE}::test_world[{number}]" for number in range(4)],
        [0, 1, 2, 3],
    )
    dealer.node2pending = {worker: [] for worker in workers}
    for worker in workers[1:]:
        dealer._send_tests(worker, 2)
    assert [worker.given for worker in workers] == [[], [0, 1], [2, 3], []]
    assert [worker.shutting_down for worker in workers] == [True, False, False, True]


@pytest.mark.parametrize(("workers", "given"), [(3, [[0, 2], [3], [1]]), (2, [[0, 1], [2, 3]])])
def test_tests_of_a_quick_run_come_before_worlds_and_others_after_them_or_before_where_none_is_free(
    workers: int, given: list[list[int]]
) -> None:
    dealer, several = Dealer.__new__(Dealer), [Worker() for _ in range(workers)]
    names = [min(order().quick), "x/test_x.py::test_x", *(f"{FILE}::test_world[{n}]" for n in "01")]
    dealer.collection, dealer.pending = [f"suites/{name}" for name in names], [0, 1, 2, 3]
    dealer.node2pending = {worker: [] for worker in several}
    for worker, plenty in zip(several, map(len, given), strict=True):
        dealer._send_tests(worker, plenty)
    assert [worker.given for worker in several] == given


def test_no_test_elsewhere_is_about_worlds() -> None:
    marked = [
        path.relative_to(ROOT / "suites").as_posix()
        for path in (ROOT / "suites").rglob("*.py")
        if any(
            isinstance(node, ast.Name) and node.id == "each_world"
            for node in ast.walk(ast.parse(path.read_text()))
        )
    ]
    assert marked == [FILE]
