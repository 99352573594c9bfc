# SPDX-License-Identifier: Apache-2.0
"""Calico's own policy code, the lab and the oracle agree on the second set of tables: verdicts,
panics and lists.

``make check-three-ways`` takes every case.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.detection import choice
from tests.golden import three_ways

OF = 20


@pytest.fixture(scope="module")
def share(request: pytest.FixtureRequest) -> slice:
    """Which cases are taken: every one, or every twentieth, from one that the commit chooses."""
    if request.config.getoption("--every-probe", default=False):
        return slice(None)
    return slice(choice.turn(OF, choice.commit()), None, OF)


@pytest.mark.parametrize("version", three_ways.RELEASES)
def test_calico_the_lab_and_the_oracle_agree(version: Any, share: slice) -> None:
    cases = three_ways.cases(version, share)
    found = {case["id"]: list(three_ways.differences(version, case)) for case in cases}
    assert {name: told for name, told in found.items() if told} == {}
    assert len(cases) >= len(three_ways.cases(version)) // OF >= 7


@pytest.mark.parametrize("version", three_ways.RELEASES)
def test_the_comparison_notices_a_letter_and_an_address(version: Any) -> None:
    case = next(one for one in three_ways.cases(version) if "/32" in str(one.get("acls")))
    assert list(three_ways.differences(version, case)) == []
    pod, letters = next(iter(case["linux"].items()))
    case["linux"][pod] = ("B" if letters[0] == "A" else "A") + letters[1:]
    entry = next(one for one in case["acls"][pod] if "RemoteAddresses" in one)
    entry["RemoteAddresses"] += ",192.0.2.77/32"
    told = list(three_ways.differences(version, case))
    assert [one.partition(f" {pod}: ")[0] for one in told] == [
        "lab, linux,",
        "oracle, linux,",
        "list,",
    ]
