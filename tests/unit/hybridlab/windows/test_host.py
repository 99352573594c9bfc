# SPDX-License-Identifier: Apache-2.0
"""A Windows host answers from its given state, and a command changes only its target."""

from __future__ import annotations

import asyncio
import time
from datetime import date
from typing import Any

import pytest

from hybridlab.cluster.installs.axes import install_of, kube_proxy_service
from hybridlab.dataplane.model import Backend, ServicePort, ServiceTable
from hybridlab.networks.registry import plane_of
from hybridlab.profiles.load import load
from hybridlab.profiles.machines import machines
from hybridlab.windows.host import HostRefused, HostState, WindowsHost, felix_command

BLOCK = "192.168.1.0/26"


class Harness:
    """A host with one pod, and what was done to it."""

    def __init__(
        self, install: str = "operator", process: int | None = 4084, *settings: str,
        kube_proxy: tuple[int, str] | None = None,
    ) -> None:  # fmt: skip
        profile = load("default", [f"calico.install={install}", *settings])
        self.machine = next(machine for machine in machines(profile) if machine.os == "windows")
        node = plane_of(profile).windows_node(self.machine, "10-calico.conf")
        self.hns = node.hns
        self.hns.ensure_pod_network(plane_of(profile).plugged_network(node, BLOCK))
        self.hns.attach("uid", "sandbox", "192.168.1.3", "0e:2a:c0:a8:01:03")
        self.done: list[str] = []
        web = ServicePort(
            name="demo/web:80", protocol="tcp", cluster_ip="10.96.0.9", port=80, node_port=None,
            backends=(Backend(address="192.168.1.3", port=8080), Backend(address="192.168.0.3", port=8080)),
        )  # fmt: skip
        acl: dict[str, object] = {"Type": "ACL", "Id": "API0", "Action": "Allow"}
        state = HostState(
            hns=self.hns,
            acls=lambda: {"uid": (acl,)},
            pod_policies=lambda: [{"Type": "OutBoundNAT"}],
            remote_routes=lambda: [{"Type": "RemoteSubnetRoute", "IsolationId": 4096}],
            services=lambda: ServiceTable(ports=(web,)),
            files=lambda: {"C:\\a": "text"},
            felix_process=lambda: process,
            kube_proxy_process=lambda: kube_proxy,
            restart_felix=lambda: self.does("restart felix"),
            remove_network=lambda identity: self.does(f"remove {identity}"),
            end_felix=None
            if install_of(profile).felix_restarts
            else lambda: self.does("end felix"),
            calico_folder=install_of(profile).windows_folder,
            calico_services=install_of(profile).windows_services,
            kube_proxy_service=kube_proxy_service(profile),
        )
        self.host = WindowsHost(self.machine, profile, state)

    async def does(self, what: str) -> None:
        self.done.append(what)

    def ask(self, question: str, **arguments: object) -> Any:
        return asyncio.run(self.host.answer(question, arguments))


def test_networks_have_their_vsid_and_the_pod_network_its_routes() -> None:
    harness = Harness()
    external, calico = harness.ask("networks")
    assert (external["Name"], external["Type"], external["ManagementIP"]) == (
        "External",
        "Overlay",
        harness.machine.address,
    )
    assert calico["Subnets"] == [
        {
            "AddressPrefix": BLOCK,
            "GatewayAddress": "192.168.1.1",
            "Policies": [{"Type": "VSID", "VSID": 4096}],
        }
    ]
    assert {"Type": "RemoteSubnetRoute", "IsolationId": 4096} in calico["Policies"]
    assert all(policy["Type"] != "RemoteSubnetRoute" for policy in external["Policies"])


def test_a_network_says_when_it_was_last_changed_as_windows_counts_time() -> None:
    before, harness = time.time(), Harness()

    def changed() -> float:
        ticks = harness.ask("networks")[1]["Health"]["LastUpdateTime"]
        return float(ticks) / 10_000_000 - (date(1970, 1, 1) - date(1601, 1, 1)).days * 86400

    made = changed()
    assert before - 0.01 <= made <= time.time()
    assert changed() == made
    harness.hns.set_vsid(4097)
    assert changed() > made


def test_endpoints_have_the_plugin_s_policies_and_felix_acls() -> None:
    own, pod, _remote = Harness().ask("endpoints")
    assert (own["Name"], own["IPAddress"], [policy["Type"] for policy in own["Policies"]]) == (
        "Calico_ep", "192.168.1.2", ["PA"],
    )  # fmt: skip
    assert (pod["MacAddress"], pod["VirtualNetworkName"]) == ("0E-2A-C0-A8-01-03", "Calico")
    assert [policy["Type"] for policy in pod["Policies"]] == ["PA", "OutBoundNAT", "ACL"]


def test_endpoints_are_attached_and_those_of_pods_shared_by_hcsshim_s_numbers() -> None:
    own, pod, _remote = Harness().ask("endpoints")
    assert (own["State"], pod["State"]) == (2, 3)


