# SPDX-License-Identifier: Apache-2.0
"""Which tests options select, in which order they run, and which worker gets them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conformance.catalog import Needs, catalog
from conformance.errors import EnvironmentBroken
from conformance.plugin import exclusive
from conformance.plugin.judge import selection
from conformance.plugin.judge.stash import PLANNED, WAITED
from conformance.plugin.worlds import Dealer
from conformance.schedule.order import order
from conformance.schedule.plan import PlannedTest
from conformance.schedule.scheduler_lock import SHARED, Exclusivity
from conformance.verdicts.prospect import ClaimPart

QUICK = sorted(order().quick)[0]
"""A test of --quick, as the packaged figures name it."""


def an_item(
    name: str, *marks: str, exclusivity: Exclusivity = SHARED, last: bool = False, claims: str = ""
) -> Any:
    """A collected test."""
    parts = tuple(ClaimPart(claim=claim) for claim in claims.split())
    test = PlannedTest(test=name, parts=parts, needs=Needs(), last=last, exclusivity=exclusivity)
    return SimpleNamespace(
        nodeid=name,
        stash={PLANNED: test},
        get_closest_marker=lambda mark: mark if mark in marks else None,
    )


NAMES = [f"suites/a.py::test_{letter}" for letter in "abcde"]


@pytest.mark.parametrize(
    ("part", "letters"), [("", "abcdex"), ("1/2", "acex"), ("2/2", "bdx"), ("3/3", "cx")]
)
def test_each_part_of_a_run_has_every_nth_test_and_the_last(part: str, letters: str) -> None:
    items = [an_item(name) for name in reversed(NAMES)]
    items += [an_item("suites/a.py::test_x", last=True)]
    found = selection.in_shard(items, part)
    assert sorted(name[-1] for name in found) == list(letters)


def test_no_part_of_a_run_has_a_disruptive_test() -> None:
    items = [an_item(NAMES[0], "disruptive"), an_item(NAMES[1])]
    assert selection.in_shard(items, "1/1") == {NAMES[1]}
    assert selection.in_shard(items, "") == set(NAMES[:2])


NOTHING = {"smoke": False, "quick": False, "claim": [], "world": "", "story": "", "explore": None}


@pytest.mark.parametrize(
    ("marks", "fields", "options", "chosen"),
    [
        ("", {}, {}, True),
        ("", {}, {"smoke": True}, False),
        ("smoke", {}, {"smoke": True}, True),
        ("", {}, {"quick": True}, False),
        ("", {"name": f"suites/{QUICK}"}, {"quick": True}, True),
        ("disruptive", {"name": f"suites/{QUICK}"}, {"quick": True}, False),
        ("", {"claims": "CONN-1 CONN-2"}, {"claim": ["CONN-2"]}, True),
        ("", {"claims": "CONN-1"}, {"claim": ["CONN-2"]}, False),
        ("", {}, {"world": "file"}, False),
        ("each_world", {}, {"world": "file"}, True),
        ("", {}, {"story": "file"}, False),
        ("each_story", {}, {"story": "file"}, True),
        ("", {}, {"explore": 0.0}, False),
        ("each_story", {}, {"explore": 1.0}, True),
        ("each_story", {}, {"world": "file"}, False),
    ],
)
def test_options_select_tests(
    marks: str, fields: dict[str, Any], options: dict[str, Any], chosen: bool
) -> None:
    item = an_item(fields.pop("name", NAMES[0]), *marks.split(), **dict(fields))
    option = SimpleNamespace(**NOTHING | options)
    assert selection.is_chosen(item, option, None, watch=True) is chosen


def test_a_rerun_and_a_run_without_a_watch_leave_tests_out() -> None:
    option = SimpleNamespace(**NOTHING)
    item = an_item(NAMES[0])
    assert selection.is_chosen(item, option, frozenset(NAMES), watch=False)
    assert not selection.is_chosen(item, option, frozenset(NAMES[1:]), watch=True)
    assert not selection.is_chosen(an_item(NAMES[0], last=True), option, None, watch=False)


def test_the_subjects_of_a_test_are_those_of_its_claims_without_windows_if_linux_alone() -> None:
    found = selection.subjects(an_item(NAMES[0], claims="CONN-1"), catalog())
    assert found == {"CONN-1", *catalog()["CONN-1"].tags} - {"windows"}


def alone(node: str, *also: str) -> Exclusivity:
    return Exclusivity(kind="node", node=node, also=also)


def order_of(*items: Any) -> list[str]:
    """Return the last letters of the tests, in the order in which they run."""
    rivals = {
        frozenset(test.exclusivity.nodes): sum(
            other.stash[PLANNED].exclusivity.nodes == test.exclusivity.nodes for other in items
        )
        for test in (item.stash[PLANNED] for item in items)
    }
    found = sorted(items, key=lambda item: exclusive._place(item, rivals))
    return [item.nodeid[-1] for item in found]


def test_tests_that_block_others_come_last_those_with_few_rivals_first() -> None:
    found = order_of(
        an_item("z", exclusivity=Exclusivity(kind="last")),
        an_item("c", exclusivity=Exclusivity(kind="cluster")),
        an_item("n", exclusivity=alone("w1")),
        an_item("m", exclusivity=alone("w1")),
        an_item("o", exclusivity=alone("l1")),
        an_item("s"),
    )
    assert found == ["s", "o", "n", "m", "c", "z"]


def test_a_test_that_begins_early_is_the_first_of_its_kind() -> None:
    found = order_of(
        an_item("n", exclusivity=alone("w1")),
        an_item("e", "begins_early", exclusivity=alone("w1")),
        an_item("a"),
        an_item("b", "begins_early"),
    )
    assert found == ["b", "a", "e", "n"]


def test_a_test_of_quick_comes_before_others_and_worlds_after_them() -> None:
    found = order_of(
        an_item("suites/policy/test_worlds.py::w"),
        an_item("suites/none.py::a", "begins_early"),
        an_item(f"suites/{QUICK}"),
    )
    assert found == [QUICK[-1], "a", "w"]


SYSTEMS: dict[str, Any] = {"w1": "windows", "w2": "windows", "l1": "linux"}


@pytest.mark.parametrize(
    ("nodes", "order"),
    [
        ("w1 w2 w1 l1", "w1 l1 w2 w1"),
        ("l1 l1 w1", "l1 w1 l1"),
        ("- w1 - w2 l1 -", "- w1 - l1 w2 -"),
        ("w1", "w1"),
        ("- -", "- -"),
    ],
)
def test_node_exclusive_tests_of_both_systems_take_turns(nodes: str, order: str) -> None:
    items = [
        an_item(node, exclusivity=SHARED if node == "-" else alone(node)) for node in nodes.split()
    ]
    exclusive._take_turns(items, SYSTEMS)
    assert [item.nodeid for item in items] == order.split()


WORLD = "suites/policy/test_worlds.py::test_world[a]"
STORY = "suites/policy/test_stories.py::test_story[a]"
COLLECTION = ["suites/a.py::test_a", WORLD, f"suites/{QUICK}", STORY]


def dealt(workers: int, to: int, *, ending: int = 0) -> list[int]:
    """Return which tests a worker may get; the first ``ending`` workers shut down."""
    nodes = [
        SimpleNamespace(number=number, shutting_down=number < ending) for number in range(workers)
    ]
    given: Any = SimpleNamespace(
        nodes=nodes, collection=COLLECTION, pending=list(range(len(COLLECTION)))
    )
    return Dealer._choice(given, nodes[to])


def test_only_the_first_two_workers_get_worlds_and_stories_after_quick_tests() -> None:
    assert dealt(3, 0) == dealt(3, 1) == [2, 1, 3, 0]
    assert dealt(3, 2) == [0, 2]


def test_where_few_workers_are_left_each_gets_every_test() -> None:
    assert dealt(2, 1) == dealt(1, 0) == dealt(3, 2, ending=1) == [0, 1, 2, 3]
    assert dealt(4, 3, ending=1) == [0, 2]


class Gate:
    """A gate that records what happens to it."""

    def __init__(self) -> None:
        self.left = 0

    def leave(self) -> None:
        self.left += 1


def ended(gate: Gate | None, *errors: Exception) -> list[str]:
    """Return the lines that are printed when a session ends whose fixtures raise these errors."""

    def teardown_exact(nextitem: None) -> None:
        if errors:
            raise ExceptionGroup("fixtures", errors)

    lines: list[str] = []
    hooks: Any = object.__new__(exclusive.Exclusive)
    hooks._gate, hooks._tell = gate, lines.append
    session: Any = SimpleNamespace(_setupstate=SimpleNamespace(teardown_exact=teardown_exact))
    hooks.pytest_sessionfinish(session)
    return lines


def test_a_process_that_ends_lets_the_turns_of_others_begin() -> None:
    gate = Gate()
    assert ended(gate) == []
    assert gate.left == 1
    assert ended(None) == [], "a process that runs no tests has no gate"


def test_objects_that_stay_at_the_end_are_named_and_other_errors_are_none_of_them() -> None:
    lines = ended(Gate(), EnvironmentBroken("no answer\nmore"), EnvironmentBroken("refused"))
    assert lines == [
        "objects were not removed at the run's end: no answer",
        "objects were not removed at the run's end: refused",
    ]
    with pytest.raises(ExceptionGroup) as caught:
        ended(Gate(), KeyError("a bug"), EnvironmentBroken("refused"))
    assert [type(error) for error in caught.value.exceptions] == [KeyError]


@pytest.mark.parametrize(
    ("waited", "exclusivity", "attached"),
    [
        (0.4, SHARED, []),
        (0.5, SHARED, ["0.5 s for a turn beside others\n"]),
        (12.34, alone("w1"), ["12.3 s for node w1 (exclusive)\n"]),
    ],
)
def test_a_wait_that_readers_notice_is_attached(
    waited: float, exclusivity: Exclusivity, attached: list[str]
) -> None:
    told: list[str] = []
    hooks: Any = object.__new__(exclusive.Exclusive)
    attachments = SimpleNamespace(text=lambda name, body: told.append(body))
    hooks.state = SimpleNamespace(attachments=attachments)
    item = an_item("a", exclusivity=exclusivity)
    item.stash[WAITED] = waited
    hooks.pytest_runtest_setup(item)
    assert told == attached
