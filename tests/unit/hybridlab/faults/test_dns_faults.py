# SPDX-License-Identifier: Apache-2.0
"""Faults of the cluster's DNS: silent, slow, wrong, and other search lists; on the nodes that are named."""

from __future__ import annotations

import asyncio

import pytest

from hybridlab.dataplane.model import Backend, ServicePort, ServiceTable, Zone
from hybridlab.faults.dns import WRONG_ADDRESS
from hybridlab.faults.errors import BadFault, FaultFailed
from tests.unit.hybridlab.faults.fault_lab import ZONE, lab


def test_dns_silent_on_one_node_and_on_all() -> None:
    async def run() -> None:
        async with lab() as made:
            identity = await made.injector.inject("dns-silent", {"node": "linux-1"})
            rule = "ip daddr 10.96.0.10 meta l4proto { tcp, udp } th dport 53 drop"
            assert made.rules("linux-1") == [f"f_raw: {rule}", f"f_out: {rule}"]
            assert made.rules("linux-2") == []
            await made.injector.heal(identity)
            await made.injector.inject("dns-silent")
            assert all(made.rules(node) for node in made.calico.calico.nodes)

    asyncio.run(run())


def test_dns_wrong_answers_one_name_or_all_and_goes_on_doing_so_as_the_zone_changes() -> None:
    async def run() -> None:
        async with lab() as made:
            identity = await made.injector.inject(
                "dns-wrong", {"name": "web.demo.svc.cluster.local"}
            )
            assert made.dataplane.zone
            served = made.dataplane.zone.a
            assert served["web.demo.svc.cluster.local"] == (WRONG_ADDRESS,)
            assert served["db.demo.svc.cluster.local"] == ("10.96.0.30",)
            await made.gate.set_zone(
                Zone(domain="cluster.local", a={**ZONE.a, "new": ("10.96.0.40",)})
            )
            assert made.dataplane.zone.a["web.demo.svc.cluster.local"] == (WRONG_ADDRESS,)
            assert made.dataplane.zone.a["new"] == ("10.96.0.40",)
            other = await made.injector.inject("dns-wrong")
            assert set(made.dataplane.zone.a.values()) == {(WRONG_ADDRESS,)}
            await made.injector.heal(other)
            assert made.dataplane.zone.a["new"] == ("10.96.0.40",)
            await made.injector.heal(identity)
            assert made.dataplane.zone.a["web.demo.svc.cluster.local"] == ("10.96.0.20",)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("answer", "served", "denied"),
    [
        ("extra-address", ("10.96.0.20", WRONG_ADDRESS), ()),
        ("aaaa-nxdomain", ("10.96.0.20",), ("web.demo.svc.cluster.local",)),
    ],
)
def test_dns_wrong_adds_an_address_or_denies_other_records_than_a(
    answer: str, served: tuple[str, ...], denied: tuple[str, ...]
) -> None:
    async def run() -> None:
        async with lab() as made:
            parameters = {"name": "web.demo.svc.cluster.local", "answer": answer}
            identity = await made.injector.inject("dns-wrong", parameters)
            assert made.dataplane.zone
            assert (
                made.dataplane.zone.a["web.demo.svc.cluster.local"],
                made.dataplane.zone.denied,
            ) == (served, denied)
            assert made.dataplane.zone.a["db.demo.svc.cluster.local"] == ("10.96.0.30",)
            assert len(await made.injector.evidence(identity)) == 1
            await made.injector.heal(identity)
            assert made.dataplane.zone == ZONE

    asyncio.run(run())


def test_dns_wrong_tells_another_port_or_another_name() -> None:
    async def run() -> None:
        async with lab() as made:
            web, port = "web.demo.svc.cluster.local", "_http._tcp.web.demo.svc.cluster.local"
            true = Zone(
                domain="cluster.local", a=ZONE.a, srv={port: ((80, web),)}, ptr={"10.96.0.20": web}
            )
            await made.gate.set_zone(true)
            for answer, wrong in (
                ("another-port", {"srv": {port: ((81, web),)}, "ptr": true.ptr}),
                ("another-name", {"srv": true.srv, "ptr": {"10.96.0.20": f"not-{web}"}}),
            ):
                identity = await made.injector.inject("dns-wrong", {"answer": answer})
                zone = made.dataplane.zone
                assert zone
                assert {"srv": zone.srv, "ptr": zone.ptr} == wrong
                assert zone.a == true.a
                assert len(await made.injector.evidence(identity)) == 1
                await made.injector.heal(identity)
                assert made.dataplane.zone == true

    asyncio.run(run())


def test_dns_wrong_for_a_name_that_nobody_answers_is_no_fault() -> None:
    async def run() -> None:
        async with lab() as made:
            with pytest.raises(FaultFailed, match="dns-wrong is not in effect after its injection"):
                await made.injector.inject("dns-wrong", {"name": "nobody.demo.svc.cluster.local"})
            assert made.dataplane.zone == ZONE

    asyncio.run(run())


def test_dns_is_slow_for_the_clients_of_that_node_only_and_stays_so_as_the_zone_changes() -> None:
    async def run() -> None:
        async with lab() as made:
            identity = await made.injector.inject("dns-slow", {"node": "linux-1", "seconds": "2.5"})
            own = [str(block.cidr) for block in made.calico.calico.ipam.blocks_of("linux-1")]
            late = (*((network, 2.5) for network in own), ("10.0.0.11/32", 2.5))
            assert made.dataplane.zone
            assert made.dataplane.zone.late == late
            await made.gate.set_zone(Zone(domain="cluster.local", a={}))
            assert made.dataplane.zone.late == late
            await made.injector.heal(identity)
            assert made.dataplane.zone.late == ()

    asyncio.run(run())


