# SPDX-License-Identifier: Apache-2.0
"""A VNI is delivered when every node has it: Linux' device, Windows' environment, readiness and CNI configuration."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from conformance.disrupt.vni import Vni, cni_files
from conformance.errors import EnvironmentBroken, MissingCapability
from conformance.kube.refused import ApiRefused
from conformance.model.facts import Fact
from conformance.model.host import HnsNetwork, HnsSubnet, Link, LinuxFacts
from conformance.model.host import Vxlan as Device
from tests.unit.conformance.builders import a_node, a_pod, some_facts

WINDOWS = {"k8s-app": "calico-node-windows"}


class Hosts:
    """Hosts of nodes, some of which have received the new VNI."""

    def __init__(
        self, device: int | None = 4096, written: object = 4096, vsid: int | None = 4096
    ) -> None:
        self.device, self.written, self.vsid = device, written, vsid

    def linux(self, node: str) -> LinuxFacts:
        vxlan = Device(vni=self.device, port=4789) if self.device else None
        link = Link(name="vxlan.calico", mtu=1450, mac="66:00", up=True, vxlan=vxlan)
        return LinuxFacts(node=node, links=(link,), routes=(), fdb=(), neighbours=())

    def cni_configuration(self, node: str, places: Sequence[str] = ()) -> str:
        return json.dumps({"plugins": [{"type": "calico", "vxlan_vni": self.written}]}, indent=2)

    def hns_networks(self, node: str) -> list[HnsNetwork]:
        subnet = HnsSubnet(prefix="192.168.1.0/26", gateway="192.168.1.1", vsid=self.vsid)
        other = HnsSubnet(prefix="192.168.255.0/30", gateway="192.168.255.1", vsid=9999)
        found = [HnsNetwork(id="e", name="External", type="Overlay", subnets=(other,))]
        if self.vsid:
            found.append(
                HnsNetwork(id="c", name="Calico", type="Overlay", pods=True, subnets=(subnet,))
            )
        return found


def containers(value: object) -> list[Any]:
    return [
        {
            "name": "felix",
            "env": [{"name": "OTHER", "value": "1"}, {"name": "VXLAN_VNI", "value": str(value)}],
        },
        {"name": "plain"},
    ]


def prepare(cluster: Any, *, rendered: object = 4096, felix: Any = None) -> None:
    """A cluster with Calico's objects, whose calico-node-windows has been given ``rendered``."""
    spec = {"containers": containers(4096), "initContainers": [{"name": "install-cni"}]}
    cluster.others = {
        ("FelixConfiguration", "default"): {"spec": {"vxlanVNI": 4096} if felix is None else felix},
        ("DaemonSet", "calico-node-windows"): {
            "metadata": {"name": "calico-node-windows", "namespace": "calico-system"},
            "spec": {"template": {"spec": spec}},
        },
    }
    cluster.pods = [
        a_pod("felix-w", "w1", owner="DaemonSet", namespace="calico-system", labels=WINDOWS,
                 spec={"nodeName": "w1", "containers": containers(rendered)}),
    ]  # fmt: skip


def vni(cluster: Any, patience: Any, clock: Any, hosts: Hosts, install: str = "operator") -> Vni:
    facts = some_facts(a_node("w1", "windows"), install=install)
    changes: Any = cluster
    seen: Any = hosts
    return Vni(changes, changes, patience, clock, hosts=seen, facts=facts)


def test_what_is_configured_is_read_and_4096_where_nothing_is(
    cluster: Any, patience: Any, clock: Any
) -> None:
    prepare(cluster, felix={"vxlanVNI": 10000})
    assert vni(cluster, patience, clock, Hosts()).configured() == 10000
    prepare(cluster, felix={})
    assert vni(cluster, patience, clock, Hosts()).configured() == 4096


def test_what_rules_felix_on_windows_is_what_is_configured(
    cluster: Any, patience: Any, clock: Any
) -> None:
    prepare(cluster, felix={"vxlanVNI": 10000})
    there = vni(cluster, patience, clock, Hosts())
    ruling = {"windows": {"vxlanVNI": Fact("5000", "FELIX_VXLANVNI=5000")}}
    there.facts = replace(there.facts, felix_overrides=ruling)
    assert there.configured() == 5000
    there.facts = replace(there.facts, felix_overrides={"linux": ruling["windows"]})
    assert there.configured() == 10000


def test_only_the_pod_networks_vsid_is_read(cluster: Any, patience: Any, clock: Any) -> None:
    assert vni(cluster, patience, clock, Hosts(vsid=4097)).vsid("w1") == 4097
    assert vni(cluster, patience, clock, Hosts(vsid=None)).vsid("w1") is None


def test_by_an_operator_only_the_felix_configuration_is_written(
    cluster: Any, patience: Any, clock: Any
) -> None:
    prepare(cluster, rendered=4097)
    one = vni(cluster, patience, clock, Hosts(device=4097, written=4097))
    done = one.deliver(4097, linux=["l1"], windows=["w1"])
    assert (done.before, done.vni) == (4096, 4097)
    assert cluster.log == ["patch FelixConfiguration default {'spec': {'vxlanVNI': 4097}}"]


