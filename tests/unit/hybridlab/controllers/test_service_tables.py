# SPDX-License-Identifier: Apache-2.0
"""What kube-proxy and DNS make of a Service's rarer fields, and portmap of a pod's host ports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hybridlab.api.contract import ApiError, Obj
from hybridlab.dataplane.model import ServicePort
from hybridlab.profiles.model import NodeGroup
from tests.unit.hybridlab.builders import a_pod, a_service
from tests.unit.hybridlab.controllers.stand_ins import CLUSTER, Cluster, in_cluster

OLD = NodeGroup(name="old", os="windows", windows_build="10.0.17763.6000", max_pods=60)
PORTS = [{"name": "web", "port": 80, "targetPort": 8080}]


def service(**spec: Any) -> Obj:
    return a_service(ports=PORTS, **spec)


async def port_when(cluster: Cluster, node: str, test: Callable[[ServicePort], Any]) -> ServicePort:
    """The Service's port on a node once it is as wanted."""

    async def found() -> ServicePort | None:
        table = cluster.dataplane.services.get(node)
        ports = (
            [port for port in table.ports if port.name.startswith("default/web")] if table else []
        )
        return next((port for port in ports if test(port)), None)

    wanted: ServicePort = await cluster.until(found)
    return wanted


def test_external_addresses_lead_where_a_node_port_would() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create(
            "services", service(externalIPs=["203.0.113.1"], externalTrafficPolicy="Local")
        )
        await cluster.client.create("pods", a_pod(nodeName="linux-1"))
        await cluster.running("web")
        inside = await port_when(cluster, "linux-2", lambda port: port.backends)
        outside = await port_when(cluster, "linux-2", lambda port: port.external_ips)
        assert (inside.external_ips, outside.backends) == ((), ())
        assert (
            await port_when(cluster, "linux-1", lambda port: port.external_ips)
        ).node_port_keeps_client

    in_cluster(scenario)


def test_backends_that_a_traffic_policy_leaves_out_are_kept_for_faults_alone() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("services", service(internalTrafficPolicy="Local"))
        await cluster.client.create("pods", a_pod(nodeName="linux-1"))
        await cluster.running("web")
        there = await port_when(cluster, "linux-1", lambda port: port.backends)
        elsewhere = await port_when(cluster, "linux-2", lambda port: port.elsewhere)
        assert (there.elsewhere, elsewhere.backends) == ((), ())
        assert elsewhere.elsewhere == there.backends

    in_cluster(scenario)


def test_affinity_holds_for_its_time_on_linux_by_a_hash_since_windows_2022_and_not_before() -> None:
    async def scenario(cluster: Cluster) -> None:
        config = {"clientIP": {"timeoutSeconds": 90}}
        await cluster.client.create(
            "services", service(sessionAffinity="ClientIP", sessionAffinityConfig=config)
        )
        seen = {
            node: (await port_when(cluster, node, lambda port: True)).sticky
            for node in ("linux-1", "win", "old")
        }
        assert seen == {"linux-1": 90, "win": 0, "old": None}
        assert await cluster.events("NotEmulated") == []

    in_cluster(scenario, profile=replace(CLUSTER, nodes=(*CLUSTER.nodes, OLD)))


