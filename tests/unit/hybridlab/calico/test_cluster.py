# SPDX-License-Identifier: Apache-2.0
"""Calico put together: objects, IPAM, CNI and Felix agree with each other and with the API."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import pytest

from hybridlab.dataplane.contract import DataplaneError
from hybridlab.dataplane.pod_network import SandboxError
from hybridlab.policy.release import as_shipped
from hybridlab.profiles.load import load
from hybridlab.profiles.model import CalicoDefects
from tests.unit.hybridlab.calico.cluster_harness import DENY, POLICIES, Harness, harness

BLOCKS = "ipamblocks.crd.projectcalico.org"


def test_routes_lead_to_every_other_nodes_block_over_its_tunnel() -> None:
    async def run() -> None:
        async with harness() as b:
            await b.until(lambda: len(b.dataplane.routes) == 6)
            routes = b.dataplane.routes["linux-1"]
            blocks = {block.node: str(block.cidr) for block in b.calico.ipam.blocks()}
            assert routes.own_blocks == (blocks["linux-1"],)
            assert {block.cidr for block in routes.remote_blocks} == set(blocks.values()) - {
                blocks["linux-1"]
            }
            windows = next(
                block for block in routes.remote_blocks if block.cidr == blocks["windows-2022"]
            )
            node = await b.client.get("nodes", "windows-2022")
            assert (
                windows.tunnel_address
                == node["metadata"]["annotations"]["projectcalico.org/IPv4VXLANTunnelAddr"]
            )
            assert windows.tunnel_address.endswith(".1")
            assert (
                windows.tunnel_mac
                == node["metadata"]["annotations"]["projectcalico.org/VXLANTunnelMACAddr"]
            )
            assert windows.tunnel_mac.startswith("00:15:5d:")
            spec = b.dataplane.tunnels["windows-2022"]
            assert spec is not None
            assert (spec.identifier, spec.port, spec.mtu) == (4096, 4789, 1450)
            assert (spec.address, spec.mac) == (windows.tunnel_address, windows.tunnel_mac)

    asyncio.run(run())


def test_linux_has_no_mac_annotation_and_the_mac_of_its_name() -> None:
    async def run() -> None:
        async with harness() as b:
            await b.until(lambda: len(b.dataplane.routes) == 6)
            node = await b.client.get("nodes", "linux-1")
            assert "projectcalico.org/VXLANTunnelMACAddr" not in node["metadata"]["annotations"]
            assert (
                node["metadata"]["annotations"]["projectcalico.org/IPv4Address"] == "10.0.0.11/24"
            )
            spec = b.dataplane.tunnels["linux-1"]
            assert spec is not None
            assert spec.mac.replace(":", "") == "66" + hashlib.sha1(b"linux-1").hexdigest()[:10]

    asyncio.run(run())


def test_a_pod_gets_address_gateway_mtu_and_mac_by_its_nodes_system() -> None:
    async def run() -> None:
        async with harness() as b:
            _, linux = await b.pod("l", "linux-1")
            windows_pod, windows = await b.pod("w", "windows-2022")
            assert (linux.gateway, linux.mtu, linux.mac) == ("169.254.1.1", 1440, None)
            octets = [int(part) for part in windows.address.split(".")]
            assert windows.gateway == ".".join(map(str, [*octets[:3], octets[3] - 2]))
            assert windows.mac == "0e:2a:" + ":".join(f"{octet:02x}" for octet in octets)
            spec = b.dataplane.pods[windows_pod["metadata"]["uid"]]
            assert (spec.address, spec.port.gateway, spec.port.mac) == (
                windows.address,
                windows.gateway,
                windows.mac,
            )
            assert spec.nameservers == ("10.96.0.10",)
            assert spec.searches[0] == "demo.svc.cluster.local"
            assert windows.annotations["cni.projectcalico.org/podIP"] == f"{windows.address}/32"

    asyncio.run(run())


def test_the_api_says_what_ipam_does_as_soon_as_a_pod_is_attached() -> None:
    async def run() -> None:
        async with harness() as b:
            pod, attachment = await b.pod("w", "windows-2022")
            block = b.calico.ipam.blocks_of("windows-2022")[0]
            name = str(block.cidr).replace(".", "-").replace("/", "-")
            spec = (await b.client.get(BLOCKS, name))["spec"]
            ordinal = block.ordinal(attachment.address)
            attribute = spec["attributes"][spec["allocations"][ordinal]]
            assert attribute["secondary"]["pod"] == "w"
            handle = attribute["handle_id"]
            assert handle == f"Calico.{attachment.annotations['cni.projectcalico.org/containerID']}"
            found = await b.client.get("ipamhandles.crd.projectcalico.org", handle.lower())
            assert found["spec"]["block"] == {str(block.cidr): 1}
            await b.calico.pod_network.detach(pod["metadata"]["uid"])
            spec = (await b.client.get(BLOCKS, name))["spec"]
            assert spec["allocations"][ordinal] is None
            assert spec["unallocated"][-1] == ordinal
            assert not [h for h in await handles(b) if h["spec"]["handleID"] == handle]
            assert pod["metadata"]["uid"] not in b.dataplane.pods

    asyncio.run(run())


async def handles(b: Harness) -> list[dict[str, Any]]:
    return (await b.client.list("ipamhandles.crd.projectcalico.org"))[0]


SECOND = {
    "metadata": {"name": "second"},
    "spec": {"cidr": "10.9.0.0/24", "vxlanMode": "Always", "natOutgoing": True},
}
POOLS = "cni.projectcalico.org/ipv4pools"


@pytest.mark.parametrize("how", ["pod", "namespace", "disabled", "address"])
def test_a_second_block_costs_a_windows_node_its_network_and_its_pods_theirs(how: str) -> None:
    async def run() -> None:
        async with harness() as made:
            before, attached = await made.pod("before", "windows-2022")
            await made.client.create("ippools.projectcalico.org", SECOND)
            await made.until(lambda: len(made.calico.ipam.pools) == 2)
            asking = {}
            if how == "pod":
                asking = {POOLS: '["second"]'}
            elif how == "address":
                asking = {"cni.projectcalico.org/ipAddrs": '["10.9.0.9"]'}
            elif how == "namespace":
                await made.client.patch(
                    "namespaces", "demo", {"metadata": {"annotations": {POOLS: '["10.9.0.0/24"]'}}}
                )
                await made.until(lambda: made.calico._namespace_annotations("demo"))
            else:
                await made.client.patch(
                    "ippools.projectcalico.org", "default-ipv4-ippool", {"spec": {"disabled": True}}
                )
                await made.until(lambda: any(pool.disabled for pool in made.calico.ipam.pools))
            _, after = await made.pod("after", "windows-2022", asking=asking)
            assert attached.address.startswith("192.168.")
            assert after.address == ("10.9.0.9" if how == "address" else "10.9.0.3")
            assert made.dataplane.cut_off == [before["metadata"]["uid"]]
            network = made.calico.windows["windows-2022"].hns.pod_network
            assert network is not None
            assert network.spec.subnet == "10.9.0.0/26"
            assert len(made.calico.ipam.blocks_of("windows-2022")) == 2

    asyncio.run(run())


def test_a_linux_pod_gets_an_address_of_the_pool_that_it_asks_for() -> None:
    async def run() -> None:
        async with harness() as made:
            await made.client.create("ippools.projectcalico.org", SECOND)
            await made.until(lambda: len(made.calico.ipam.pools) == 2)
            _, attached = await made.pod("l", "linux-1", asking={POOLS: '["second"]'})
            assert attached.address.startswith("10.9.0.")
            with pytest.raises(
                SandboxError,
                match=r"the given pool \(40\.0\.0\.0/24\) does not exist, or is not enabled",
            ):
                await made.pod("m", "linux-1", asking={POOLS: '["40.0.0.0/24"]'})
            assert made.dataplane.cut_off == []

    asyncio.run(run())


def test_attaching_twice_gives_the_same_and_detaching_twice_does_nothing() -> None:
    async def run() -> None:
        async with harness() as b:
            pod, first = await b.pod("l", "linux-1")
            assert await b.calico.pod_network.attach(pod, "linux-1") is first
            await b.calico.pod_network.detach(pod["metadata"]["uid"])
            await b.calico.pod_network.detach(pod["metadata"]["uid"])

    asyncio.run(run())


def test_two_hundred_pods_need_few_updates_and_share_one_program() -> None:
    async def run() -> None:
        async with harness() as b:
            await b.client.create(POLICIES, DENY)
            await b.settled()
            before = len(b.dataplane.updates)
            nodes = [node for node in b.calico.nodes if node != "control-plane"]
            pods = await asyncio.gather(
                *(b.pod(f"p{n}", nodes[n % 5], app="x") for n in range(200))
            )
            await b.settled()
            assert len({attachment.address for _, attachment in pods}) == 200
            assert all(b.denies(pod) for pod, _ in pods)
            assert len(b.dataplane.updates) - before < 100
            assert len({id(b.program(pod)) for pod, _ in pods}) == 5

    asyncio.run(run())


def test_turning_strict_affinity_off_stops_new_windows_pods_and_degrades_the_status() -> None:
    async def run() -> None:
        async with harness() as b:
            await b.pod("before", "windows-2022")
            change = {"spec": {"strictAffinity": False}}
            await b.client.patch("ipamconfigurations.projectcalico.org", "default", change)
            await b.until(lambda: not b.calico.ipam.strict_affinity)
            message = "global strict affinity should not be false for Windows node"
            with pytest.raises(SandboxError, match=message):
                await b.pod("after", "windows-2022")
            await b.pod("linux", "linux-1")
            await asyncio.sleep(0.01)
            degraded = await condition(b, "calico-windows", "Degraded")
            assert degraded["status"] == "True"
            assert degraded["message"].startswith(
                "Invalid StrictAffinity, it must be set to 'true'"
            )
            change["spec"]["strictAffinity"] = True
            await b.client.patch("ipamconfigurations.projectcalico.org", "default", change)
            await b.until(lambda: b.calico.ipam.strict_affinity)
            await asyncio.sleep(0.01)
            assert (await condition(b, "calico-windows", "Degraded"))["status"] == "False"

    asyncio.run(run())


async def condition(b: Harness, name: str, kind: str) -> dict[str, Any]:
    status = await b.client.get("tigerastatuses.operator.tigera.io", name)
    return next(found for found in status["status"]["conditions"] if found["type"] == kind)


@pytest.mark.parametrize(
    ("override", "pool", "degraded"),
    [
        ("network.plane.kind=vxlan", ("Always", "Never"), ""),
        ("network.strict_affinity=false", ("Always", "Never"), "Invalid StrictAffinity"),
    ],
)
def test_the_objects_say_what_the_profile_is_and_the_operator_refuses_what_windows_cannot(
    override: str, pool: Any, degraded: str
) -> None:
    async def run() -> None:
        async with harness(override) as b:
            found = await b.client.get("ippools.projectcalico.org", "default-ipv4-ippool")
            assert (found["spec"]["vxlanMode"], found["spec"]["ipipMode"]) == pool
            state = await condition(b, "calico-windows", "Degraded")
            assert (state["status"] == "True") is bool(degraded)
            assert degraded in state["message"]
            assert (await condition(b, "calico", "Available"))["status"] == "True"

    asyncio.run(run())


def test_with_the_old_api_group_only_everything_is_there_under_its_old_names() -> None:
    async def run() -> None:
        async with harness("calico.v3_api=false") as b:
            await b.until(lambda: len(b.dataplane.routes) == 6)
            found = await b.client.get("ipamconfigs.crd.projectcalico.org", "default")
            assert found["spec"]["strictAffinity"] is True
            affinity = (await b.client.list("blockaffinities.crd.projectcalico.org"))[0][0]
            assert affinity["spec"]["deleted"] == "false"
            assert "default" in {
                t["metadata"]["name"]
                for t in (await b.client.list("tiers.crd.projectcalico.org"))[0]
            }

    asyncio.run(run())


def test_a_vni_that_windows_cannot_do_fails_its_pods_and_not_linux() -> None:
    async def run() -> None:
        async with harness("network.plane.vni=4095") as b:
            await b.pod("l", "linux-1")
            with pytest.raises(SandboxError, match="Windows does not support VXLANVNI < 4096"):
                await b.pod("w", "windows-2022")

    asyncio.run(run())


def test_linux_follows_the_vni_of_felix_configuration_and_windows_keeps_its_own() -> None:
    async def run() -> None:
        async with harness() as b:
            await b.until(lambda: len(b.dataplane.routes) == 6)
            change = {"spec": {"vxlanVNI": 4097, "vxlanPort": 4790}}
            await b.client.patch("felixconfigurations.projectcalico.org", "default", change)

            def vxlan(node: str) -> tuple[int, int]:
                spec = b.dataplane.tunnels[node]
                assert spec
                return spec.identifier, spec.port

            await b.until(lambda: vxlan("linux-1")[0] == 4097 and "linux-1" in b.dataplane.routes)
            assert vxlan("linux-1")[1] == 4790
            assert vxlan("windows-2022") == (4096, 4789)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("override", "vip"),
    [("kube_proxy.windows_dsr=true", False), ("kube_proxy.windows_dsr=false", True)],
)
def test_without_dsr_a_windows_nodes_service_traffic_comes_from_the_second_address_of_its_block(
    override: str, vip: bool
) -> None:
    async def run() -> None:
        async with harness(override) as b:
            block = b.calico.ipam.blocks_of("windows-2022")[0]
            assert b.calico.snat_for("windows-2022") == (block.address(2) if vip else None)
            assert b.calico.snat_for("linux-1") is None
            assert b.calico.node_port_snat_for("windows-2022") == block.address(2)
            assert b.calico.node_port_snat_for("linux-1") is None

    asyncio.run(run())


def test_a_felix_that_fails_unforeseen_says_so_and_starts_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hybridlab.calico.felix.RETRY_SECONDS", 0.01)

    async def run() -> None:
        async with harness() as b:
            pod, _ = await b.pod("l", "linux-1")
            await b.settled()
            real = b.dataplane.update_policy

            async def broken(node: Any, update: Any) -> None:
                raise RuntimeError("nobody foresaw this")

            b.dataplane.update_policy = broken  # type: ignore[method-assign]
            await b.client.create(POLICIES, DENY)
            await b.until(lambda: any("nobody foresaw this" in line for _, line in b.logged))
            b.dataplane.update_policy = real  # type: ignore[method-assign]
            await b.until(lambda: b.program(pod).ingress)

    asyncio.run(run())


def test_a_pod_that_cannot_be_wired_leaves_nothing_behind_and_can_be_tried_again() -> None:
    async def run() -> None:
        async with harness() as b:
            real = b.dataplane.add_pod

            async def refuses(spec: Any) -> None:
                raise DataplaneError("the kernel says no")

            b.dataplane.add_pod = refuses  # type: ignore[method-assign]
            with pytest.raises(
                SandboxError, match=r'plugin type="calico" failed \(add\): the kernel says no'
            ):
                await b.pod("l", "linux-1")
            block = b.calico.ipam.blocks_of("linux-1")[0]
            assert len(block.used) == 1, "the tunnel address only"
            b.dataplane.add_pod = real  # type: ignore[method-assign]
            pod = await b.client.get("pods", "l", "demo")
            assert (await b.calico.pod_network.attach(pod, "linux-1")).address
            assert pod["metadata"]["uid"] in b.dataplane.pods

    asyncio.run(run())


@pytest.mark.parametrize("line", ["v3.29", "v3.31", "v3.32"])
def test_a_profile_as_shipped_has_the_defects_that_its_release_was_shown_to_have(line: Any) -> None:
    calico = load(f"{line}-as-shipped").calico
    assert calico.version.startswith(f"{line}.")
    assert calico.defects == as_shipped(calico.version)


def test_the_default_profile_has_no_undocumented_defect() -> None:
    assert load("default").calico.defects == CalicoDefects()
