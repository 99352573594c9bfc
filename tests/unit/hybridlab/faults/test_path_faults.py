# SPDX-License-Identifier: Apache-2.0
"""Faults of paths between pods: packets dropped, wrong routes and devices, Services, source addresses."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from hybridlab.faults.errors import BadFault
from hybridlab.networks.registry import fault_types
from tests.unit.hybridlab.faults.fault_lab import lab


@pytest.mark.parametrize(
    ("parameters", "rules"),
    [
        ({}, ["f_fwd: udp dport 4789 drop"]),
        (
            {"scope": "node", "node": "linux-1"},
            [
                "f_fwd: ip saddr 10.0.0.11 udp dport 4789 drop",
                "f_fwd: ip daddr 10.0.0.11 udp dport 4789 drop",
            ],
        ),
        (
            {"scope": "pair", "node": "linux-1", "peer": "windows-2022"},
            [
                "f_fwd: ip saddr 10.0.0.11 ip daddr 10.0.0.14 udp dport 4789 drop",
                "f_fwd: ip saddr 10.0.0.14 ip daddr 10.0.0.11 udp dport 4789 drop",
            ],
        ),
    ],
)
def test_udp4789_is_dropped_in_the_underlay_in_its_scope(parameters: Any, rules: Any) -> None:
    async def run() -> None:
        async with lab() as made:
            await made.injector.inject("udp4789-dropped", parameters)
            assert made.rules("fabric") == rules
            assert set(made.dataplane.faults) == {"fabric"}

    asyncio.run(run())


def test_an_mtu_black_hole_s_parameter_is_the_largest_packet_that_passes() -> None:
    async def run() -> None:
        async with lab() as made:
            await made.injector.inject("mtu-black-hole", {"bytes": "1200"})
            assert made.rules("fabric") == ["f_fwd: udp dport 4789 ip length > 1200 drop"]
            listed = {
                item["name"]: item["parameters"]
                for item in made.injector.catalogue(fault_types().values())
            }
            assert listed["mtu-black-hole"]["bytes"].startswith("size of the largest outer packet")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("way", "ends"),
    [("out", ["saddr"]), ("in", ["daddr"]), ("both", ["saddr", "daddr"])],
    ids=["out", "in", "both"],
)
def test_fragments_are_dropped_on_the_way_that_is_asked_for(way: str, ends: list[str]) -> None:
    async def run() -> None:
        async with lab() as made:
            await made.injector.inject("fragments-dropped", {"node": "linux-1", "way": way})
            rules = made.rules("fabric")
            assert [rule.split()[2] for rule in rules] == ends
            assert all(
                "10.0.0.11 udp dport 4789 @th,288,16 & 0x3fff != 0 drop" in rule for rule in rules
            )

    asyncio.run(run())


def test_packets_are_dropped_by_their_way_and_by_words_of_nft_alone() -> None:
    async def run() -> None:
        async with lab() as made:
            between, own, within = {"way": "both"}, {"way": "own"}, {"way": "within"}
            for node, way in (("linux-1", between), ("linux-2", own), ("linux-3", within)):
                await made.injector.inject(
                    "packets-dropped", {"node": node, "match": "udp_dport_80", **way}
                )
            devices = '{ "eth0", "vxlan.calico" } udp dport 80 drop'
            assert made.rules("linux-1") == [
                f"f_fwd: iifname {devices}",
                f"f_fwd: oifname {devices}",
            ]
            assert made.rules("linux-2") == ["f_out: udp dport 80 ip daddr set 192.0.2.1"]
            assert made.rules("linux-3") == [
                'f_fwd: iifname "cali*" oifname "cali*" udp dport 80 drop'
            ]
            for wrong in ("drop;add_table_ip_x", "tcp dport 1"):
                with pytest.raises(BadFault, match="expected an nft expression with _ for blanks"):
                    await made.injector.inject(
                        "packets-dropped", {"node": "linux-1", "match": wrong}
                    )

    asyncio.run(run())


def test_flows_are_dropped_at_their_node_alone_by_what_their_first_packet_had() -> None:
    async def run() -> None:
        async with lab() as made:
            await made.injector.inject("flows-dropped", {"node": "windows-2022"})
            rules = made.rules("windows-2022")
            assert set(made.dataplane.faults) == {"windows-2022"}
            assert [rule.partition(" ")[0] for rule in rules] == [
                "f_fwd:",
                "f_fwd:",
                "f_in:",
                "f_post:",
            ]
            flow = "ct original ip saddr . ct original ip daddr . ct original proto-src . ct original proto-dst"
            assert all(
                f"{{ tcp, udp }} jhash {flow} mod 5 seed 0xf10 == 0" in rule for rule in rules
            )

    asyncio.run(run())


@pytest.mark.parametrize(
    ("name", "parameters", "wrong"),
    [
        ("route-missing", {}, {"lacks": ("route",)}),
        ("forwarding-missing", {}, {"lacks": ("forwarding",)}),
        ("forwarding-missing", {"entry": "neighbour"}, {"lacks": ("neighbour",)}),
        ("forwarding-wrong", {}, {"node_address": "192.0.2.1"}),
    ],
)
def test_ways_to_one_node_are_laid_wrongly_and_mended(
    name: Any, parameters: Any, wrong: Any
) -> None:
    async def run() -> None:
        async with lab() as made:
            await made.calico.calico.felixes["linux-1"].routing.done()
            before = made.dataplane.routes["linux-1"]
            to = next(block for block in before.remote_blocks if block.node_address == "10.0.0.14")
            identity = await made.injector.inject(
                name, {"node": "linux-1", "to": "windows-2022", **parameters}
            )
            changed = {
                block.cidr: block for block in made.dataplane.routes["linux-1"].remote_blocks
            }
            assert changed == {block.cidr: block for block in before.remote_blocks} | {
                to.cidr: replace(to, **wrong)
            }
            assert to.cidr in (await made.injector.evidence(identity))[0]
            await made.injector.heal(identity)
            assert made.dataplane.routes["linux-1"] == before

    asyncio.run(run())


def test_a_device_that_differs_is_made_anew_and_its_routes_with_it() -> None:
    async def run() -> None:
        async with lab() as made:
            await made.calico.calico.felixes["linux-1"].routing.done()
            before = made.dataplane.tunnels["linux-1"]
            assert before is not None
            identity = await made.injector.inject(
                "vxlan-differs", {"node": "linux-1", "port": "4790"}
            )
            assert made.dataplane.tunnels["linux-1"] == replace(before, port=4790)
            assert made.dataplane.routes["linux-1"].remote_blocks
            await made.injector.heal(identity)
            assert made.dataplane.tunnels["linux-1"] == before

    asyncio.run(run())


def test_a_services_cluster_ip_and_node_port_do_not_answer_on_that_node() -> None:
    async def run() -> None:
        async with lab() as made:
            await made.injector.inject(
                "service-backend-missing", {"service": "demo/web", "node": "linux-1"}
            )
            assert "f_raw: ip daddr 10.96.0.20 tcp dport 80 drop" in made.rules("linux-1")
            assert "f_out: fib daddr type local tcp dport 30080 drop" in made.rules("linux-1")
            assert len(made.rules("linux-1")) == 4

    asyncio.run(run())


def test_snat_is_for_the_nodes_own_pods_only() -> None:
    async def run() -> None:
        async with lab() as made:
            await made.injector.inject("snat-pod-to-pod", {"node": "linux-1"})
            block = made.calico.calico.ipam.blocks_of("linux-1")[0].cidr
            assert made.rules("linux-1") == [
                'f_snat: oifname "vxlan.calico" ip saddr { 192.168.0.0/16 } masquerade',
                f'f_snat: oifname "cali*" ip saddr {{ {block} }} snat to 10.0.0.11',
            ]
            narrow = {"node": "linux-1", "protocol": "tcp", "only": "th_dport_443"}
            await made.injector.inject("snat-pod-to-pod", narrow)
            own = f"ip saddr {{ {block} }} meta l4proto tcp th dport 443"
            assert f'f_snat: oifname "cali*" {own} snat to 10.0.0.11' in made.rules("linux-1")

    asyncio.run(run())
