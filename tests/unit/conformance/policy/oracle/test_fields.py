# SPDX-License-Identifier: Apache-2.0
"""Each reader of a field returns the field's value, and refuses everything else in one line."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any

import pytest

from conformance.errors import UsageProblem
from conformance.policy.oracle import fields
from conformance.policy.oracle.fields import IPV6

FOUR = int(ipaddress.IPv4Address("10.0.0.1"))
SIX = int(ipaddress.IPv6Address("fd00::1"))
WHERE = "spec.x"
NET = int(ipaddress.IPv4Address("10.0.0.0"))


@pytest.mark.parametrize(
    ("read", "value", "expected"),
    [
        (fields.ip, "10.0.0.1", FOUR),
        (fields.ip, "::ffff:10.0.0.1", FOUR),
        (fields.ip, "fd00::1", SIX + IPV6),
        (fields.address, "10.0.0.1", FOUR),
        (fields.label, {"kind": "A", "metadata": {"name": "n"}}, "A n"),
        (fields.label, {"kind": "A", "metadata": {"name": "n", "namespace": "s"}}, "A s/n"),
    ],
)
def test_a_value_alone_is_read(read: Callable[[Any], object], value: Any, expected: object) -> None:
    assert read(value) == expected


@pytest.mark.parametrize(
    ("read", "value", "expected"),
    [
        (fields.mapping, None, {}),
        (fields.mapping, {"a": 1}, {"a": 1}),
        (fields.sequence, None, ()),
        (fields.sequence, [1], [1]),
        (fields.text, None, ""),
        (fields.text, "a", "a"),
        (fields.number, 3, 3.0),
        (fields.number, -2.5, -2.5),
        (fields.number, 9.9e299, 9.9e299),
        (fields.protocol, "TCP", 6),
        (fields.protocol, "udp", 17),
        (fields.protocol, "17", 17),
        (fields.protocol, 1, 1),
        (fields.protocol, 255, 255),
        (fields.ports, None, ((), ())),
        (fields.ports, [80, "81", "90:95", "http"], (((80, 80), (81, 81), (90, 95)), ("http",))),
        (fields.ports, [1, 65535, "7:7"], (((1, 1), (65535, 65535), (7, 7)), ())),
        (fields.nets, None, None),
        (fields.nets, [], None),
        (fields.nets, ["10.0.0.0/30", "10.0.0.9"], ((NET, NET + 3), (NET + 9, NET + 9))),
        (fields.nets, ["::ffff:10.0.0.0/126"], ((NET, NET + 3),)),
        (fields.nets, ["fd00::/127"], ((SIX - 1 + IPV6, SIX + IPV6),)),
    ],
)  # fmt: skip
def test_a_field_is_read(read: Callable[[Any, str], object], value: Any, expected: object) -> None:
    assert read(value, WHERE) == expected


@pytest.mark.parametrize(
    ("read", "value", "why"),
    [
        (fields.ip, "10.0.0", "is no address"),
        (fields.ip, 7, "is no address"),
        (fields.mapping, [], "a mapping is expected"),
        (fields.sequence, {}, "a list is expected"),
        (fields.sequence, "ab", "a list is expected"),
        (fields.text, 1, "a string is expected"),
        (fields.number, True, "a number is expected"),
        (fields.number, "1", "a number is expected"),
        (fields.number, 1e300, "a number is expected"),
        (fields.number, float("nan"), "a number is expected"),
        (fields.protocol, "0", "unknown protocol"),
        (fields.protocol, 256, "unknown protocol"),
        (fields.protocol, "tcpx", "unknown protocol"),
        (fields.ports, [0], "is no range of ports"),
        (fields.ports, [65536], "is no range of ports"),
        (fields.ports, ["9:8"], "is no range of ports"),
        (fields.ports, [""], "is no port"),
        (fields.ports, ["a:b"], "is no port"),
        (fields.ports, [None], "is no port"),
        (fields.nets, ["10.0.0.0/255.0.0.0"], "is no network"),
        (fields.nets, [7], "is no network"),
        (fields.of_pods, "global()", "Calico refuses global"),
    ],
)
def test_another_value_is_refused(read: Callable[[Any, str], object], value: Any, why: str) -> None:
    with pytest.raises(UsageProblem, match=why) as raised:
        read(value, WHERE)
    assert str(raised.value).startswith(WHERE)


def test_an_address_without_a_prefix_is_no_network_where_one_is_needed() -> None:
    assert fields.nets(["10.0.0.0/32"], WHERE, bare=False) == ((NET, NET),)
    with pytest.raises(UsageProblem, match="is no network"):
        fields.nets(["10.0.0.0"], WHERE, bare=False)


def test_an_unknown_key_or_word_is_refused_by_its_name() -> None:
    assert fields.mapping({"a": 1}, WHERE, ("a", "b")) == {"a": 1}
    with pytest.raises(UsageProblem, match=f"{WHERE}: unknown field c"):
        fields.mapping({"a": 1, "d": 2, "c": 3}, WHERE, ("a", "b"))
    assert fields.one_of("a", WHERE, ("a", "b")) == "a"
    for value in ("c", 1, None):
        with pytest.raises(UsageProblem, match=f"{WHERE}: one of a, b is expected"):
            fields.one_of(value, WHERE, ("b", "a"))


@pytest.mark.parametrize(
    "obj", [{}, {"kind": "A"}, {"metadata": {"name": "n"}}, {"kind": "A", "metadata": "n"}]
)
def test_an_object_without_kind_or_name_is_refused(obj: Any) -> None:
    with pytest.raises(UsageProblem, match="an object without kind or name"):
        fields.label(obj)


@pytest.mark.parametrize(
    ("version", "foreign"),
    [
        ("v1", False),
        ("apps/v1", False),
        ("networking.k8s.io/v1", False),
        ("projectcalico.org/v3", False),
        ("crd.projectcalico.org/v1", False),
        ("cilium.io/v2", True),
        ("", False),
    ],
)
def test_an_object_of_another_projects_api_is_foreign(version: str, foreign: bool) -> None:
    assert fields.is_foreign({"apiVersion": version}) is foreign


@pytest.mark.parametrize(
    ("value", "inside"),
    [(None, False), (4, False), (5, True), (7, True), (8, False), (10, True), (11, False)],
)
def test_a_number_lies_within_ranges(value: int | None, inside: bool) -> None:
    assert fields.within(value, ((5, 7), (10, 10))) is inside


@pytest.mark.parametrize(
    "error", [KeyError("a"), TypeError("b"), RecursionError("c"), ZeroDivisionError()]
)
def test_a_value_of_another_type_inside_is_refused_in_one_short_line(error: Exception) -> None:
    with pytest.raises(UsageProblem, match="spec.x: cannot be read: " + type(error).__name__):
        with fields.legible(WHERE):
            raise error
    with pytest.raises(UsageProblem) as raised, fields.legible(WHERE):
        raise ValueError("long " * 100 + "\nsecond line")
    assert str(raised.value) == f"{WHERE}: cannot be read: " + ("ValueError " + "long " * 100)[:120]