def test_a_service_without_ready_backends_uses_those_that_serve_while_they_end() -> None:
    async def scenario(cluster: Cluster) -> None:
        slices = {
            "addressType": "IPv4",
            "metadata": {"name": "web-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "web"}},
            "ports": [{"name": "web", "port": 8080, "protocol": "TCP"}],
            "endpoints": [
                {"addresses": ["192.168.9.1"], "conditions": {"ready": False, "serving": True, "terminating": True}},
                {"addresses": ["192.168.9.2"], "conditions": {"ready": False, "serving": False, "terminating": True}},
                {"addresses": ["192.168.9.3"], "conditions": {"ready": False, "serving": True, "terminating": False}},
            ],
        }  # fmt: skip
        await cluster.client.create("services", {**service(), "spec": {"ports": PORTS}})
        await cluster.client.create("endpointslices.discovery.k8s.io", slices, "default")
        ending = await port_when(cluster, "linux-1", lambda port: port.backends)
        assert [backend.address for backend in ending.backends] == ["192.168.9.1"]
        ready = {"addresses": ["192.168.9.4"], "conditions": {"ready": True}}
        await cluster.client.patch(
            "endpointslices.discovery.k8s.io",
            "web-1",
            {"endpoints": [*slices["endpoints"], ready]},
            "default",
        )
        await port_when(
            cluster,
            "linux-1",
            lambda port: [backend.address for backend in port.backends] == ["192.168.9.4"],
        )

    in_cluster(scenario)


def test_host_ports_are_those_of_a_linux_nodes_own_pods_and_refused_by_name_on_windows() -> None:
    async def scenario(cluster: Cluster) -> None:
        ports = [
            {"containerPort": 80, "hostPort": 8080},
            {"containerPort": 53, "hostPort": 5353, "protocol": "UDP", "hostIP": "10.0.0.1"},
        ]
        await cluster.client.create("pods", a_pod(nodeName="linux-1", container={"ports": ports}))
        found = await cluster.running("web")

        def mapped(node: str) -> list[tuple[Any, ...]]:
            table = cluster.dataplane.services.get(node)
            return [
                (port.protocol, port.port, port.node_port, port.external_ips, port.backends[0].port)
                for port in (table.host_ports if table else ())
            ]

        async def there() -> bool:
            return mapped("linux-1") == [
                ("tcp", 8080, 8080, (), 80),
                ("udp", 5353, None, ("10.0.0.1",), 53),
            ]

        async def gone() -> bool:
            return mapped("linux-1") == []

        await cluster.until(there)
        table = cluster.dataplane.services["linux-1"]
        assert {backend.address for port in table.host_ports for backend in port.backends} == {
            found["status"]["podIP"]
        }
        assert all(port.node_port_keeps_client for port in table.host_ports)
        assert mapped("linux-2") == []
        await cluster.client.delete("pods", "web", "default")
        await cluster.until(gone)
        assert await cluster.events("NotEmulated") == []

        image = "mcr.microsoft.com/windows/servercore:ltsc2022"
        windows = a_pod(
            "onwin",
            image,
            nodeName="win",
            container={"ports": [{"containerPort": 80, "hostPort": 8080}]},
        )
        await cluster.client.create("pods", windows)
        assert (await cluster.event("NotEmulated")).startswith(
            "not emulated: hostPort 8080 on Windows"
        )
        assert mapped("win") == []

    in_cluster(scenario)


def test_a_service_becomes_an_external_name_and_a_service_again() -> None:
    async def scenario(cluster: Cluster) -> None:
        name = "web.default.svc.cluster.local"
        await cluster.client.create("services", service(type="NodePort"))
        change = {"spec": {"type": "ExternalName", "externalName": "db.example.com."}}
        changed = await cluster.client.patch("services", "web", change, "default")
        assert {"clusterIP", "externalTrafficPolicy"}.isdisjoint(changed["spec"])
        assert "nodePort" not in changed["spec"]["ports"][0]

        async def stands_for_it() -> bool:
            zone = cluster.dataplane.zone
            return bool(zone and zone.cname.get(name) == "db.example.com" and name not in zone.a)

        async def is_itself() -> bool:
            zone = cluster.dataplane.zone
            return bool(zone and name in zone.a and name not in zone.cname)

        async def no_node_has_it() -> bool:
            tables = cluster.dataplane.services.values()
            return not any(
                port.name.startswith("default/web") for table in tables for port in table.ports
            )

        await cluster.until(stands_for_it)
        await cluster.until(no_node_has_it)
        back = {"spec": {"type": "NodePort", "externalName": None}}
        again = await cluster.client.patch("services", "web", back, "default")
        assert again["spec"]["clusterIP"]
        assert again["spec"]["ports"][0]["nodePort"]
        assert again["spec"]["externalTrafficPolicy"] == "Cluster"
        await cluster.until(is_itself)

    in_cluster(scenario)


def test_an_external_name_service_that_asks_for_a_traffic_policy_of_its_own_is_refused() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("services", service(type="NodePort"))
        change = {
            "spec": {
                "type": "ExternalName",
                "externalName": "db.example.com",
                "externalTrafficPolicy": "Local",
            }
        }
        with pytest.raises(ApiError, match="may only be set for externally-accessible services"):
            await cluster.client.patch("services", "web", change, "default")

    in_cluster(scenario)
