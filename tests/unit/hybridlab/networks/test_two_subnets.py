# SPDX-License-Identifier: Apache-2.0
"""Between two subnets blocks are known by the routers that stand between them, and by nothing else."""

from __future__ import annotations

import pytest

from hybridlab.networks.contract.routing import NodeEnd
from hybridlab.networks.l2bridge.bgp import Wrong
from tests.unit.hybridlab.networks.test_bgp import Town

NEAR, FAR = {"control-plane", "linux-1", "linux-2", "windows-2022"}, {"linux-far", "windows-2019"}
ROUTER = {
    "linux-1": "10.0.0.1",
    "windows-2022": "10.0.0.1",
    "linux-far": "10.0.1.1",
    "windows-2019": "10.0.1.1",
}


@pytest.fixture
def town() -> Town:
    made = Town(profile="dual-subnet")
    for name, spec in made.plane.declared().peers.items():
        made.facts.peers[name] = dict(spec)
    for name, machine in made.machines.items():
        made.facts.ends[name] = end(made, name, machine.group.labels)
    return made


def end(town: Town, node: str, labels: dict[str, str]) -> NodeEnd:
    found = town.plane.node_end(
        node,
        {
            "annotations": {"projectcalico.org/IPv4Address": f"{town.machines[node].address}/24"},
            "labels": labels,
        },
    )
    assert found is not None
    return found


def ways(town: Town, node: str) -> dict[str, str]:
    """Node to the next hop of a node's route to its block."""
    routes = town.plane.program(node, town.facts, {}, None).routes.direct
    return {town.facts.blocks[route.cidr].node: route.via for route in routes}


@pytest.mark.parametrize("node", ROUTER)
def test_the_own_subnet_is_reached_by_nodes_addresses_and_the_other_by_the_router(
    town: Town, node: str
) -> None:
    beside, beyond = (NEAR, FAR) if node in NEAR else (FAR, NEAR)
    wanted = {other: town.machines[other].address for other in beside - {node}} | dict.fromkeys(
        beyond, ROUTER[node]
    )
    assert ways(town, node) == wanted
    led = {route.cidr: route.node for route in town.plane.fabric(town.facts).routes}
    assert led == {cidr: block.node for cidr, block in town.facts.blocks.items()}


@pytest.mark.parametrize("what", ["withheld", "astray", "stopped"])
@pytest.mark.parametrize("node", ["windows-2019", "linux-far"])
def test_routers_know_nothing_of_a_node_that_says_nothing(
    town: Town, node: str, what: Wrong
) -> None:
    program = "bird" if node.startswith("linux") else "RemoteAccess"
    town.bgp.faults["f"] = (what, (node, program) if what == "stopped" else node)
    assert set(ways(town, "linux-1")) == {*NEAR, *FAR} - {"linux-1", node}
    assert node not in {route.node for route in town.plane.fabric(town.facts).routes}


def test_without_routers_that_speak_bgp_nothing_leads_beyond_the_subnet(town: Town) -> None:
    town.facts.peers.clear()
    assert set(ways(town, "linux-1")) == NEAR - {"linux-1"}
    assert town.plane.fabric(town.facts).routes == ()
    assert town.bgp.established("linux-1", "windows-2019", town.facts), (
        "the mesh has its session, of no use"
    )


def test_a_windows_host_lists_what_its_router_told_it(town: Town) -> None:
    rows = [
        row
        for row in town.listed("windows-2022", "get-bgprouteinformation")
        if row["NextHop"] == "10.0.0.1"
    ]
    assert {row["LearnedFromPeer"] for row in rows} == {"Node_10_0_0_1"}
    assert {town.facts.blocks[str(row["DestinationNetwork"])].node for row in rows} == FAR
