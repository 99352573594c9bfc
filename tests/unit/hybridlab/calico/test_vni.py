# SPDX-License-Identifier: Apache-2.0
"""A changed FelixConfiguration makes Felix start again; a Windows node's VXLAN device has its HNS network's VSID."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import pytest

from hybridlab.calico.felix_configuration import effective, needs_restart
from hybridlab.cluster.installs.axes import install_of
from hybridlab.dataplane.model import PodSpec
from hybridlab.dataplane.pod_network import SandboxError
from hybridlab.networks.registry import plane_of
from hybridlab.networks.vxlan.plane import Vxlan, cni_vni, felix_port, felix_vni, started_vni
from hybridlab.profiles.load import load
from hybridlab.profiles.machines import machines
from tests.unit.hybridlab.calico.cluster_harness import Harness, harness

CONFIGURATIONS = "felixconfigurations.projectcalico.org"
WINDOWS = "windows-2022"


def scenario(body: Callable[[Harness], Awaitable[None]], *overrides: str) -> None:
    async def run() -> None:
        async with harness(*overrides) as made:
            await made.until(
                lambda: all(felix.routing.routes for felix in made.calico.felixes.values())
            )
            await body(made)

    asyncio.run(run())


def vni(made: Harness, node: str) -> int | None:
    spec = made.dataplane.tunnels[node]
    return None if spec is None else spec.identifier


def starts(made: Harness, node: str) -> int:
    return sum(where == node and "Felix starting up" in line for where, line in made.logged)


def test_linux_starts_again_and_moves_and_windows_does_neither() -> None:
    async def body(made: Harness) -> None:
        await made.client.patch(CONFIGURATIONS, "default", {"spec": {"vxlanVNI": 4097}})
        await made.until(lambda: vni(made, "linux-1") == 4097)
        await made.settled()
        assert (starts(made, "linux-1"), starts(made, WINDOWS), vni(made, WINDOWS)) == (2, 1, 4096)
        said = "Datastore config changed, need to restart; exiting with status 129"
        assert any(node == "linux-1" and said in line for node, line in made.logged)

    scenario(body)


def test_a_node_s_own_configuration_makes_that_felix_start_again_on_either_system() -> None:
    async def body(made: Harness) -> None:
        for node in ("linux-1", WINDOWS):
            spec = {"usageReportingInitialDelay": "301s"}
            await made.client.create(
                CONFIGURATIONS, {"metadata": {"name": f"node.{node}"}, "spec": spec}
            )
        await made.until(lambda: (starts(made, "linux-1"), starts(made, WINDOWS)) == (2, 2))
        assert starts(made, "linux-2") == 1
        assert vni(made, "linux-1") == 4096

    scenario(body)


def test_a_felix_whose_pod_goes_meanwhile_stays_down() -> None:
    async def body(made: Harness) -> None:
        restart = asyncio.create_task(made.calico.restart_felix("linux-1"))
        await asyncio.sleep(0)
        await made.calico.felix_stopped("linux-1")
        await restart
        assert not made.calico.felixes["linux-1"].running
        await made.calico.restart_felix("linux-1")
        assert not made.calico.felixes["linux-1"].running

    scenario(body)


def test_a_delivered_vni_is_stored_and_the_vsid_stays_until_the_network_is_made_anew() -> None:
    async def body(made: Harness) -> None:
        node = made.calico.windows[WINDOWS]
        pod, _ = await made.pod("w", WINDOWS)
        await made.calico.felix_stopped(WINDOWS)
        made.calico.felix_started(WINDOWS, {"VXLAN_VNI": "4097"})
        await made.settled()
        assert (started_vni(node), cni_vni(node), node.hns.vsid, vni(made, WINDOWS)) == (
            4097,
            4097,
            4096,
            4096,
        )
        assert node.hns.pod_network is not None
        await made.calico.remove_hns_network(WINDOWS, node.hns.pod_network.id)
        await made.until(lambda: vni(made, WINDOWS) is None)
        assert made.dataplane.cut_off == [pod["metadata"]["uid"]]
        await made.calico.restart_felix(WINDOWS)
        await made.until(lambda: vni(made, WINDOWS) == 4097)
        assert [endpoint.name for endpoint in node.hns.endpoints] == ["Calico_ep"]

    scenario(body)


def test_the_plugin_makes_the_network_that_is_missing() -> None:
    async def body(made: Harness) -> None:
        node = made.calico.windows[WINDOWS]
        assert node.hns.pod_network is not None
        await made.calico.remove_hns_network(WINDOWS, node.hns.pod_network.id)
        node.configure(
            {},
            {
                "CNI_NETWORK_CONFIG": json.dumps(
                    {"plugins": [{"type": "calico", "vxlan_vni": 5000}]}
                )
            },
        )
        await made.pod("w", WINDOWS)
        assert node.hns.vsid == 5000
        await made.until(lambda: vni(made, WINDOWS) == 5000)

    scenario(body)


def test_a_pod_whose_network_is_removed_while_it_starts_fails_and_leaves_nothing() -> None:
    async def body(made: Harness) -> None:
        node = made.calico.windows[WINDOWS]
        there, _ = await made.pod("there", WINDOWS)
        add = made.dataplane.add_pod

        async def removed_meanwhile(spec: PodSpec) -> None:
            assert node.hns.pod_network is not None
            await made.calico.remove_hns_network(WINDOWS, node.hns.pod_network.id)
            await add(spec)

        made.dataplane.add_pod = removed_meanwhile  # type: ignore[method-assign]
        with pytest.raises(SandboxError, match="HNS network Calico was removed meanwhile"):
            await made.pod("late", WINDOWS)
        made.dataplane.add_pod = add  # type: ignore[method-assign]
        assert [*made.dataplane.pods] == [there["metadata"]["uid"]]
        assert there["metadata"]["uid"] in made.dataplane.cut_off
        late = await made.client.get("pods", "late", "demo")
        assert made.calico.pod_network.address_of(late["metadata"]["uid"]) is None
        await made.calico.pod_network.attach(late, WINDOWS)
        assert node.hns.attached(late["metadata"]["uid"])

    scenario(body)


def test_pods_of_another_block_lose_their_interfaces_when_the_network_is_made_for_this_one() -> (
    None
):
    async def body(made: Harness) -> None:
        node = made.calico.windows[WINDOWS]
        pods = [(await made.pod(name, WINDOWS))[0]["metadata"]["uid"] for name in ("one", "two")]
        node.hns.ensure_pod_network(made.calico.plane.plugged_network(node, "192.168.255.0/26"))
        for number, pod in enumerate(pods):
            node.hns.attach(pod, "sandbox", f"192.168.255.{number + 3}", "0e:2a:c0:a8:ff:03")
        await made.calico.restart_felix(WINDOWS)
        await made.until(lambda: made.dataplane.cut_off == pods)
        node.hns.ensure_pod_network(made.calico.plane.plugged_network(node, "192.168.255.0/26"))
        node.hns.attach(pods[0], "sandbox", "192.168.255.3", "0e:2a:c0:a8:ff:03")
        made.dataplane.cut_off.clear()
        await made.pod("three", WINDOWS)
        assert made.dataplane.cut_off == pods[:1]

    scenario(body)


def test_a_vni_that_windows_does_not_support_lets_no_pod_in_and_makes_no_network() -> None:
    async def body(made: Harness) -> None:
        assert made.calico.windows[WINDOWS].hns.pod_network is None
        with pytest.raises(SandboxError, match=r"Windows does not support VXLANVNI < 4096"):
            await made.pod("w", WINDOWS)

    async def run() -> None:
        async with harness("network.plane.vni=4095") as made:
            await body(made)

    asyncio.run(run())


@pytest.mark.parametrize("given", ["many", [4097]])
def test_a_vni_that_is_no_number_lets_no_pod_in_and_is_named(given: object) -> None:
    async def body(made: Harness) -> None:
        configuration = {"plugins": [{"type": "calico", "vxlan_vni": given}]}
        made.calico.windows[WINDOWS].configure(
            {}, {"CNI_NETWORK_CONFIG": json.dumps(configuration)}
        )
        with pytest.raises(
            SandboxError, match=r"vxlan_vni of the CNI configuration is .*, expected a number"
        ):
            await made.pod("w", WINDOWS)

    scenario(body)


def test_a_pod_that_leaves_takes_its_endpoint_along() -> None:
    async def body(made: Harness) -> None:
        pod, attachment = await made.pod("w", WINDOWS)
        hns = made.calico.windows[WINDOWS].hns
        assert [(endpoint.address, endpoint.mac) for endpoint in hns.endpoints if endpoint.pod] == [
            (attachment.address, attachment.mac)
        ]
        await made.calico.pod_network.detach(pod["metadata"]["uid"])
        assert [endpoint.name for endpoint in hns.endpoints] == ["Calico_ep"]

    scenario(body)


@pytest.mark.parametrize(
    ("os", "changed", "restarts"),
    [
        ("linux", {"vxlanVNI": 4097}, True),
        ("windows", {"vxlanVNI": 4097}, False),
        ("windows", {"logSeverityScreen": "Debug"}, True),
        ("linux", {"clusterType": "k8s"}, False),
        ("linux", {}, False),
    ],
)
def test_what_felix_cannot_take_over_while_it_runs(
    os: Literal["linux", "windows"], changed: Any, restarts: bool
) -> None:
    before = effective({"default": {"vxlanVNI": 4096}}, "n")
    after = effective({"default": {"vxlanVNI": 4096, **changed}}, "n")
    plane = plane_of(load("default"))
    assert needs_restart(before, after, plane.felix_ignores(os)) is restarts


def test_a_node_s_own_value_wins() -> None:
    specs = {"default": {"vxlanVNI": 4096, "vxlanPort": 4790}, "node.a": {"vxlanVNI": 5000}}
    read = [effective(specs, node) for node in "ab"]
    assert [(felix_vni(one), felix_port(one)) for one in read] == [(5000, 4790), (4096, 4790)]


@pytest.mark.parametrize(
    ("install", "path", "key"),
    [("operator", "10-calico.conflist", "plugins"), ("manifest", "10-calico.conf", "type")],
)
def test_the_configuration_on_disk_is_a_list_by_the_operator_and_one_plugin_without(
    install: str, path: str, key: str
) -> None:
    profile = load("default", [f"calico.install={install}"])
    machine = next(machine for machine in machines(profile) if machine.os == "windows")
    node = Vxlan(profile).windows_node(machine, install_of(profile).cni_file)
    assert node.cni_path == f"C:\\etc\\cni\\net.d\\{path}"
    assert key in json.loads(node.cni_text)
    node.configure({"VXLAN_VNI": "4097"}, {})
    assert (cni_vni(node), started_vni(node)) == (4097, 4097)
    node.configure({"VXLAN_VNI": "many"}, {})
    assert started_vni(node) == 4097
