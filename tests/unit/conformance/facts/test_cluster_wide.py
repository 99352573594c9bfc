# SPDX-License-Identifier: Apache-2.0
"""The pods that run a cluster are found by labels and owners, whatever a distribution calls them."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from conformance.errors import MissingCapability, NotAboutThisCluster
from conformance.facts.cluster_wide import ClusterWide
from conformance.model.facts import Facts
from tests.unit.conformance.builders import Obj, a_pod, an_object
from tests.unit.conformance.facts.test_objects import Objects, facts, node, values

calico_pod = partial(a_pod, namespace="calico-system")


def reads(
    pods: list[Obj], of: Facts | None = None, deployments: list[Obj] | None = None, **more: Any
) -> ClusterWide:
    there = {("v1", "Pod"): pods, ("apps/v1", "Deployment"): deployments or []}
    return ClusterWide(Objects(there, **more), of or facts())  # type: ignore[arg-type]


def labelled(one: Obj, **labels: str) -> Obj:
    return one | {
        "metadata": one["metadata"]
        | {"labels": {name.replace("_", "-"): v for name, v in labels.items()}}
    }


def owned(one: Obj, kind: str, name: str) -> Obj:
    return one | {"metadata": one["metadata"] | {"ownerReferences": [{"kind": kind, "name": name}]}}


def deployment(name: str, replicas: int = 1, namespace: str = "calico-system") -> Obj:
    return an_object(name, namespace=namespace, replicas=replicas)


@pytest.mark.parametrize(
    "one",
    [
        labelled(
            a_pod("rke2-coredns-rke2-coredns-1", "win", namespace="kube-system"), k8s_app="kube-dns"
        ),
        labelled(a_pod("kube-scheduler-win", "win", namespace="kube-system"), tier="control-plane"),
        labelled(a_pod("scheduler", "win", namespace="kube-system"), component="kube-scheduler"),
        owned(calico_pod("any", "win"), "ReplicaSet", "calico-kube-controllers-5tq"),
        owned(a_pod("dns-1", "win", namespace="openshift-dns"), "DaemonSet", "dns-default"),
    ],
    ids=["cluster DNS of RKE2", "static pod", "component", "owner", "OpenShift"],
)
def test_a_pod_that_runs_the_cluster_is_found_by_label_or_owner(one: Obj) -> None:
    assert list(values(reads([one]).pods()).values()) == ["windows"]


def test_other_pods_do_not_count_whatever_their_names() -> None:
    others = [
        a_pod("coredns-dashboard-1", "win", namespace="kube-system"),
        calico_pod("calico-node-1", "win"),
    ]
    assert reads(others).pods() == {}


def test_a_pod_that_waits_has_no_node() -> None:
    assert values(reads([labelled(calico_pod("typha", ""), k8s_app="calico-typha")]).pods()) == {
        "operating system under pod calico-system/typha": "no node"
    }


def calico_nodes(pods: list[Obj], of: Facts | None = None) -> list[int]:
    return list(values(reads(pods, of).calico_nodes()).values())


def test_only_ready_calico_nodes_on_linux_count() -> None:
    pods = [
        calico_pod("calico-node-a", "lin"),
        calico_pod("calico-node-b", "lin", ready=False),
        calico_pod("calico-node-windows-c", "win"),
    ]
    assert calico_nodes(pods) == [1]


TAINT = ({"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},)


def test_a_calico_node_of_the_tainted_control_plane_is_on_no_worker() -> None:
    pods = [
        calico_pod("calico-node-a", "lin", ready=False),
        calico_pod("calico-node-b", "master"),
        calico_pod("calico-node-c", "both"),
    ]
    kept = node("master", "linux", control_plane=True, taints=TAINT)
    assert calico_nodes(pods, facts(more=(kept,))) == [0]
    assert calico_nodes(pods, facts(more=(kept, node("both", "linux", control_plane=True)))) == [1]


def test_kube_controllers_have_to_be_there_and_the_others_only_where_they_have_a_deployment() -> (
    None
):
    assert values(reads([]).deployments()) == {
        "ready pods of calico-kube-controllers on Linux nodes": 0
    }
    pods = [
        labelled(calico_pod("controllers", "lin"), k8s_app="calico-kube-controllers"),
        labelled(calico_pod("typha", "lin", ready=False), k8s_app="calico-typha"),
        owned(
            a_pod("api", "win", namespace="calico-apiserver"), "ReplicaSet", "calico-apiserver-7d"
        ),
    ]
    there = [
        deployment("calico-typha"),
        deployment("calico-apiserver", namespace="calico-apiserver"),
    ]
    assert values(reads(pods, deployments=there).deployments()) == {
        "ready pods of calico-apiserver on Linux nodes": 0,
        "ready pods of calico-kube-controllers on Linux nodes": 1,
        "ready pods of calico-typha on Linux nodes": 0,
    }


def test_deployments_that_may_not_be_listed_decide_nothing() -> None:
    with pytest.raises(MissingCapability, match="the right to list them"):
        reads([], forbidden={"Deployment"}).deployments()


def spread(pods: list[Obj], replicas: int) -> list[str]:
    return list(
        values(
            reads(pods, deployments=[deployment("calico-typha", replicas)]).typha_pods()
        ).values()
    )


def test_typha_is_spread_when_each_of_its_pods_is_ready_on_a_node_of_its_own() -> None:
    pods = [
        labelled(calico_pod(f"typha-{name}", name), k8s_app="calico-typha")
        for name in ("lin", "win")
    ]
    assert spread(pods, 2) == ["all ready, each on its own node"]
    assert spread([pods[0], pods[0]], 2) == ["2 of 2 ready, on lin, lin"]
    assert spread(pods[:1], 3) == ["1 of 3 ready, on lin"]


def test_a_typha_pod_on_windows_counts_when_it_runs_there() -> None:
    pods = [
        labelled(calico_pod("a", "win"), k8s_app="calico-typha"),
        labelled(calico_pod("b", "lin"), k8s_app="calico-typha"),
    ]
    pods.append(labelled(calico_pod("c", "win", ready=False), k8s_app="calico-typha"))
    assert list(values(reads(pods).typha()).values()) == [
        "on win",
        "not on Windows",
        "not on Windows",
    ]
    with pytest.raises(NotAboutThisCluster, match="no Typha pod"):
        reads([]).typha()


def test_cordoned_and_kept_nodes_are_no_workers() -> None:
    more = (node("kept", "linux", control_plane=True, taints=TAINT), node("cordoned", "linux"))
    found = reads([], facts(more=more)).workers()
    assert values(found) == {"schedulable Linux workers": 2}
