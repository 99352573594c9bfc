"""Routes of Linux nodes to Windows nodes' blocks, and by IPIP, as facts."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.facts.linux_routes import LinuxRoutes
from conformance.model.host import LinuxFacts, RouteEntry
from tests.unit.conformance.facts.test_objects import V3, Objects, facts, named, reads, values

BLOCK = named("b", node="win", state="confirmed", cidr="10.1.0.0/26")


def routes(*destinations: str, device: str = "vxlan.calico", felix: dict[str, Any] | None = None) -> LinuxRoutes:
    there = {(V3, "BlockAffinity"): [BLOCK], (V3, "FelixConfiguration"): [named("default", **(felix or {}))]}
    entries = tuple(
        RouteEntry(destination=one, gateway="", device=device, onlink=False, table=254) for one in destinations
    )
    seen = LinuxFacts(node="lin", links=(), routes=entries, fdb=(), neighbours=())
    return LinuxRoutes(Objects(there), reads(there, facts()), lambda node: seen)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("destinations", "told"),
    [
        (["10.1.0.0/26", "10.2.0.5/32"], "one route for the whole block"),
        ([], "no route for the whole block"),
        (["10.1.0.7/32"], "no route for the whole block"),
        (["10.1.0.0/26", "10.1.0.7/32"], "routes within it: 10.1.0.7/32 dev vxlan.calico"),
    ],
)
def test_a_block_has_one_route_and_its_addresses_have_none(destinations: list[str], told: str) -> None:
    assert values(routes(*destinations).to_blocks("lin")) == {"route of node lin to 10.1.0.0/26 of node win": told}


def test_routes_by_ipips_device_are_named() -> None:
    assert list(values(routes("10.3.0.0/26", device="tunl0").by_ipip("lin")).values()) == [["10.3.0.0/26"]]
    assert list(values(routes("10.3.0.0/26").by_ipip("lin")).values()) == [[]]


@pytest.mark.parametrize(
    ("felix", "told"), [({}, "off"), ({"ipipEnabled": False}, "off"), ({"ipipEnabled": True}, "on")]
)
def test_ipip_is_on_only_where_it_is_said(felix: dict[str, Any], told: str) -> None:
    assert list(values(routes(felix=felix).ipip_setting()).values()) == [told]
