# SPDX-License-Identifier: Apache-2.0
"""The order of tests by packaged figures, and how much of a claim a quick run decides."""

from __future__ import annotations

import pytest

from conformance.schedule.order import WORLDS, Order, key_of, order

ORDER = Order(
    places={
        "dns/test_a.py::test_x[linux]": 2, "dns/test_a.py::test_x": 2, "dns/test_a.py::test_y": 1,
    },
    quick=frozenset({"dns/test_b.py::test_q"}),
    tests={"CONN-6": 3, "POL-1": 5},
)  # fmt: skip


def test_a_test_is_the_same_wherever_the_suites_are() -> None:
    for root in ("suites/", "", "/usr/lib/site-packages/suites/"):
        assert key_of(f"{root}dns/test_a.py::test_x[a/b::c]") == "dns/test_a.py::test_x[a/b::c]"


def test_quick_tests_come_first_then_by_place_then_tests_without_figures_and_worlds_last() -> None:
    wanted = [
        "suites/dns/test_b.py::test_q",
        "suites/dns/test_a.py::test_y",
        "suites/dns/test_a.py::test_x[windows]",
        "suites/dns/test_new.py::test_new",
        f"suites/{WORLDS[0]}test_policies_of_a_world[x]",
    ]
    mixed = [wanted[place] for place in (4, 2, 0, 3, 1)]
    assert sorted(mixed, key=ORDER.place) == wanted


def test_a_test_takes_its_packaged_seconds_or_its_functions_or_the_mean_of_all() -> None:
    known = Order(
        places={},
        quick=frozenset(),
        tests={},
        lab={"dns/test_a.py::test_x[linux]": 4.0, "dns/test_a.py::test_x": 2.0},
        real={"dns/test_a.py::test_x": 9.0},
    )
    assert known.seconds("suites/dns/test_a.py::test_x[linux]", lab=True) == 4.0
    assert known.seconds("suites/dns/test_a.py::test_x[windows]", lab=True) == 2.0
    assert known.seconds("suites/dns/test_a.py::test_x[linux]", lab=False) == 9.0
    assert known.seconds("suites/dns/test_new.py::test_new", lab=True) == 3.0
    assert ORDER.seconds("suites/dns/test_a.py::test_x", lab=True) == 0.0


@pytest.mark.parametrize(
    ("claim", "ran", "parts", "all_parts", "share"),
    [
        ("POL-1", ["a", "b"], ["p", "q"], 14, "in 2 of 14 parts"),
        ("POL-1", ["a", "b"], ["p", "p"], 14, "in 1 of 14 parts"),
        ("POL-1", ["a", "b", "c", "d", "e"], ["p", "q"], 2, ""),
        ("CONN-6", ["a", "a"], ["", ""], 1, "in 1 of 3 tests"),
        ("CONN-6", ["a", "b", "c"], [""], 1, ""),
        ("CONN-6", [], [], 14, ""),
        ("XNEW-1", ["a"], [""], 1, ""),
    ],
)
def test_a_quick_run_says_how_much_of_a_claim_it_decided(
    claim: str, ran: list[str], parts: list[str], all_parts: int, share: str
) -> None:
    assert ORDER.share(claim, ran, parts, all_parts) == share


def test_the_packaged_quick_run_has_no_world_of_policies_and_stays_within_its_minutes() -> None:
    found = order()
    assert found.quick
    assert not [name for name in found.quick if name.startswith(WORLDS)]
