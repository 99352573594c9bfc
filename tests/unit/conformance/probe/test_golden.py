# SPDX-License-Identifier: Apache-2.0
"""A line of a conversation is compared with its example, which may leave values open."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.probe.golden import Servers, differs, filled
from tests.unit.conformance.builders import a_workload


@pytest.mark.parametrize(
    ("wanted", "found", "where"),
    [
        ({"a": 1}, {"a": 1}, ""),
        ({"a": 1}, {"a": 1, "b": 2}, ""),
        ({"a": 1, "b": 2}, {"a": 1}, "line lacks ['b']"),
        ({"a": 1}, {"a": 2}, "line.a: expected 1, found 2"),
        ({"a": 1}, {"a": True}, "line.a: expected 1, found True"),
        ({"a": 1}, {"a": 1.0}, "line.a: expected 1, found 1.0"),
        ({"a": None}, {"a": None}, ""),
        ({"a": "*"}, {"a": [None]}, ""),
        ({"a": "#"}, {"a": 1.5}, ""),
        ({"a": "#"}, {"a": True}, "line.a: expected a number, found True"),
        ({"a": "#"}, {"a": "1"}, "line.a: expected a number, found '1'"),
        ({"a": {"has": ["x", "y"]}}, {"a": "y, x"}, ""),
        ({"a": {"has": ["x", "y"]}}, {"a": "x"}, "line.a: 'x' does not name ['y']"),
        ({"a": {"has": ["x"]}}, {"a": {"has": "x"}}, ""),
        ({"a": [1, "*"]}, {"a": [1, 2]}, ""),
        ({"a": [1, 2]}, {"a": [1, 3]}, "line.a[1]: expected 2, found 3"),
        ({"a": [1]}, {"a": [1, 2]}, "line.a: expected [1], found [1, 2]"),
        ({"a": [{"b": 1}]}, {"a": [{}]}, "line.a[0] lacks ['b']"),
        ({"a": {"b": 1}}, {"a": "b"}, "line.a: expected {'b': 1}, found 'b'"),
        ([], [], ""),
    ],
)
def test_a_line_differs_at_the_first_place_that_the_example_does_not_allow(
    wanted: Any, found: Any, where: str
) -> None:
    assert differs(wanted, found) == where


@pytest.mark.parametrize(
    ("document", "result"),
    [
        ("$PORT", 80),
        ("at $PORT", "at $PORT"),
        ("$NONE", "$NONE"),
        (7, 7),
        ([{"port": "$PORT"}, "$HOST"], [{"port": 80}, "h"]),
        ({"$PORT": "$PORT"}, {"$PORT": 80}),
    ],
)
def test_names_of_values_are_replaced_as_a_whole(document: Any, result: Any) -> None:
    assert filled(document, {"$PORT": 80, "$HOST": "h"}) == result


def test_servers_are_at_loopback_for_their_own_pod_and_at_their_address_for_others() -> None:
    pod = a_workload("servers", address="192.168.0.9")
    servers = Servers(pod, {"$HTTP": 8080})
    assert servers.seen_from(pod) == {"$HTTP": 8080, "$HOST": "127.0.0.1"}
    assert servers.seen_from(a_workload("other"))["$HOST"] == "192.168.0.9"
