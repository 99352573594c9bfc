# SPDX-License-Identifier: Apache-2.0
"""Routes of Linux nodes to Windows nodes' blocks, and by IPIP, as facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from conformance.facts.networks.linux_routes import LinuxRoutes
from conformance.model.host import LinuxFacts, RouteEntry
from tests.unit.conformance.builders import an_object
from tests.unit.conformance.facts.test_objects import V3, facts, reads, values

BLOCK = an_object("b", node="win", state="confirmed", cidr="10.1.0.0/26")


def routes(
    *destinations: str,
    device: str = "vxlan.calico",
    felix: dict[str, Any] | None = None,
    passed_on: str | None = None,
) -> LinuxRoutes:
    """``10.1.0.0/26 by 10.0.0.2`` is one with a next hop; ``passed_on``: how a BGPPeer takes next
    hops."""
    there = {
        (V3, "BlockAffinity"): [BLOCK],
        (V3, "FelixConfiguration"): [an_object("default", **(felix or {}))],
        (V3, "IPPool"): [
            an_object("p", cidr="10.1.0.0/16"),
            an_object("gone", cidr="10.4.0.0/16", disabled=True),
        ],
        (V3, "BGPPeer"): [an_object("r", nextHopMode=passed_on)],
    }
    entries = tuple(
        RouteEntry(destination=to, gateway=by, device=device, onlink=False, table=254)
        for to, _, by in (one.partition(" by ") for one in destinations)
    )
    seen = LinuxFacts(node="lin", links=(), routes=entries, fdb=(), neighbours=())
    nodes = tuple(
        replace(one, annotations={"projectcalico.org/IPv4Address": f"10.0.0.{number}/24"})
        for number, one in enumerate(facts().nodes, 1)
    )
    return LinuxRoutes(
        reads(there, replace(facts(), nodes=nodes)),
        lambda node: seen,
    )


@pytest.mark.parametrize(
    ("destinations", "told"),
    [
        (["10.1.0.0/26", "10.2.0.5/32"], "one route for the whole block"),
        ([], "no route for the whole block"),
        (["10.1.0.7/32"], "no route for the whole block"),
        (
            ["10.1.0.0/26", "10.1.0.7/32"],
            "only routes within the block: 10.1.0.7/32 dev vxlan.calico",
        ),
        (["10.1.0.0/26 by 10.0.0.2"], "one route for the whole block"),
        (["10.1.0.0/26 by 10.0.0.254"], "one route for the whole block"),
        (["10.1.0.0/26 by 10.0.0.1"], "via 10.0.0.1, which is node lin"),
    ],
)
def test_a_block_has_one_route_and_its_addresses_have_none(
    destinations: list[str], told: str
) -> None:
    assert values(routes(*destinations).to_blocks("lin")) == {
        "route of node lin to 10.1.0.0/26 of node win": told
    }


def test_a_node_that_passes_on_what_it_learns_may_be_the_next_hop() -> None:
    by_another = "10.1.0.0/26 by 10.0.0.1"
    assert [*values(routes(by_another, passed_on="Self").to_blocks("lin")).values()] == [
        "one route for the whole block"
    ]
    assert [*values(routes(by_another, passed_on="Keep").to_blocks("lin")).values()] != [
        "one route for the whole block"
    ]


@pytest.mark.parametrize(
    ("left", "told"),
    [
        ("10.1.9.0/26 by 10.0.0.9", "via 10.0.0.9, but no node has this block"),
        ("10.1.9.6/31 by 10.0.0.9", "via 10.0.0.9, but no node has this block"),
        ("10.1.9.7/32 by 10.0.0.9", ""),
        ("10.1.9.0/26", ""),
        ("10.1.0.0/16 by 10.0.0.9", ""),
        ("10.2.9.0/26 by 10.0.0.9", ""),
        ("10.4.9.0/26 by 10.0.0.9", ""),
    ],
)
def test_a_route_to_a_block_of_nobody_is_told(left: str, told: str) -> None:
    found = values(routes("10.1.0.0/26", left).to_blocks("lin"))
    assert found.get(f"route of node lin to {left.partition(' ')[0]}", "") == told
    assert len(found) == 1 + bool(told)


def test_routes_by_ipips_device_are_named() -> None:
    assert list(values(routes("10.3.0.0/26", device="tunl0").by_ipip("lin")).values()) == [
        ["10.3.0.0/26"]
    ]
    assert list(values(routes("10.3.0.0/26").by_ipip("lin")).values()) == [[]]


@pytest.mark.parametrize(
    ("felix", "told"), [({}, "off"), ({"ipipEnabled": False}, "off"), ({"ipipEnabled": True}, "on")]
)
def test_ipip_is_on_only_where_it_is_said(felix: dict[str, Any], told: str) -> None:
    assert list(values(routes(felix=felix).ipip_setting()).values()) == [told]