def test_a_policy_list_names_the_backends_here_and_elsewhere() -> None:
    harness = Harness()
    pod = next(endpoint for endpoint in harness.hns.endpoints if endpoint.pod)
    (found,) = harness.ask("policy-lists")
    (remote,) = [one for one in harness.ask("endpoints") if one["IsRemoteEndpoint"]]
    assert (remote["IPAddress"], remote["VirtualNetworkName"]) == ("192.168.0.3", "Calico")
    assert (found["References"], found["Policies"][0]["VIPs"]) == (
        [f"/endpoints/{pod.id}", f"/endpoints/{remote['ID']}"],
        ["10.96.0.9"],
    )
    assert found["Policies"][0]["IsDSR"] is True


def test_a_network_is_removed_by_its_id() -> None:
    harness = Harness()
    network = harness.hns.pod_network
    assert network is not None
    harness.ask("remove-network", id=network.id)
    assert harness.done == [f"remove {network.id}"]
    with pytest.raises(HostRefused, match="not found"):
        harness.ask("remove-network", id="other")


def test_calico_s_services_are_there_without_an_operator_only() -> None:
    assert set(Harness().ask("services")) == {"containerd", "hns", "kubelet", "vmcompute"}
    assert Harness("manifest").ask("services")["CalicoFelix"] == "Running"
    assert Harness("manifest", process=None).ask("services")["CalicoFelix"] == "Stopped"
    harness = Harness("manifest")
    harness.ask("restart-service", name="calicofelix")
    assert harness.done == ["restart felix"]
    with pytest.raises(HostRefused, match="Cannot find any service"):
        Harness().ask("restart-service", name="CalicoFelix")
    with pytest.raises(HostRefused, match="not emulated"):
        harness.ask("restart-service", name="hns")


def test_only_felix_process_can_be_stopped() -> None:
    harness = Harness()
    with pytest.raises(HostRefused, match="Cannot find a process"):
        harness.ask("stop-process", id=1)
    assert harness.done == []
    harness.ask("stop-process", id=4084)
    assert harness.done == ["restart felix"]
    assert Harness(process=None).ask("processes") == []


def test_kube_proxy_shows_its_command_line_and_is_a_service_where_no_pod_runs_it() -> None:
    running = (6000, "kube-proxy.exe --enable-dsr=true")
    felix, found = Harness(kube_proxy=running).ask("processes")
    assert felix["Name"] == "calico-node.exe"
    assert found == {
        "Name": "kube-proxy.exe",
        "ProcessId": 6000,
        "CommandLine": "kube-proxy.exe --enable-dsr=true",
    }
    assert "kube-proxy" not in Harness(kube_proxy=running).ask("services")
    service = "kube_proxy.windows=service"
    assert (
        Harness("operator", 1, service, kube_proxy=running).ask("services")["kube-proxy"]
        == "Running"
    )
    assert Harness("operator", 1, service).ask("services")["kube-proxy"] == "Stopped"
    on_aks = Harness("operator", 1, service, "kubernetes.provider=AKS", kube_proxy=running).ask(
        "services"
    )
    assert (on_aks["kubeproxy"], "kube-proxy" in on_aks) == ("Running", False)
    on_rke2 = Harness("operator", 1, service, "kubernetes.provider=RKE2", kube_proxy=running).ask(
        "services"
    )
    assert not [name for name in on_rke2 if "proxy" in name], (
        "RKE2's agent starts it as a child of its own"
    )


@pytest.mark.parametrize(
    ("version", "name"),
    [("v3.32.1", "calico-node.exe"), ("v3.33.0", "calico.exe"), ("v3.9.1", "calico-node.exe")],
)
def test_felix_s_process_is_named_as_its_version_has_it(version: str, name: str) -> None:
    assert felix_command(version)[0] == name


def test_what_the_host_is_not_asked_for_is_not_emulated() -> None:
    with pytest.raises(HostRefused, match="not emulated: weather"):
        Harness().ask("weather")


@pytest.mark.parametrize("how", ["error", "silent", "garbled"])
def test_an_hns_that_fails_answers_nobody_and_removes_nothing(how: str) -> None:
    harness = Harness()
    network = harness.hns.pod_network
    assert network is not None
    harness.hns.faults.fails["fault"] = how
    for question in ("networks", "endpoints", "policy-lists"):
        with pytest.raises(HostRefused) as refused:
            harness.ask(question)
        assert refused.value.kind == f"hns-{how}"
    with pytest.raises(HostRefused):
        harness.ask("remove-network", id=network.id)
    assert harness.done == []
    assert harness.ask("processes"), "what is not HNS still answers"
    harness.hns.faults.fails.clear()
    assert len(harness.ask("networks")) == 2


@pytest.mark.parametrize(
    ("install", "path", "follows"),
    [
        ("operator", "C:\\hpc\\CalicoWindows\\calico-node.exe", "restart felix"),
        ("services", "C:\\CalicoWindows\\calico-node.exe", "restart felix"),
        ("agent", "C:\\var\\lib\\rancher\\rke2\\bin\\calico-node.exe", "end felix"),
    ],
)
def test_an_ended_felix_is_started_again_but_by_rke2s_agent(
    install: str, path: str, follows: str
) -> None:
    harness = Harness(install)
    assert harness.ask("processes")[0]["ExecutablePath"] == path
    harness.ask("stop-process", id=4084)
    assert harness.done == [follows]


def test_an_agents_felix_is_no_service() -> None:
    assert not [name for name in Harness("agent").ask("services") if "Calico" in name]