def test_one_dns_pod_is_silent_for_the_pods_of_that_node_only() -> None:
    async def run() -> None:
        async with lab() as made:
            await made.injector.inject("dns-pod-silent", {"node": "linux-1", "pod": "2"})
            drop = "ip daddr 192.168.9.2 meta l4proto { tcp, udp } th dport 53 drop"
            assert made.rules("linux-1") == [f"f_fwd: {drop}"]
            assert made.rules("linux-2") == []
            with pytest.raises(BadFault, match="pod is 3, expected a number from 1 to 2"):
                await made.injector.inject("dns-pod-silent", {"pod": "3"})

    asyncio.run(run())


def test_a_dead_backend_stands_beside_the_dns_pods_on_that_node_only() -> None:
    def port(name: str, number: int) -> ServicePort:
        there = (Backend(address="192.168.9.1", port=number),)
        return ServicePort(
            name=name, protocol="udp", cluster_ip="10.96.0.10", port=number, node_port=None,
            backends=there,
        )  # fmt: skip

    ports = (port("kube-system/kube-dns:dns", 53), port("kube-system/kube-dns:metrics", 9153))
    table = ServiceTable(ports=(*ports, port("demo/web:dns", 53)))

    async def run() -> None:
        async with lab() as made:
            identity = await made.injector.inject("dns-backend-dead", {"node": "linux-1"})
            for node in ("linux-1", "linux-2"):
                await made.services.set_services(node, table)
            dns, *others = made.services.served["linux-1"].ports
            assert [one.address for one in dns.backends] == ["192.168.9.1", WRONG_ADDRESS]
            assert tuple(others) == table.ports[1:]
            assert made.services.served["linux-2"] == table
            await made.injector.heal(identity)
            assert made.services.served["linux-1"] == table

    asyncio.run(run())


@pytest.mark.parametrize(
    ("wrong", "searches"),
    [
        ("own-only", ("demo.svc.cluster.local",)),
        ("of-default", ("default.svc.cluster.local", "svc.cluster.local", "cluster.local")),
        ("none", ()),
    ],
)
def test_new_pods_of_that_node_get_another_search_list(
    wrong: str, searches: tuple[str, ...]
) -> None:
    usual = ("demo.svc.cluster.local", "svc.cluster.local", "cluster.local")

    async def run() -> None:
        async with lab() as made:
            identity = await made.injector.inject(
                "search-list-wrong", {"node": "linux-1", "list": wrong}
            )
            pods = {
                name: await made.calico.pod(name, node)
                for name, node in (("a", "linux-1"), ("b", "linux-2"))
            }
            await made.injector.heal(identity)
            pods["c"] = await made.calico.pod("c", "linux-1")
            found = {
                name: made.dataplane.pods[pod["metadata"]["uid"]].searches
                for name, (pod, _) in pods.items()
            }
            assert found == {"a": searches, "b": usual, "c": usual}

    asyncio.run(run())


def test_windows_pods_search_the_domain_of_their_own_namespace_alone() -> None:
    async def run() -> None:
        async with lab() as made:
            pod, _ = await made.calico.pod("a", "windows-2022")
            assert made.dataplane.pods[pod["metadata"]["uid"]].searches == (
                "demo.svc.cluster.local",
            )
            with pytest.raises(
                BadFault, match="windows-2022 search only the domain of their own namespace"
            ):
                await made.injector.inject(
                    "search-list-wrong", {"node": "windows-2022", "list": "own-only"}
                )

    asyncio.run(run())


@pytest.mark.parametrize(
    ("wrong", "searches"),
    [
        ("of-default", ("default.svc.cluster.local",)),
        ("of-first", ("demo.svc.cluster.local",)),
        ("none", ()),
    ],
)
def test_new_windows_pods_get_another_suffix_or_none(wrong: str, searches: tuple[str, ...]) -> None:
    async def run() -> None:
        async with lab() as made:
            identity = await made.injector.inject(
                "search-list-wrong", {"node": "windows-2022", "list": wrong}
            )
            first, _ = await made.calico.pod("a", "windows-2022")
            second, _ = await made.calico.pod("b", "windows-2022", namespace="other")
            await made.injector.heal(identity)
            third, _ = await made.calico.pod("c", "windows-2022", namespace="other")
            found = [
                made.dataplane.pods[pod["metadata"]["uid"]].searches
                for pod in (first, second, third)
            ]
            assert found == [searches, searches, ("other.svc.cluster.local",)]

    asyncio.run(run())


def test_a_wrong_alias_leads_to_another_name_also_where_it_is_made_later() -> None:
    async def run() -> None:
        async with lab() as made:
            identity = await made.injector.inject("dns-alias-wrong")
            later = Zone(domain="cluster.local", a=ZONE.a, cname={"other": "web.demo"})
            await made.gate.set_zone(later)
            assert made.dataplane.zone
            assert made.dataplane.zone.cname == {"other": "not-web.demo"}
            assert made.dataplane.zone.a == ZONE.a
            assert len(await made.injector.evidence(identity)) == 1
            await made.injector.heal(identity)
            assert made.dataplane.zone == later

    asyncio.run(run())
