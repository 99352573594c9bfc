# SPDX-License-Identifier: Apache-2.0
"""What the scheduler's filters say, word for word."""

from __future__ import annotations

from typing import Any

import pytest

from hybridlab.controllers.fit import Cluster, NodeState, PodNeeds, explain
from hybridlab.controllers.nodes import node_object
from hybridlab.profiles.load import load
from hybridlab.profiles.machines import machines
from tests.unit.hybridlab.builders import a_pod


def default_cluster() -> Cluster:
    profile = load("default")
    cluster = Cluster()
    for machine in machines(profile):
        cluster.nodes[machine.name] = NodeState(node_object(machine, profile, {}))
    return cluster


def refusal(cluster: Cluster, **spec: Any) -> str:
    needs = PodNeeds.of(a_pod(**spec))
    return explain(
        [why for state in cluster.nodes.values() if (why := cluster.why_not(needs, state))]
    )


def places(cluster: Cluster, **spec: Any) -> set[str]:
    needs = PodNeeds.of(a_pod(**spec))
    return {name for name, state in cluster.nodes.items() if cluster.why_not(needs, state) is None}


def occupy(cluster: Cluster, node: str, uid: str, **spec: Any) -> None:
    made = a_pod(uid, **spec)
    made["metadata"]["uid"] = uid
    cluster.nodes[node].add(PodNeeds.of(made))


def test_the_message_names_every_reason_with_its_count_in_order() -> None:
    assert refusal(default_cluster(), nodeSelector={"kubernetes.io/os": "windows"}) == (
        "0/6 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, "
        "2 node(s) had untolerated taint {os: windows}, 3 node(s) didn't match Pod's node affinity/selector. "
        "preemption: 0/6 nodes are available: 6 Preemption is not helpful for scheduling."
    )


def test_a_full_node_may_be_helped_by_preemption_and_says_so() -> None:
    cluster = default_cluster()
    for name in ("linux-1", "linux-2", "linux-3"):
        cluster.nodes[name].node["status"]["allocatable"]["pods"] = "0"
    assert "3 Too many pods" in refusal(cluster)
    assert "3 No preemption victims found for incoming pod, 3 Preemption is not helpful" in refusal(
        cluster
    )


def test_a_pod_without_tolerations_goes_to_linux_workers_only() -> None:
    assert places(default_cluster()) == {"linux-1", "linux-2", "linux-3"}


def test_tolerating_everything_reaches_every_node() -> None:
    assert len(places(default_cluster(), tolerations=[{"operator": "Exists"}])) == 6


def test_a_cordoned_node_is_out_unless_that_is_tolerated() -> None:
    cluster = default_cluster()
    cluster.nodes["linux-1"].node["spec"]["unschedulable"] = True
    assert places(cluster) == {"linux-2", "linux-3"}
    tolerant = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
    assert "linux-1" in places(cluster, tolerations=tolerant)


def test_the_windows_build_selects_one_windows_node() -> None:
    chosen = places(
        default_cluster(),
        nodeSelector={"node.kubernetes.io/windows-build": "10.0.17763"},
        tolerations=[{"key": "os", "value": "windows", "effect": "NoSchedule"}],
    )
    assert chosen == {"windows-2019"}


def test_requests_add_up_until_a_node_has_no_room() -> None:
    cluster = default_cluster()
    occupy(cluster, "linux-1", "a", container={"resources": {"requests": {"cpu": "7500m"}}})
    asked = {"resources": {"limits": {"cpu": "501m"}}}
    assert places(cluster, container=asked) == {"linux-2", "linux-3"}
    assert "Insufficient cpu" in refusal(
        cluster, container={"resources": {"requests": {"cpu": "9"}}}
    )


def test_a_host_port_is_given_once_per_node() -> None:
    cluster = default_cluster()
    port = {"ports": [{"containerPort": 80, "hostPort": 8080}]}
    occupy(cluster, "linux-1", "a", container=port)
    assert places(cluster, container=port) == {"linux-2", "linux-3"}


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_affinity_between_pods_is_refused_by_name(kind: str) -> None:
    cluster = default_cluster()
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
    asked = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert places(cluster, labels={"app": "x"}, affinity=asked) == set()


def test_a_removed_pod_frees_what_it_had() -> None:
    cluster = default_cluster()
    port = {
        "ports": [{"containerPort": 80, "hostPort": 8080}],
        "resources": {"requests": {"cpu": "8"}},
    }
    occupy(cluster, "linux-1", "a", container=port)
    cluster.nodes["linux-1"].remove("a")
    assert "linux-1" in places(cluster, container=port)
