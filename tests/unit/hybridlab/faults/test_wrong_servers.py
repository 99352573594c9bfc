# SPDX-License-Identifier: Apache-2.0
"""Services that a node lost, and pods with neighbouring addresses, of which another one answers."""

from __future__ import annotations

import asyncio

import pytest

from hybridlab.dataplane.model import Backend, ServicePort, ServiceTable
from hybridlab.faults.errors import BadFault
from tests.unit.hybridlab.faults.fault_lab import lab


def port(name: str, *backends: str, target: int = 8080) -> ServicePort:
    return ServicePort(
        name=name, protocol="tcp", cluster_ip="10.96.0.9", port=80, node_port=None,
        backends=tuple(Backend(address=address, port=target) for address in backends),
    )  # fmt: skip


def test_a_node_that_lost_its_services_has_none_until_it_regains_them() -> None:
    async def run() -> None:
        async with lab() as made:
            gate = made.services
            await gate.set_services("linux-1", ServiceTable(ports=(port("a", "192.168.0.1"),)))
            await gate.lose("linux-1")
            assert served(made, "linux-1") == {}
            both = ServiceTable(ports=(port("a", "192.168.0.1"), port("b", "192.168.0.2")))
            await gate.set_services("linux-1", both)
            assert served(made, "linux-1") == {}
            await gate.regain("linux-1")
            assert served(made, "linux-1") == {"a": ["192.168.0.1"], "b": ["192.168.0.2"]}

    asyncio.run(run())


def served(made: object, node: str) -> dict[str, list[str]]:
    table = made.dataplane.services[node]  # type: ignore[attr-defined]
    return {one.name: [backend.address for backend in one.backends] for one in table.ports}


def test_pods_of_that_node_are_asked_in_place_of_their_neighbours() -> None:
    async def run() -> None:
        async with lab() as made:
            await made.calico.pod("a", "linux-1")
            await made.injector.inject("pods-swapped", {"node": "linux-1"})
            (rule,) = made.rules("linux-1")
            assert rule.startswith(
                "f_dnat: meta l4proto { tcp, udp } th dport 8080 dnat ip to ip daddr map { "
            )
            (block,) = made.calico.calico.ipam.blocks_of("linux-1")
            first = block.cidr[0]
            assert f"{first} : {first + 1}, {first + 1} : {first}" in rule
            assert made.rules("linux-2") == []
            with pytest.raises(BadFault, match="port is 'http'"):
                await made.injector.inject("pods-swapped", {"node": "linux-1", "port": "http"})

    asyncio.run(run())
