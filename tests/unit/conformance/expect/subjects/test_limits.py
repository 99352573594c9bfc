# SPDX-License-Identifier: Apache-2.0
"""Cases about rules that Windows leaves out: who asks whom at which port, and what is expected of each system."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.expect.limitation import LimitedCase
from conformance.expect.subjects.limits import Limits
from conformance.model.endpoint import OS, Pair
from conformance.pods.groups import Group
from conformance.pods.roles import ECHO_PORT
from tests.unit.conformance.builders import a_workload

PORT = 8081
FRIEND, STRANGER, LINUX, WINDOWS = (
    "linux-client",
    "windows-client",
    "linux-server",
    "windows-server",
)
SIGN = {
    (FRIEND, LINUX, ECHO_PORT): True,
    (FRIEND, WINDOWS, ECHO_PORT): True,
    (STRANGER, LINUX, ECHO_PORT): False,
    (STRANGER, WINDOWS, ECHO_PORT): False,
    (STRANGER, FRIEND, ECHO_PORT): True,
}
"""The policies are in force at each server, and the client that they keep out has a network."""
CONTROL = SIGN | {(FRIEND, LINUX, PORT): True, (STRANGER, LINUX, PORT): False}
"""The same, and the Linux server enforces the rule."""


@pytest.fixture
def limits() -> Limits:
    servers: dict[OS, Group] = {
        "linux": Group([a_workload(LINUX)]),
        "windows": Group([a_workload(WINDOWS, "windows")]),
    }
    pods: Any = SimpleNamespace(
        client=lambda os: a_workload(f"{os}-client", os), servers=servers.__getitem__
    )
    expect: Any = None
    return Limits(expect, pods)


def paths(found: Mapping[Pair, bool]) -> dict[tuple[str, str, int], bool]:
    """Client, server and port to whether the path is open."""
    return {
        (client.pod, target.backends[0].pod, target.port): is_open
        for (client, target), is_open in found.items()
    }


def shape(case: LimitedCase) -> tuple[Any, Any, Any]:
    """What a case says of each path: as documented, either way, and beside them."""
    return paths(case.as_documented), paths(case.both), paths(case.witness)


@pytest.mark.parametrize(
    ("kind", "as_documented", "both", "witness"),
    [
        pytest.param(
            "allowed",
            {(FRIEND, WINDOWS, PORT): False},
            {(STRANGER, WINDOWS, PORT): False},
            CONTROL,
            id="allowed",
        ),
        pytest.param(
            "denied",
            {(STRANGER, WINDOWS, PORT): True},
            {(FRIEND, WINDOWS, PORT): True},
            CONTROL,
            id="denied",
        ),
        pytest.param(
            "passed_over",
            {},
            {(FRIEND, WINDOWS, PORT): True, (STRANGER, WINDOWS, PORT): False},
            CONTROL,
            id="passed over",
        ),
        pytest.param(
            "untouched",
            {},
            {(STRANGER, LINUX, PORT): True, (STRANGER, WINDOWS, PORT): True},
            SIGN,
            id="untouched",
        ),
        pytest.param(
            "closed",
            {},
            {(STRANGER, LINUX, PORT): False, (STRANGER, WINDOWS, PORT): False},
            SIGN,
            id="closed",
        ),
        pytest.param(
            "unlimited",
            {(FRIEND, WINDOWS, PORT): True},
            {(STRANGER, WINDOWS, PORT): False},
            SIGN,
            id="unlimited",
        ),
    ],
)
def test_a_case_names_its_paths(
    limits: Limits, kind: str, as_documented: Any, both: Any, witness: Any
) -> None:
    (case,) = getattr(limits, kind)("XPOL-2", {"Deny": PORT})
    assert (case.claim, case.part) == ("XPOL-2", "Deny")
    assert shape(case) == (as_documented, both, witness)


def test_each_part_has_its_own_port(limits: Limits) -> None:
    cases = limits.denied("XPOL-2", {"Deny": 8081, "Allow": 8082})
    assert [(case.part, *{target.port for _, target in case.as_documented}) for case in cases] == [
        ("Deny", 8081),
        ("Allow", 8082),
    ]


class Asked:
    """Keeps what the expectations are asked to judge."""

    def under(self, *policies: Any, open: Any, closed: Any, because: str) -> None:
        self.in_force = dict.fromkeys(open, True) | dict.fromkeys(closed, False)

    def limitations(self, *policies: Any, cases: Any, because: str) -> None:
        self.judged = [case.part for case in cases]


def test_in_force_asks_for_the_sign_alone(limits: Limits) -> None:
    limits.expect = asked = Asked()  # type: ignore[assignment]
    limits.in_force(because="the friend enters by the echo's port")
    assert paths(asked.in_force) == SIGN


def test_under_one_change_every_case_is_judged_in_order(limits: Limits) -> None:
    limits.expect = asked = Asked()  # type: ignore[assignment]
    limits.under(
        cases=[
            limits.denied("XPOL-2", {"Deny": 8081}),
            limits.closed("XPOL-3", {"a": 8082, "b": 8083}),
        ],
        because="x",
    )
    assert asked.judged == ["Deny", "a", "b"]
