# SPDX-License-Identifier: Apache-2.0
"""Services over the real API: which pods stand behind them, on which nodes."""

from __future__ import annotations

from typing import Any

from hybridlab.api.contract import Obj
from tests.unit.hybridlab.builders import a_pod, a_service
from tests.unit.hybridlab.controllers.stand_ins import Cluster, in_cluster
from tests.unit.hybridlab.controllers.workloads import deployment, rolled_out


def service(**spec: Any) -> Obj:
    return a_service(ports=[{"name": "web", "port": 80, "targetPort": "http"}], **spec)


def backends(cluster: Cluster, node: str = "win") -> list[tuple[str, int]]:
    table = cluster.dataplane.services.get(node)
    found = [port for port in table.ports if port.name.startswith("default/web")] if table else []
    return [(each.address, each.port) for each in found[0].backends] if found else []


def test_services_reach_only_ready_pods_on_every_node() -> None:
    async def scenario(cluster: Cluster) -> None:
        ready: set[str] = set()
        cluster.runtime.probe_answer = lambda spec: spec.address in ready
        body = deployment(replicas=2)
        probe = {"tcpSocket": {"port": 8080}, "periodSeconds": 1, "failureThreshold": 1}
        body["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] = probe
        await cluster.client.create("services", service())
        await cluster.client.create("deployments.apps", body)

        async def waiting() -> list[str]:
            found, _ = await cluster.client.list("endpoints", "default", fields="metadata.name=web")
            subset = ((found[0].get("subsets") if found else None) or [{}])[0]
            return [each["ip"] for each in subset.get("notReadyAddresses") or ()]

        async def both_wait() -> bool:
            return len(await waiting()) == 2 and backends(cluster) == []

        async def one_is_there() -> bool:
            return all(
                backends(cluster, node) == [(chosen, 8080)]
                for node in ("cp", "linux-1", "linux-2", "win")
            )

        await cluster.until(both_wait)
        chosen, other = await waiting()
        ready.add(chosen)
        await cluster.until(one_is_there)
        assert await waiting() == [other]
        assert cluster.dataplane.zone
        assert "web.default.svc.cluster.local" in cluster.dataplane.zone.a

    in_cluster(scenario)


def test_a_node_port_with_local_policy_knows_only_its_own_pods() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create(
            "services", service(type="NodePort", externalTrafficPolicy="Local")
        )
        await cluster.client.create(
            "pods",
            a_pod(nodeName="linux-1", container={"ports": [{"name": "http", "containerPort": 81}]}),
        )
        found = await cluster.running("web")

        def outside(node: str) -> list[str]:
            table = cluster.dataplane.services.get(node)
            return (
                [each.address for port in table.ports if port.node_port for each in port.backends]
                if table
                else []
            )

        async def local() -> bool:
            return outside("linux-1") == [found["status"]["podIP"]] and outside("linux-2") == []

        await cluster.until(local)

    in_cluster(scenario)


def test_a_headless_service_names_its_pods() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("services", service(clusterIP="None"))
        made = a_pod(
            hostname="a",
            subdomain="web",
            container={"ports": [{"name": "http", "containerPort": 81}]},
        )
        await cluster.client.create("pods", made)
        found = await cluster.running("web")

        async def named() -> bool:
            return bool(
                cluster.dataplane.zone
                and "a.web.default.svc.cluster.local" in cluster.dataplane.zone.a
            )

        await cluster.until(named)
        zone, address = cluster.dataplane.zone, found["status"]["podIP"]
        assert zone
        assert zone.a["web.default.svc.cluster.local"] == (address,)
        assert zone.srv["_web._tcp.web.default.svc.cluster.local"] == (
            (81, "a.web.default.svc.cluster.local"),
        )
        assert zone.ptr[address] == "a.web.default.svc.cluster.local"

    in_cluster(scenario)


def test_many_pods_becoming_ready_cause_few_programmings() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("services", service())
        await cluster.client.create("deployments.apps", deployment(replicas=60))
        await rolled_out(cluster)

        async def complete() -> bool:
            return len(backends(cluster)) == 60

        await cluster.until(complete)
        assert cluster.dataplane.count("set_services") < 4 * 30

    in_cluster(scenario)