def test_by_manifests_the_daemonsets_variable_is_written_too_and_nothing_else_of_it(
    cluster: Any, patience: Any, clock: Any
) -> None:
    prepare(cluster, rendered=4097)
    patches: list[Any] = []
    original: Callable[..., Any] = cluster.patch

    def patched(target: Any, patch: Any, why: str, **_: Any) -> Any:
        patches.append((target.kind, patch))
        return original(target, patch, why)

    cluster.patch = patched
    one = vni(cluster, patience, clock, Hosts(device=4097, written=4097), install="manifest")
    one.deliver(4097, linux=["l1"], windows=["w1"])
    kind, patch = patches[1]
    spec = patch["spec"]["template"]["spec"]
    assert kind == "DaemonSet"
    assert spec == {"containers": containers(4097), "initContainers": [{"name": "install-cni"}]}
    untouched = cluster.others["DaemonSet", "calico-node-windows"]["spec"]["template"]["spec"]
    assert untouched["containers"] == containers(4096)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (
            {"device": 4096, "written": 4097, "rendered": 4097},
            "Linux node l1: vxlan.calico has VNI 4096",
        ),
        (
            {"device": None, "written": 4097, "rendered": 4097},
            "Linux node l1: vxlan.calico has VNI None",
        ),
        (
            {"device": 4097, "written": 4096, "rendered": 4097},
            "w1: its CNI configuration has VNI 4096",
        ),
        ({"device": 4097, "written": 4097, "rendered": 4096}, "Windows node w1: VXLAN_VNI is 4096"),
    ],
    ids=["device", "no device", "CNI", "environment"],
)
def test_a_node_that_was_not_told_is_named(
    *, cluster: Any, patience: Any, clock: Any, told: Any, words: str
) -> None:
    prepare(cluster, rendered=told.pop("rendered"))
    with pytest.raises(
        EnvironmentBroken, match=f"not delivered to every node within 4[0-9] s: .*{words}"
    ):
        vni(cluster, patience, clock, Hosts(**told)).delivered(4097, linux=["l1"], windows=["w1"])


def test_a_pod_that_is_not_ready_has_not_been_told(cluster: Any, patience: Any, clock: Any) -> None:
    prepare(cluster, rendered=4097)
    cluster.pods[0]["status"] = {"phase": "Pending"}
    with pytest.raises(
        EnvironmentBroken, match="Windows node w1: calico-node-windows is not ready"
    ):
        vni(cluster, patience, clock, Hosts(4097, 4097)).delivered(4097, linux=[], windows=["w1"])


@pytest.mark.parametrize(
    ("install", "lacking", "words"),
    [
        ("operator", "api", "which is not served; install Calico's API server"),
        ("operator", "FelixConfiguration", "no FelixConfiguration default"),
        ("manual", "DaemonSet", "this cluster has nothing that delivers a VNI to Windows nodes"),
        ("manifest", "variable", "this cluster has nothing that delivers a VNI to Windows nodes"),
    ],
)
def test_where_it_cannot_be_delivered_nothing_is_written(
    *,
    cluster: Any,
    patience: Any,
    clock: Any,
    install: str,
    lacking: str,
    words: str,
) -> None:
    prepare(cluster)
    cluster.served = lacking != "api"
    cluster.others = {key: value for key, value in cluster.others.items() if key[0] != lacking}
    if lacking == "variable":
        cluster.others["DaemonSet", "calico-node-windows"]["spec"]["template"]["spec"] = {
            "containers": [{"name": "f"}]
        }
    with pytest.raises(MissingCapability, match=words):
        vni(cluster, patience, clock, Hosts(), install).deliver(4097, linux=["l1"], windows=["w1"])
    assert cluster.log == []


def test_the_vni_is_read_where_calico_stores_it_while_its_api_server_is_away(
    cluster: Any, patience: Any, clock: Any
) -> None:
    prepare(cluster)
    real = cluster.find

    def find(api: str, *more: Any) -> Any:
        if api.startswith("projectcalico"):
            raise ApiRefused(503, "ServiceUnavailable", "error trying to reach service", "GET")
        return real(api, *more)

    cluster.find = find
    assert vni(cluster, patience, clock, Hosts(), "operator").configured() == 4096


@pytest.mark.parametrize(
    ("folder", "path"),
    [("/host/etc/cni/net.d", r"C:\etc\cni\net.d\10-calico.conflist"), ("/k/cni", r"C:\k\cni\10-calico.conflist"),
     (r"C:\k\cni", r"C:\k\cni\10-calico.conflist")],
)  # fmt: skip
def test_the_cni_configuration_is_where_the_daemonset_says(folder: str, path: str) -> None:
    env = [
        {"name": "CNI_CONF_NAME", "value": "10-calico.conflist"},
        {"name": "CNI_NET_DIR", "value": folder},
    ]
    spec = {"containers": [], "initContainers": [{"name": "install-cni", "env": env}]}
    assert cni_files({"spec": {"template": {"spec": spec}}}) == [path]
    assert cni_files(None) == []
