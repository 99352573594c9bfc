# SPDX-License-Identifier: Apache-2.0
"""Clusters that no installation makes by itself and somebody has all the same: recorded ones, changed in one thing."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

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
    assert not {"IPAM-1", "NAT-1", "XOP-2", "XPOL-11", "ENC-1"} & applying(facts)
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
