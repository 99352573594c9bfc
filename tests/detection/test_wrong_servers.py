# SPDX-License-Identifier: Apache-2.0
"""Faults of kube-proxies: Services with the backends of another Service, with fewer backends, or
without NodePorts."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from hybridlab.dataplane.model import Backend, ServicePort, ServiceTable
from tests.detection.taps.table import taps
from tests.unit.hybridlab.faults.fault_lab import lab

ROWS = taps("")


def port(name: str, *backends: str, target: int = 8080) -> ServicePort:
    return ServicePort(
        name=name, protocol="tcp", cluster_ip="10.96.0.9", port=80, node_port=None,
        backends=tuple(Backend(address=address, port=target) for address in backends),
    )  # fmt: skip


def test_services_get_backends_of_others_with_the_same_port_until_it_is_healed() -> None:
    async def run() -> None:
        async with lab(taps=ROWS) as made:
            gate = made.services
            ports = (
                port("a", "192.168.0.1"),
                port("b", "192.168.0.2"),
                port("empty"),
                port("dns", "192.168.0.3", target=53),
            )
            await gate.set_services("linux-1", ServiceTable(ports=ports))
            identity = await made.injector.inject("backends-of-another", {"node": "linux-1"})
            assert served(made, "linux-1") == {
                "a": ["192.168.0.2"], "b": ["192.168.0.1"], "empty": [], "dns": ["192.168.0.3"],
            }  # fmt: skip
            await made.injector.heal(identity)
            assert served(made, "linux-1")["a"] == ["192.168.0.1"]

    asyncio.run(run())


def test_services_lose_their_node_ports_alone_and_get_them_back() -> None:
    async def run() -> None:
        async with lab(taps=ROWS) as made:
            gate, true = (
                made.services,
                replace(port("a", "192.168.0.1"), node_port=30080),
            )
            await gate.set_services("linux-1", ServiceTable(ports=(true,)))
            identity = await made.injector.inject("node-ports-missing", {"node": "linux-1"})
            assert made.dataplane.services["linux-1"].ports == (replace(true, node_port=None),)
            await made.injector.heal(identity)
            assert made.dataplane.services["linux-1"].ports == (true,)

    asyncio.run(run())


def test_a_service_that_lost_its_last_backend_gets_none_again_until_the_fault_is_healed() -> None:
    async def run() -> None:
        async with lab(taps=ROWS) as made:
            gate, full = (
                made.services,
                ServiceTable(ports=(port("a", "192.168.0.1"), port("new"))),
            )
            empty = ServiceTable(ports=(port("a"), port("new")))
            both = ServiceTable(ports=(port("a", "192.168.0.1"), port("new", "192.168.0.2")))
            identity = await made.injector.inject("last-backend-stays-away", {"node": "linux-1"})
            for table in (full, empty, both):
                await gate.set_services("linux-1", table)
            assert served(made, "linux-1") == {"a": [], "new": ["192.168.0.2"]}
            await made.injector.heal(identity)
            assert served(made, "linux-1")["a"] == ["192.168.0.1"]

    asyncio.run(run())


def test_unready_backends_are_used_until_the_fault_is_healed() -> None:
    async def run() -> None:
        async with lab(taps=ROWS) as made:
            gate = made.services
            unready = (Backend(address="192.168.0.2", port=8080),)
            await gate.set_services(
                "linux-1", ServiceTable(ports=(replace(port("a", "192.168.0.1"), unready=unready),))
            )
            assert served(made, "linux-1") == {"a": ["192.168.0.1"]}
            identity = await made.injector.inject("unready-backends-used", {"node": "linux-1"})
            assert served(made, "linux-1") == {"a": ["192.168.0.1", "192.168.0.2"]}
            await made.injector.heal(identity)
            assert served(made, "linux-1") == {"a": ["192.168.0.1"]}

    asyncio.run(run())


def test_ports_and_datagrams_are_led_elsewhere_until_the_fault_is_healed() -> None:
    async def run() -> None:
        async with lab(taps=ROWS) as made:
            gate, tcp = (
                made.services,
                port("ns/a:http", "192.168.0.1", "192.168.0.2"),
            )
            other = replace(port("ns/a:other", "192.168.0.1", target=8087), port=81)
            udp, b = (
                replace(tcp, protocol="udp", name="ns/a:udp", node_port=30080),
                port("ns/b:x", "192.168.0.3"),
            )
            for way, wrong in {
                "one-port": (tcp, replace(other, backends=tcp.backends), udp, b),
                "one-backend-of-datagrams": (
                    tcp,
                    other,
                    replace(udp, backends=udp.backends[:1]),
                    b,
                ),
                "udp-node-ports-keep-clients": (
                    tcp,
                    other,
                    replace(udp, node_port_keeps_client=True),
                    b,
                ),
            }.items():
                await gate.set_services("linux-1", ServiceTable(ports=(tcp, other, udp, b)))
                identity = await made.injector.inject(way, {"node": "linux-1"})
                assert made.dataplane.services["linux-1"].ports == wrong
                await made.injector.heal(identity)
                assert made.dataplane.services["linux-1"].ports == (tcp, other, udp, b)

    asyncio.run(run())


def served(made: object, node: str) -> dict[str, list[str]]:
    table = made.dataplane.services[node]  # type: ignore[attr-defined]
    return {one.name: [backend.address for backend in one.backends] for one in table.ports}
