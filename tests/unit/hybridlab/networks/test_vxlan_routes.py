# SPDX-License-Identifier: Apache-2.0
"""Routes from what the API says: borrowed addresses, tunnels that are not known yet."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Network

from hybridlab.networks.contract.routing import BlockFacts, PoolFacts, RoutingFacts, block_facts
from hybridlab.networks.vxlan.routes import node_routes, past_the_tunnel, vtep


def facts() -> RoutingFacts:
    ends = {
        name: vtep(
            name,
            {
                "projectcalico.org/IPv4Address": f"10.0.0.{number}/24",
                "projectcalico.org/IPv4VXLANTunnelAddr": f"192.168.{number}.0",
            },
        )
        for number, name in ((1, "a"), (2, "b"), (3, "c"))
    }
    made = RoutingFacts(ends={name: end for name, end in ends.items() if end})
    for number, name in ((1, "a"), (2, "b"), (3, "c")):
        cidr = f"192.168.{number}.0/26"
        made.blocks[cidr] = BlockFacts(cidr=cidr, node=name)
    made.pools["p"] = PoolFacts(cidr="192.168.0.0/16", nat_outgoing=True)
    return made


def test_a_borrowed_address_is_routed_to_its_borrower_by_everybody_else() -> None:
    made = facts()
    made.blocks["192.168.1.0/26"] = BlockFacts(
        cidr="192.168.1.0/26", node="a", borrowed=(("192.168.1.9", "b"),)
    )
    ways = {
        node: {block.cidr: block.node_address for block in node_routes(made, node)[0].remote_blocks}
        for node in ("a", "b", "c")
    }
    assert ways["a"]["192.168.1.9/32"] == "10.0.0.2"
    assert ways["c"]["192.168.1.9/32"] == "10.0.0.2"
    assert ways["c"]["192.168.1.0/26"] == "10.0.0.1"
    assert "192.168.1.9/32" not in ways["b"]
    assert ways["b"]["192.168.1.0/26"] == "10.0.0.1"


def test_who_borrows_is_read_from_the_block() -> None:
    spec = {
        "cidr": "192.168.1.0/29",
        "affinity": "host:a",
        "allocations": [0, None, 1, None, None, None, None, None],
        "attributes": [
            {"handle_id": "x", "secondary": {"node": "a"}},
            {"handle_id": "y", "secondary": {"node": "b"}},
        ],
    }
    found = block_facts({"spec": spec})
    assert found == BlockFacts(cidr="192.168.1.0/29", node="a", borrowed=(("192.168.1.2", "b"),))
    assert block_facts({"spec": {**spec, "affinity": ""}}) is None


def test_a_block_is_not_routed_before_its_nodes_tunnel_is_known() -> None:
    made = facts()
    del made.ends["b"]
    routes, unknown = node_routes(made, "a")
    assert [block.cidr for block in routes.remote_blocks] == ["192.168.3.0/26"]
    assert unknown == ("192.168.2.0/26",)


def test_a_node_without_a_tunnel_of_its_own_routes_nothing_away() -> None:
    made = facts()
    del made.ends["a"]
    assert node_routes(made, "a")[0].remote_blocks == ()
    assert node_routes(made, "a")[0].own_blocks == ("192.168.1.0/26",)


def test_the_mac_of_the_annotation_wins() -> None:
    annotations = {
        "projectcalico.org/IPv4Address": "10.0.0.1/24",
        "projectcalico.org/IPv4VXLANTunnelAddr": "192.168.1.1",
        "projectcalico.org/VXLANTunnelMACAddr": "00:15:5d:01:02:03",
    }
    found = vtep("w", annotations)
    assert found is not None
    assert (found.address, found.tunnel_mac) == ("10.0.0.1", "00:15:5d:01:02:03")
    assert vtep("w", {"projectcalico.org/IPv4Address": "10.0.0.1/24"}) is None


def test_blocks_of_pools_in_cross_subnet_mode_are_reached_past_the_tunnel_in_one_subnet() -> None:
    made = facts()
    before, _ = node_routes(made, "a")
    subnet = IPv4Network("10.0.0.0/24")
    assert past_the_tunnel(made, before, subnet) == before
    made.pools["p"] = replace(made.pools["p"], cross_subnet=True)
    direct = past_the_tunnel(made, before, subnet).direct
    assert [(one.cidr, one.via) for one in direct] == [
        (one.cidr, one.node_address) for one in before.remote_blocks
    ]
    assert past_the_tunnel(made, before, IPv4Network("10.9.0.0/24")) == before
