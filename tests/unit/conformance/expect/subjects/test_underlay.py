# SPDX-License-Identifier: Apache-2.0
"""Results about the overlay say whether nodes are in several underlay subnets; the subnets of
nodes are read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from conformance.errors import NotObservable
from conformance.expect.case import Case, Paths
from conformance.expect.context import Context, Sink
from conformance.expect.subjects.underlay import Subnets, Underlay
from conformance.model.host import LinuxFacts, RouteEntry
from tests.plugin.stand_in_cluster import facts
from tests.unit.conformance.builders import a_workload

NEAR, FAR = "10.0.0.11/24", "10.0.1.12/24"


@pytest.mark.parametrize(
    ("addresses", "count", "words"),
    [
        ((NEAR, NEAR), 1, "between nodes of one subnet, without a router: 10.0.0.0/24"),
        ((NEAR, FAR), 2, "between nodes of 2 subnets, across routers: 10.0.0.0/24, 10.0.1.0/24"),
        ((NEAR, ""), 2, "the nodes' subnets are not known, nor whether a router was crossed"),
    ],
)
def test_the_subnets_of_a_routes_ends_are_told_and_kept(
    addresses: tuple[str, str], count: int, words: str
) -> None:
    known = facts(windows=2)
    notes = [{"projectcalico.org/IPv4Address": address} if address else {} for address in addresses]
    windows = [
        replace(one, annotations=note)
        for one, note in zip(known.by_os("windows"), notes, strict=True)
    ]
    recorded: dict[str, Any] = {}
    underlay = Underlay(
        Context(sink=Sink(recorded=recorded)),
        replace(known, nodes=(*known.by_os("linux"), *windows)),
    )
    client, server = (a_workload(node.name, "windows", node=node.name) for node in windows)
    case = Case(client, server, tcp=8080, open=True, because="it passes")
    assert underlay.beside(case) == replace(case, because=f"it passes; {words}")
    assert recorded == {"underlay subnets": count, "underlay": words}


ON_THE_LINK = RouteEntry(
    destination="10.0.0.0/24", gateway="", device="eth0", onlink=False, table=254
)


def route(destination: str, gateway: str = "") -> RouteEntry:
    return replace(ON_THE_LINK, destination=destination, gateway=gateway)


def subnets(*routes: RouteEntry) -> Subnets:
    class Hosts:
        def linux(self, node: str) -> LinuxFacts:
            return LinuxFacts(node=node, links=(), routes=routes, fdb=(), neighbours=())

    return Subnets(Hosts())  # type: ignore[arg-type]  # it is asked this alone


HOST = a_workload("host", "linux", node_address="10.0.0.11")
NEXT, BEYOND = (
    a_workload(name, "windows", node_address=address)
    for name, address in (("next", "10.0.0.12"), ("beyond", "10.0.1.12"))
)


def test_pairs_within_a_subnet_are_those_whose_nodes_are_on_one_link() -> None:
    seen = subnets(
        route("0.0.0.0/0", "10.0.0.1"), route("10.0.0.0/24"), route("10.0.1.0/24", "10.0.0.1")
    )
    case = Case([HOST, NEXT], [NEXT, BEYOND], tcp=80, open=True, because="it passes")
    assert len(case.pairs) == 3
    assert seen.within(case, [HOST]) == Paths(
        [(HOST, NEXT.tcp(80))], open=True, because="it passes"
    )


@pytest.mark.parametrize(
    "routes",
    [
        (),
        (route("10.0.0.0/24", "10.0.0.1"),),  # behind a router
        (
            route("10.0.0.11/32"),
            route("0.0.0.0/0"),
        ),  # a cloud's node, which has its own address alone
        (route("10.0.1.0/24"),),  # the node's own address is in another
    ],
)
def test_where_no_two_nodes_share_a_subnet_nothing_shows_what_holds_within_one(
    routes: tuple[RouteEntry, ...],
) -> None:
    with pytest.raises(NotObservable, match="no two of the covered nodes"):
        subnets(*routes).within(Case(HOST, NEXT, tcp=80, open=True, because="x"), [HOST])
