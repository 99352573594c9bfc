# SPDX-License-Identifier: Apache-2.0
"""Calico's operator renders anew what FelixConfiguration and Installation change, and undoes what others change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from hybridlab.controllers.operator import RESTARTED_AT
from tests.unit.hybridlab.controllers.stand_ins import Cluster

FELIX = "felixconfigurations.crd.projectcalico.org"
SET, SETS = "calico-node-windows", "daemonsets.apps"
SYSTEM = "calico-system"


def with_operator(scenario: Callable[[Cluster], Awaitable[None]]) -> None:
    async def run() -> None:
        async with Cluster(system_workloads=True) as cluster:
            cluster.runtime.ends_with = {"install-cni": [0] * 99, "uninstall-calico": [0] * 99}

            async def runs() -> bool:
                own = await cluster.client.get(
                    "deployments.apps", "tigera-operator", "tigera-operator"
                )
                return bool((own.get("status") or {}).get("readyReplicas"))

            await cluster.until(runs)
            await scenario(cluster)

    asyncio.run(run())


async def environment(cluster: Cluster) -> dict[str, str]:
    found = await cluster.client.get(SETS, SET, SYSTEM)
    return {
        env["name"]: env.get("value", "")
        for env in found["spec"]["template"]["spec"]["containers"][0]["env"]
    }


async def has(cluster: Cluster, **wanted: str) -> None:
    async def test() -> bool:
        return wanted.items() <= (await environment(cluster)).items()

    await cluster.until(test)


async def change(cluster: Cluster, spec: Any) -> None:
    await cluster.client.patch(SETS, SET, {"spec": {"template": spec}}, SYSTEM, kind="strategic")


def test_a_new_vni_is_rendered_into_the_environment_and_the_cni_configuration() -> None:
    async def scenario(cluster: Cluster) -> None:
        await has(cluster, VXLAN_VNI="4096")
        await cluster.client.create(
            FELIX, {"metadata": {"name": "default"}, "spec": {"vxlanVNI": 4097}}
        )
        await has(cluster, VXLAN_VNI="4097")

        async def rendered() -> bool:
            found = await cluster.client.get("configmaps", "cni-config-windows", SYSTEM)
            return bool(json.loads(found["data"]["config"])["plugins"][0]["vxlan_vni"] == 4097)

        await cluster.until(rendered)

    with_operator(scenario)


def test_the_installation_s_service_network_and_bgp_are_rendered() -> None:
    async def scenario(cluster: Cluster) -> None:
        spec = {"serviceCIDRs": ["10.200.0.0/16"], "calicoNetwork": {"bgp": "Enabled"}}
        await cluster.client.create(
            "installations.operator.tigera.io", {"metadata": {"name": "default"}, "spec": spec}
        )
        await has(cluster, SERVICE_CIDR="10.200.0.0/16", CALICO_NETWORKING_BACKEND="windows-bgp")

    with_operator(scenario)


def test_an_edit_is_undone_and_a_deleted_object_comes_back() -> None:
    async def scenario(cluster: Cluster) -> None:
        before = await environment(cluster)
        await change(
            cluster,
            {"spec": {"containers": [{"name": "felix", "env": [{"name": "MINE", "value": "1"}]}]}},
        )

        async def undone() -> bool:
            return await environment(cluster) == before

        await cluster.until(undone)
        await cluster.client.delete("configmaps", "cni-config-windows", SYSTEM)

        async def back() -> bool:
            found, _ = await cluster.client.list("configmaps", SYSTEM)
            return "cni-config-windows" in {item["metadata"]["name"] for item in found}

        await cluster.until(back)

    with_operator(scenario)


def test_a_restart_that_a_user_asked_for_is_kept() -> None:
    async def scenario(cluster: Cluster) -> None:
        await change(cluster, {"metadata": {"annotations": {RESTARTED_AT: "now"}}})
        await cluster.client.create(
            FELIX, {"metadata": {"name": "default"}, "spec": {"vxlanVNI": 4097}}
        )
        await has(cluster, VXLAN_VNI="4097")
        found = await cluster.client.get(SETS, SET, SYSTEM)
        assert found["spec"]["template"]["metadata"]["annotations"][RESTARTED_AT] == "now"

    with_operator(scenario)


def test_nothing_happens_while_its_deployment_has_no_pod() -> None:
    async def scenario(cluster: Cluster) -> None:
        own = ("deployments.apps", "tigera-operator")
        await cluster.client.patch(*own, {"spec": {"replicas": 0}}, "tigera-operator")

        async def gone() -> bool:
            found = await cluster.client.get(*own, "tigera-operator")
            return not (found.get("status") or {}).get("readyReplicas")

        await cluster.until(gone)
        await cluster.client.create(
            FELIX, {"metadata": {"name": "default"}, "spec": {"vxlanVNI": 4097}}
        )
        await asyncio.sleep(0.05)  # ten times what the operator waits before it looks
        assert (await environment(cluster))["VXLAN_VNI"] == "4096"
        await cluster.client.patch(*own, {"spec": {"replicas": 1}}, "tigera-operator")
        await has(cluster, VXLAN_VNI="4097")

    with_operator(scenario)
