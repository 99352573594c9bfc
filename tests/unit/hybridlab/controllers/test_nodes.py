# SPDX-License-Identifier: Apache-2.0
"""Node objects say what a real kubelet of that system would say."""

from __future__ import annotations

import asyncio

from hybridlab.cluster.installs.installed import Installed
from hybridlab.controllers.nodes import node_object, taint_of
from hybridlab.networks.registry import plane_of
from hybridlab.profiles.load import load
from hybridlab.profiles.machines import dns_address, etc_hosts, machines, resolver
from tests.unit.hybridlab.builders import a_pod
from tests.unit.hybridlab.controllers.stand_ins import Cluster

PROFILE = load("default")
INSTALLED = Installed(PROFILE, plane_of(PROFILE))
NODES = {
    machine.name: node_object(machine, PROFILE, INSTALLED.node_labels(machine))
    for machine in machines(PROFILE)
}


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
    assert node["spec"]["taints"] == [
        {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    ]
    assert taint_of("os=windows:NoSchedule") == {
        "key": "os",
        "value": "windows",
        "effect": "NoSchedule",
    }


def test_addresses_and_pod_ranges_differ_between_nodes() -> None:
    assert len({node["status"]["addresses"][0]["address"] for node in NODES.values()}) == len(NODES)
    assert len({node["spec"]["podCIDR"] for node in NODES.values()}) == len(NODES)
    assert len({node["status"]["nodeInfo"]["systemUUID"] for node in NODES.values()}) == len(NODES)


def test_the_address_of_dns_follows_from_the_service_range() -> None:
    assert dns_address(PROFILE) == "10.96.0.10"


def test_a_pods_resolver_follows_its_policy() -> None:
    assert resolver(PROFILE, a_pod()).searches == (
        "default.svc.cluster.local",
        "svc.cluster.local",
        "cluster.local",
    )
    assert resolver(PROFILE, a_pod(hostNetwork=True)).nameservers == ()
    with_net = a_pod(hostNetwork=True, dnsPolicy="ClusterFirstWithHostNet")
    assert resolver(PROFILE, with_net).nameservers == ("10.96.0.10",)
    own = a_pod(dnsPolicy="None", dnsConfig={"nameservers": ["1.2.3.4"], "searches": ["x"]})
    assert (resolver(PROFILE, own).nameservers, resolver(PROFILE, own).searches) == (
        ("1.2.3.4",),
        ("x",),
    )


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


def test_a_pods_resolver_options_and_nameservers_are_merged_and_cut_as_a_kubelet_does() -> None:
    assert resolver(PROFILE, a_pod()).options == ("ndots:5",)
    assert resolver(PROFILE, a_pod(dnsPolicy="Default")).options == ()
    asked = [{"name": "ndots", "value": "2"}, {"name": "edns0"}, {"name": "timeout", "value": "1"}]
    own = a_pod(
        dnsConfig={"options": asked, "nameservers": ["1.1.1.1", "10.96.0.10", "2.2.2.2", "3.3.3.3"]}
    )
    told = resolver(PROFILE, own)
    assert told.options == ("ndots:2", "edns0", "timeout:1")
    assert (told.nameservers, told.left_out) == (("10.96.0.10", "1.1.1.1", "2.2.2.2"), True)
    assert not resolver(PROFILE, a_pod()).left_out
    none = a_pod(dnsPolicy="None", dnsConfig={"nameservers": ["1.2.3.4"], "options": asked[:1]})
    assert resolver(PROFILE, none).options == ("ndots:2",)


MANAGED = """# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""


def test_a_pods_hosts_file_is_what_a_kubelet_writes() -> None:
    assert etc_hosts(PROFILE, a_pod(), "192.168.1.2") == f"{MANAGED}192.168.1.2\tweb\n"
    named = a_pod(
        hostname="a",
        subdomain="sub",
        hostAliases=[{"ip": "10.1.1.1", "hostnames": ["x", "y.example"]}],
    )
    entries = "192.168.1.2\ta.sub.default.svc.cluster.local\ta\n\n# Entries added by HostAliases.\n10.1.1.1\tx\ty.example\n"
    assert etc_hosts(PROFILE, named, "192.168.1.2") == MANAGED + entries
    on_host = etc_hosts(PROFILE, a_pod(hostNetwork=True), "10.0.0.1", "node-1")
    assert (
        on_host
        == "# Kubernetes-managed hosts file (host network).\n127.0.0.1\tlocalhost\n10.0.0.1\tnode-1\n"
    )
