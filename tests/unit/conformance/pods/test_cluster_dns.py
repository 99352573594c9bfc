# SPDX-License-Identifier: Apache-2.0
"""The DNS pods that are queried at their own addresses are the Ready ones."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.errors import MissingCapability
from conformance.pods.cluster_dns import ClusterDns
from tests.unit.conformance.builders import a_pod


def pod(name: str, *, ready: bool = True, ports: Any = None) -> dict[str, Any]:
    number = name[-1]
    spec = {"containers": [{"name": "coredns", "ports": ports or []}]}
    status = {"podIP": f"192.168.{number}.4", "hostIP": f"10.0.0.1{number}"}
    node = f"linux-{number}"
    return a_pod(name, node, namespace="kube-system", ready=ready, spec=spec, status=status)


class Pods:
    def __init__(self, *pods: dict[str, Any]) -> None:
        self.there = list(pods)

    def objects(self, _: str, kind: str, namespace: str, *, labels: str) -> list[dict[str, Any]]:
        assert (kind, namespace, labels) == ("Pod", "kube-system", "k8s-app=kube-dns")
        return self.there


def dns(*pods: dict[str, Any]) -> ClusterDns:
    cluster: Any = Pods(*pods)
    return ClusterDns(cluster, "corp.example")


def test_each_ready_pod_is_asked_at_its_own_address_and_names_its_node() -> None:
    ports = [{"containerPort": 9153, "protocol": "TCP"}, {"containerPort": 5353, "protocol": "UDP"}]
    found = dns(pod("b-2", ports=ports), pod("a-1"), pod("c-3", ready=False)).pods()
    assert [target.label for target in found] == [
        "192.168.1.4:53/udp (a-1, linux, node linux-1)",
        "192.168.2.4:5353/udp (b-2, linux, node linux-2)",
    ]
    assert [backend.label for target in found for backend in target.backends] == [
        "kube-system/a-1 (linux, node linux-1)",
        "kube-system/b-2 (linux, node linux-2)",
    ]


def test_a_cluster_without_such_pods_cannot_be_asked_that_way() -> None:
    with pytest.raises(MissingCapability, match="no Ready pod k8s-app=kube-dns in kube-system"):
        dns(pod("c-3", ready=False)).pods()


def test_the_known_name_has_the_clusters_domain_and_a_final_dot() -> None:
    assert dns().known_name == "kubernetes.default.svc.corp.example."
