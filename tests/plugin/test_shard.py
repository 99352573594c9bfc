# SPDX-License-Identifier: Apache-2.0
"""``--shard``: each test is in exactly one part, no part has disruptive tests, and reports name
their part."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from .conftest import Project, Run

SUITE = """
@verifies("POL-1", part="something")
@pytest.mark.parametrize("number", range(7))
def test_one(number): pass
@verifies("VXLAN-9", active=True)
def test_vni(): pass
"""


def names(run: Run) -> list[str]:
    return [test["test"].partition("::")[2] for test in run.report["tests"]]


@pytest.fixture(scope="module")
def parts(make_project: Callable[[], Project]) -> list[Run]:
    project = make_project()
    project.suite(SUITE)
    return [project.run(f"--shard={number}/3", STAND_IN=json.dumps({})) for number in (1, 2, 3)]


def test_each_test_is_in_one_part_and_what_disrupts_in_none(parts: list[Run]) -> None:
    found = [name for run in parts for name in names(run)]
    assert sorted(found) == [f"test_one[{number}]" for number in range(7)]
    assert sorted(len(names(run)) for run in parts) == [2, 2, 3]
    assert [run.code for run in parts] == [0, 0, 0]


def test_every_report_says_that_it_is_a_part(parts: list[Run]) -> None:
    for number, run in enumerate(parts, 1):
        said = f"part {number}/3 (--shard): the other tests are in the other parts"
        assert run.report["run"]["selection"] == said
        assert said in run.report["run"]["notes"]
        assert "share" not in run.claim("POL-1")
        assert run.claim("VXLAN-9")["verdict"] is None


def test_the_same_tests_are_in_a_part_of_several_workers(
    make_project: Callable[[], Project], parts: list[Run]
) -> None:
    project = make_project()
    project.suite(SUITE)
    run = project.run("--shard=2/3", "-n", "2", STAND_IN=json.dumps({}))
    assert sorted(names(run)) == sorted(names(parts[1]))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--shard=0/3",), "--shard 0/3: expected the part and the number of parts, such as 1/3"),
        (("--shard=4/3",), "--shard 4/3: expected the part and the number of parts, such as 1/3"),
        (("--shard=one",), "--shard one: expected the part and the number of parts, such as 1/3"),
        (("--shard=1/3", "--allow-disruptive"), "--shard 1/3 runs no disruptive test"),
        (("--shard=1/3", "--require=core"), "and --require needs all: leave it out"),
    ],
)
def test_what_a_part_cannot_be_is_refused_before_it_begins(
    project: Project, options: tuple[str, ...], said: str
) -> None:
    run = project.run(*options)
    assert run.code == 4
    assert said in run.out
