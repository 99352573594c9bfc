# SPDX-License-Identifier: Apache-2.0
"""The lab's shapes survive the way over the socket, and a wrong one is refused with the place."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from hybridlab.dataplane.model import (
    EndpointProgram,
    Match,
    NodeSpec,
    PolicyUpdate,
    Rule,
    Tier,
    Tunnel,
    Zone,
)
from hybridlab.kernel.shapes import ShapeError, from_json

TUNNEL = Tunnel(
    device="tunnel",
    identifier=4096,
    port=4789,
    mtu=1450,
    address="192.168.1.0",
    mac="66:00:00:00:00:01",
)
SHAPES = [
    NodeSpec(name="n", os="windows", address="10.0.0.1", prefix_length=24, tunnel=TUNNEL),
    NodeSpec(name="n", os="linux", address="10.0.0.1", prefix_length=24),
    PolicyUpdate(
        sets={"s": ("10.0.0.1",)},
        endpoints={
            "p": EndpointProgram(
                ingress=(
                    Tier(
                        name="t",
                        rules=(
                            Rule(
                                action="allow", match=Match(dst_ports=((1, 2), (3, 4)), icmp_type=0)
                            ),
                        ),
                    ),
                )
            )
        },
    ),
    Zone(
        domain="cluster.local", a={"a": ("1.2.3.4",)}, srv={"s": ((80, "a"),)}, ptr={"1.2.3.4": "a"}
    ),
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: type(s).__name__)
def test_there_and_back(shape: Any) -> None:
    assert from_json(type(shape), orjson.loads(orjson.dumps(shape))) == shape


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"colour": "red"}, "NodeSpec: unknown field 'colour'; the fields are name, os"),
        ({"os": "plan9"}, "NodeSpec.os: expected one of linux, windows, got 'plan9'"),
        ({"prefix_length": "24"}, "NodeSpec.prefix_length: expected int, got str '24'"),
        ({"prefix_length": True}, "NodeSpec.prefix_length: expected int, got bool"),
        (
            {"tunnel": {"identifier": 1}},
            "NodeSpec.tunnel: .*missing 5 required keyword-only arguments",
        ),
    ],
)
def test_a_wrong_shape_is_refused_with_its_place(change: Any, words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        from_json(NodeSpec, {**orjson.loads(orjson.dumps(SHAPES[1])), **change})
