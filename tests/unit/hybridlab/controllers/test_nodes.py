"""Node objects say what a real kubelet of that system would say."""

from __future__ import annotations

import asyncio

from hybridlab.cluster.installs.installed import Installed
from hybridlab.controllers.nodes import node_object, taint_of
from hybridlab.networks.registry import plane_of
from hybridlab.profiles.load import load
from hybridlab.profiles.machines import dns_address, machines, resolver
from tests.unit.hybridlab.controllers.stand_ins import Cluster, pod

PROFILE = load("default")
INSTALLED = Installed(PROFILE, plane_of(PROFILE))
NODES = {machine.name: node_object(machine, PROFILE, INSTALLED.node_labels(machine)) for machine in machines(PROFILE)}


def test_a_windows_node_reports_build_and_revision_in_the_right_places() -> None:
    node = NODES["windows-2019"]
    assert node["metadata"]["labels"]["node.kubernetes.io/windows-build"] == "10.0.17763"
    info = node["status"]["nodeInfo"]
    assert info["kernelVersion"] == "10.0.17763.6414"
    assert info["osImage"] == "Windows Server 2019 Datacenter"
    assert info["operatingSystem"] == node["metadata"]["labels"]["kubernetes.io/os"] == "windows"


def test_the_control_plane_is_labelled_and_tainted() -> None:
    node = NODES["control-plane"]
    assert node["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] == ""
    assert node["spec"]["taints"] == [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]
    assert taint_of("os=windows:NoSchedule") == {"key": "os", "value": "windows", "effect": "NoSchedule"}


def test_addresses_and_pod_ranges_differ_between_nodes() -> None:
    assert len({node["status"]["addresses"][0]["address"] for node in NODES.values()}) == len(NODES)
    assert len({node["spec"]["podCIDR"] for node in NODES.values()}) == len(NODES)
    assert len({node["status"]["nodeInfo"]["systemUUID"] for node in NODES.values()}) == len(NODES)


def test_the_address_of_dns_follows_from_the_service_range() -> None:
    assert dns_address(PROFILE) == "10.96.0.10"


def test_a_pods_resolver_follows_its_policy() -> None:
    assert resolver(PROFILE, pod()).searches == ("default.svc.cluster.local", "svc.cluster.local", "cluster.local")
    assert resolver(PROFILE, pod(hostNetwork=True)).nameservers == ()
    with_net = pod(hostNetwork=True, dnsPolicy="ClusterFirstWithHostNet")
    assert resolver(PROFILE, with_net).nameservers == ("10.96.0.10",)
    own = pod(dnsPolicy="None", dnsConfig={"nameservers": ["1.2.3.4"], "searches": ["x"]})
    assert (resolver(PROFILE, own).nameservers, resolver(PROFILE, own).searches) == (("1.2.3.4",), ("x",))


def test_a_cordoned_node_gets_the_taint_and_loses_it_again() -> None:
    async def run() -> None:
        async with Cluster() as cluster:

            async def taints() -> list[str]:
                node = await cluster.client.get("nodes", "linux-1")
                return [taint["key"] for taint in node["spec"].get("taints") or ()]

            async def tainted() -> bool:
                return await taints() == ["node.kubernetes.io/unschedulable"]

            async def clean() -> bool:
                return await taints() == []

            await cluster.client.patch("nodes", "linux-1", {"spec": {"unschedulable": True}})
            await cluster.until(tainted)
            await cluster.client.patch("nodes", "linux-1", {"spec": {"unschedulable": None}})
            await cluster.until(clean)

    asyncio.run(run())
