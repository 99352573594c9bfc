"""A result about the overlay says whether the nodes stood in several underlay subnets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from conformance.expect.context import Context
from conformance.expect.underlay import Underlay
from tests.plugin.stand_in_cluster import facts
from tests.unit.conformance.expect.stand_ins import workload

NEAR, FAR = "10.0.0.11/24", "10.0.1.12/24"


@pytest.mark.parametrize(
    ("addresses", "count", "words"),
    [
        ((NEAR, NEAR), 1, "between nodes of one subnet, over no router: 10.0.0.0/24"),
        ((NEAR, FAR), 2, "between nodes of 2 subnets, over routers: 10.0.0.0/24, 10.0.1.0/24"),
        ((NEAR, ""), 2, "the nodes' subnets are not known, nor whether a router was crossed"),
    ],
)
def test_the_subnets_of_a_routes_ends_are_told_and_kept(addresses: tuple[str, str], count: int, words: str) -> None:
    known = facts(windows=2)
    notes = [{"projectcalico.org/IPv4Address": address} if address else {} for address in addresses]
    windows = [replace(one, annotations=note) for one, note in zip(known.by_os("windows"), notes, strict=True)]
    recorded: dict[str, Any] = {}
    underlay = Underlay(Context(record=recorded.__setitem__), replace(known, nodes=(*known.by_os("linux"), *windows)))
    client, server = (replace(workload("x", "windows"), node=node.name) for node in windows)
    assert underlay.beside("it passes", [(client, server.tcp(8080))]) == f"it passes; {words}"
    assert recorded == {"underlay subnets": count, "underlay": words}
