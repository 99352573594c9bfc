# SPDX-License-Identifier: Apache-2.0
"""Clusters that no installation creates but that exist all the same: recorded clusters with one
change."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.facts.detect import detect
from conformance.model.facts import Facts
from conformance.plugin import header
from tests.unit.conformance.facts.platforms import document
from tests.unit.conformance.facts.platforms.served import clusters, served

Obj = dict[str, Any]


def seen(name: str, scratch: Path, change: Callable[[dict[str, Obj]], object]) -> Facts:
    """What is found out about a recorded cluster whose objects, by path, ``change`` has changed."""
    cluster = next(one for one in clusters() if one.name == name)
    objects = copy.deepcopy(cluster.objects)
    change(objects)
    with served(replace(cluster, objects=objects), scratch) as kube:
        return detect(kube)


def applying(facts: Facts) -> set[str]:
    """Claims that apply, of those that are not about every cluster."""
    return set(document.values(facts)["applies"].split())


def test_a_node_that_the_daemonset_does_not_select_is_one_by_hand_of_an_unknown_version(
    tmp_path: Path,
) -> None:
    def change(objects: dict[str, Obj]) -> None:
        node = objects["/api/v1/nodes/by-hand"] = copy.deepcopy(objects["/api/v1/nodes/win"])
        node["metadata"]["name"] = "by-hand"
        daemonset = objects["/apis/apps/v1/namespaces/calico-system/daemonsets/calico-node-windows"]
        daemonset["spec"]["template"]["spec"]["nodeSelector"]["calico"] = "operator"
        objects["/api/v1/nodes/win"]["metadata"]["labels"]["calico"] = "operator"

    facts = seen("kubeadm-operator", tmp_path, change)
    by_hand = next(node for node in facts.nodes if node.name == "by-hand")
    assert by_hand.install is not None
    assert (facts.install.value, by_hand.install.value) == ("operator", "manual")
    assert facts.calico_on("win").value == "v3.31.2"
    assert (
        facts.calico_on("by-hand").source == "not known: no pod of calico-node is on node by-hand"
    )
    assert {"XOP-1", "XOP-2", "PLAT-9", "IPAM-10"} <= applying(facts)
    assert "installed by operator, manual on by-hand" in "\n".join(header.facts_lines(facts))
    assert "Calico's version on Windows nodes is not known (by-hand)" in "\n".join(
        header.assumptions(facts)
    )


def test_calico_in_another_namespace_is_the_same_calico(tmp_path: Path) -> None:
    def change(objects: dict[str, Obj]) -> None:
        for path in [path for path in objects if "calico" in path.rpartition("/")[2]]:
            there = path.replace("/kube-system/", "/network/").replace(
                "/calico-system/", "/network/"
            )
            obj = objects[there] = objects.pop(path)
            if "namespace" in obj["metadata"]:
                obj["metadata"]["namespace"] = "network"

    moved, usual = (
        seen("kubeadm-manifest", tmp_path, one) for one in (change, lambda objects: None)
    )
    assert moved.install.source == "DaemonSet network/calico-node-windows"
    assert document.values(moved) == document.values(usual)


def test_windows_nodes_without_calico_are_not_taken_for_calicos_by_what_linux_has(
    tmp_path: Path,
) -> None:
    def change(objects: dict[str, Obj]) -> None:
        installation = objects["/apis/operator.tigera.io/v1/installations/default"]
        del installation["spec"]["calicoNetwork"]["windowsDataplane"]
        objects["/api/v1/nodes/win"]["metadata"]["annotations"] = {}
        for path in [path for path in objects if "calico-node-windows" in path]:
            del objects[path]

    facts = seen("kubeadm-operator", tmp_path, change)
    found = document.values(facts)
    assert (found["install"], found["cni"], found["ipam"], found["plane"]) == (
        "unknown", "unknown", "unknown", {"win": "unknown"},
    )  # fmt: skip
    assert not {"IPAM-1", "NAT-2", "XOP-2", "XPOL-11", "ENC-1"} & applying(facts)
    assert "installed by unknown" in "\n".join(header.facts_lines(facts))


def test_bgp_beside_a_pool_of_vxlan_carries_windows_pods_without_an_overlay(tmp_path: Path) -> None:
    def change(objects: dict[str, Obj]) -> None:
        objects["/apis/projectcalico.org/v3/ippools/default-ipv4-ippool"]["spec"]["vxlanMode"] = (
            "CrossSubnet"
        )

    facts = seen("bgp-operator", tmp_path, change)
    assert (facts.mode.value, document.values(facts)["plane"]) == ("mixed", {"win": "l2bridge"})
    assert {"ENC-6", "XSVC-5"} <= applying(facts)
    assert not {"VXLAN-1", "HOST-1"} & applying(facts)


def test_kube_proxy_of_windows_with_a_configmap_does_not_say_dsr_by_that_of_linux(
    tmp_path: Path,
) -> None:
    def change(objects: dict[str, Obj]) -> None:
        objects["/api/v1/namespaces/kube-system/pods/kube-proxy-windows-abcde"] = {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "kube-proxy-windows-abcde", "namespace": "kube-system"},
            "spec": {"nodeName": "win", "containers": [{"name": "p", "args": ["--config=C:\\k\\config.conf"]}]},
        }  # fmt: skip

    facts = seen("kubeadm-operator", tmp_path, change)
    (node,) = facts.by_os("windows")
    assert node.dsr.value is None
    assert "its arguments do not name --enable-dsr" in node.dsr.source
    assert "DSR on Windows unknown" in "\n".join(header.facts_lines(facts))


def test_pools_of_both_versions_ask_for_what_windows_leaves_out(tmp_path: Path) -> None:
    def change(objects: dict[str, Obj]) -> None:
        objects["/apis/projectcalico.org/v3/ippools/six"] = {
            "apiVersion": "projectcalico.org/v3", "kind": "IPPool", "metadata": {"name": "six"},
            "spec": {"cidr": "fd00:10::/48", "vxlanMode": "Never", "ipipMode": "Never"},
        }  # fmt: skip

    facts, plain = (
        seen("kubeadm-operator", tmp_path, one) for one in (change, lambda objects: None)
    )
    assert (facts.dual_stack.value, plain.dual_stack.value) == (True, False)
    assert facts.mode.value == plain.mode.value == "vxlan"
    assert applying(facts) - applying(plain) <= {"UNSUP-5"}


def test_an_object_of_calico_under_the_name_of_the_host_says_nothing_of_the_node(
    tmp_path: Path,
) -> None:
    def change(objects: dict[str, Obj]) -> None:
        (path,) = [path for path in objects if "blockaffinities" in path]
        objects[path]["spec"]["node"] = "WIN"

    facts = seen("manual-services", tmp_path, change)
    assert facts.ipam.value is None
    assert "node win has no block of Calico's IPAM" in facts.ipam.source


def with_images(change: Callable[[str], str], found: Any) -> None:
    """Change the image of every container."""
    for key, value in found.items() if isinstance(found, dict) else enumerate(found):
        if key == "image":
            found[key] = change(value)
        elif isinstance(value, (dict, list)):
            with_images(change, value)


DIGEST = "@sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("tag", "version"),
    [
        ("3.26.1", "3.26.1"),
        ("v3.26.3_vmware.1", "v3.26.3_vmware.1"),
        ("v3.25.2-eksbuild.1", "v3.25.2-eksbuild.1"),
        ("v3.26.1.corp3", "v3.26.1.corp3"),
        (f"v3.26.1{DIGEST}", "v3.26.1"),
        ("latest", None),
        ("release-v3.24", None),
        ("prod-20250101", None),
        ("20250101", None),
        (DIGEST, None),
    ],
)
def test_a_tag_that_is_a_version_is_one_and_any_other_leaves_the_node_to_a_look(
    tag: str, version: str | None, tmp_path: Path
) -> None:
    def private(image: str) -> str:
        name = re.sub(r"^[^/]+/calico/", "registry.corp.example:5000/mirror/calico/", image)
        return re.sub(r"(calico/[a-z-]+):.*", rf"\1{'' if tag == DIGEST else ':'}{tag}", name)

    facts = seen("kubeadm-manifest", tmp_path, lambda objects: with_images(private, objects))
    assert facts.calico_on("win").value == version
    assert ("XPOL-13" in document.values(facts)["undecided"].split()) is (version is None)


@pytest.mark.parametrize(
    ("rendered", "of_cluster", "version"),
    [
        ("v3.31.2", "v3.31.2", "v3.31.2"),
        ("release-v3.30", "v3.30.3-12-gabcdef", "v3.30.3-12-gabcdef"),
        ("master", "v3.34.0-0.dev-123-gabc", "v3.34.0-0.dev-123-gabc"),
    ],
)
def test_an_operators_version_that_is_a_branch_is_the_clusters(
    rendered: str, of_cluster: str, version: str, tmp_path: Path
) -> None:
    def change(objects: dict[str, Obj]) -> None:
        with_images(lambda image: image.rpartition(":")[0] + DIGEST, objects)
        installation = objects["/apis/operator.tigera.io/v1/installations/default"]
        installation["status"]["calicoVersion"] = rendered
        information = objects["/apis/projectcalico.org/v3/clusterinformations/default"]
        information["spec"]["calicoVersion"] = of_cluster

    facts = seen("kubeadm-operator", tmp_path, change)
    assert facts.calico_on("win").value == facts.calico_on("lin").value == version
    assert "nodes run different versions" not in "\n".join(header.assumptions(facts))


@pytest.mark.parametrize(
    ("provider", "labels", "platform"),
    [
        ("aws:///eu-west-1a/i-0abc", {"kops.k8s.io/instancegroup": "nodes"}, "aws"),
        ("vsphere://4230", {}, "self-managed"),
        ("", {"microk8s.io/cluster": "true"}, "self-managed"),
        ("azure:///x", {"kubernetes.azure.com/cluster": "MC_x"}, "aks"),
    ],
)
def test_a_platform_is_what_its_nodes_are_made_by(
    provider: str, labels: dict[str, str], platform: str, tmp_path: Path
) -> None:
    def change(objects: dict[str, Obj]) -> None:
        for name in ("lin", "win"):
            node = objects[f"/api/v1/nodes/{name}"]
            node["spec"]["providerID"] = provider
            node["metadata"]["labels"] |= labels

    facts = seen("kubeadm-operator", tmp_path, change)
    assert (facts.platform.value, facts.install.value) == (platform, "operator")


def test_each_of_several_builds_is_covered_and_nodes_that_take_no_pods_are_not(
    tmp_path: Path,
) -> None:
    kernels = {"w19": "10.0.17763.6293", "w25": "10.0.26100.4061", "away": "", "dead": ""}

    def change(objects: dict[str, Obj]) -> None:
        for name, kernel in kernels.items():
            node = objects[f"/api/v1/nodes/{name}"] = copy.deepcopy(objects["/api/v1/nodes/win"])
            node["metadata"]["name"] = name
            if kernel:
                node["status"]["nodeInfo"]["kernelVersion"] = kernel
        objects["/api/v1/nodes/away"]["spec"]["unschedulable"] = True
        objects["/api/v1/nodes/dead"]["status"]["conditions"][0]["status"] = "Unknown"

    cluster = next(one for one in clusters() if one.name == "kubeadm-operator")
    objects = copy.deepcopy(cluster.objects)
    change(objects)
    with served(replace(cluster, objects=objects), tmp_path) as kube:
        facts = detect(kube)
        assert document.outcome(facts, kube)["covered"] == ["w19", "w25", "win"]
    trouble = "known defect of Windows on w25 (26100.4061): overlay networks of pods"
    assert trouble in "\n".join(header.assumptions(facts))
