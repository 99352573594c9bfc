# SPDX-License-Identifier: Apache-2.0
"""Nodes that die in the middle of a run: which signs show it, which do not, and when no other
cause is possible."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from conformance.errors import SuiteError
from conformance.facts.detect import node_facts
from conformance.kube.reach import Reach
from conformance.pods.nodes_gone import gone
from conformance.pods.nodes_lost import NodeWatch
from conformance.settings import Toleration

NOW = datetime.datetime(2026, 11, 24, 12, tzinfo=datetime.UTC)
READY = ("True", "KubeletReady", "kubelet is posting ready status")
SILENT = ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
UNHEALTHY = ("False", "KubeletNotReady", "PLEG is not healthy")
NO_NETWORK = (
    "False", "KubeletNotReady",
    "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:cni not initialized",
)  # fmt: skip


class Cluster:
    """Nodes with their conditions, taints, boot ids, and how old their leases are."""

    def __init__(self, **nodes: dict[str, Any]) -> None:
        self.nodes = nodes
        self.requests: list[str] = []
        self.lists_nodes = True

    def find(self, api: str, kind: str, name: str) -> dict[str, Any] | None:
        self.requests.append(name)
        return self._node(name)

    def _node(self, name: str) -> dict[str, Any] | None:
        if name not in self.nodes:
            return None
        node = self.nodes[name]
        status, reason, message = node.get("ready", READY)
        condition = {"type": "Ready", "status": status, "reason": reason, "message": message}
        taints = [
            dict(zip(("key", "effect"), text.split(":"), strict=False))
            for text in node.get("taints", ())
        ]
        info = {"bootID": node.get("boot", "b1")}
        return {
            "metadata": {
                "name": name,
                "uid": node.get("uid", "u1"),
                "creationTimestamp": "2026-11-24T12:00:00Z",
            },
            "spec": {"taints": taints, "unschedulable": node.get("cordoned", False)},
            "status": {"conditions": [condition], "nodeInfo": info},
        }

    def objects(self, api: str, kind: str, space: str = "") -> list[dict[str, Any]]:
        if kind == "Node":
            self.requests.append("all")
            if not self.lists_nodes:
                raise SuiteError("forbidden")
            return [node for name in self.nodes if (node := self._node(name))]
        return [
            {
                "metadata": {"name": name},
                "spec": {
                    "renewTime": (NOW - datetime.timedelta(seconds=node.get("age", 0)))
                    .isoformat()
                    .replace("+00:00", "Z")
                },
            }
            for name, node in self.nodes.items()
        ]


def lost(node: dict[str, Any], **behind: float) -> str:
    """What is said of two nodes of which one is like that by now; ``behind``: s that a node's clock is behind."""
    clocks = {name: {"age": behind.get(name, 0.0)} for name in ("one", "two")}
    cluster: Any = Cluster(**clocks)
    watch = NodeWatch(cluster, [node_facts(cluster.find("v1", "Node", name)) for name in clocks])
    cluster.nodes["one"] = {**node, "age": node.get("age", 0.0) + behind.get("one", 0.0)}
    found = watch.lost(["one", "two"])
    return str(found).partition("\n")[0] if found else ""


@pytest.mark.parametrize(
    ("node", "says"),
    [
        ({"ready": SILENT}, "Ready Unknown, NodeStatusUnknown: Kubelet stopped posting node status."),
        ({"ready": UNHEALTHY}, "Ready False, KubeletNotReady: PLEG is not healthy"),
        ({"taints": ["node.kubernetes.io/unreachable"]}, "taint node.kubernetes.io/unreachable"),
        ({"taints": ["node.kubernetes.io/out-of-service"]}, "taint node.kubernetes.io/out-of-service"),
        ({"taints": ["node.cloudprovider.kubernetes.io/shutdown"]}, "taint node.cloudprovider.kubernetes.io/shutdown"),
        ({"taints": ["drain:NoExecute"]}, "taint drain:NoExecute, which its pods do not tolerate"),
        ({"uid": "u2"}, "it was deleted, and created again at 2026-11-24T12:00:00Z (UID u2)"),
        ({"boot": "b2"}, "it was rebooted (boot ID b2 now, b1 when the run began)"),
        ({"age": 55}, "its kubelet has not renewed its lease for 55 s, but kubelets of other nodes have"),
    ],
)  # fmt: skip
def test_a_node_that_died_is_named_with_what_says_so(node: dict[str, Any], says: str) -> None:
    assert lost(node) == f"node one was lost during the run: {says}"


@pytest.mark.parametrize(
    ("others", "lists", "requests"),
    [(2, True, ["all"]), (3, True, ["one", "two"]), (0, False, ["all", "one", "two"])],
)
def test_nodes_are_read_by_one_request_where_the_cluster_has_few_others(
    others: int, requests: list[str], *, lists: bool
) -> None:
    cluster: Any = Cluster(**{name: {} for name in ("one", "two", *map(str, range(others)))})
    known = [node_facts(cluster.find("v1", "Node", name)) for name in cluster.nodes]
    watch = NodeWatch(cluster, known)
    cluster.nodes["two"] = {"boot": "b2"}
    cluster.requests, cluster.lists_nodes = [], lists
    assert watch.lost_among(["one", "two"]).keys() == {"two"}
    assert cluster.requests == requests


@pytest.mark.parametrize(
    "node",
    [{}, {"age": 30}, {"taints": ["os", "node.kubernetes.io/unschedulable"]},
     {"taints": ["CriticalAddonsOnly:NoExecute", "drain:NoSchedule"]}],
)  # fmt: skip
def test_a_node_that_lives_is_not(node: dict[str, Any]) -> None:
    assert lost(node) == ""


@pytest.mark.parametrize(
    ("node", "says"),
    [
        ({}, ""), ({"taints": ["CriticalAddonsOnly:NoExecute"]}, ""),
        ({"cordoned": True}, ", and node one is cordoned"),
        ({"taints": ["drain:NoSchedule"]}, ", and node one is tainted drain=:NoSchedule"),
    ],
)  # fmt: skip
def test_a_node_that_takes_no_more_pods_is_told_with_why(node: dict[str, Any], says: str) -> None:
    cluster: Any = Cluster(one=node)
    assert NodeWatch(cluster).closed("one") == (
        f"{says}: whoever drains it evicts its pods" if says else ""
    )
    assert NodeWatch(cluster).closed("another") == ""


def test_a_taint_that_the_run_was_told_to_tolerate_takes_nothing_away() -> None:
    cluster: Any = Cluster(one={"taints": ["drain:NoExecute"]})
    assert NodeWatch(cluster, tolerated=(Toleration(key="drain"),)).lost(["one"]) is None


@pytest.mark.parametrize(
    "behind", [{"one": 120.0, "two": 120.0}, {"one": 120.0}, {"two": 120.0}, {"one": -120.0}]
)
def test_clocks_that_differ_say_nothing_and_hide_nothing(behind: dict[str, float]) -> None:
    """Of all nodes behind the judge's, or of one of them behind or before the other's."""
    assert lost({}, **behind) == ""
    assert "has not renewed its lease for 55 s" in lost({"age": 55}, **behind)


@pytest.mark.parametrize(
    ("age", "silent"), [(0, []), (11, []), (13, ["one"]), (40, ["one"]), (41, [])]
)
@pytest.mark.parametrize("behind", [0.0, 120.0])
def test_a_kubelet_that_has_missed_a_renewal_is_silent_until_its_node_is_known_to_be_lost(
    age: float, silent: list[str], behind: float
) -> None:
    cluster: Any = Cluster(one={"age": behind}, two={})
    watch = NodeWatch(cluster)
    cluster.nodes["one"] = {"age": behind + age}
    assert watch.silent(["one", "two", "three"]) == silent
    assert bool(watch.lost(["one"])) == (age > 40)


@pytest.mark.parametrize(
    ("node", "changed"), [({"ready": NO_NETWORK}, False), ({"ready": SILENT}, True)]
)
def test_calicos_own_doing_and_the_runs_are_nobody_elses(
    node: dict[str, Any], changed: bool
) -> None:
    cluster: Any = Cluster(one=node)
    watch = NodeWatch(cluster, (), lambda name: changed)
    assert watch.lost(["one"]) is None
    assert watch.unwell(["one"]).startswith(
        f"node one is unwell: Ready {node['ready'][0]}, {node['ready'][1]}"
    )


def test_who_may_read_neither_nodes_nor_leases_knows_nothing() -> None:
    cluster: Any = Cluster()
    assert NodeWatch(cluster).lost(["one"]) is None


@pytest.mark.parametrize(("lost", "ends"), [(["one"], False), (["one", "two"], True)])
def test_the_run_ends_once_no_node_of_any_windows_build_is_left(
    tmp_path: Path, lost: list[str], ends: bool
) -> None:
    cluster: Any = Cluster(
        **{name: {"ready": SILENT} if name in lost else {} for name in ("one", "two", "linux")}
    )
    cluster.reach = Reach(tmp_path)
    assert NodeWatch(cluster, (), windows=("one", "two")).lost(["linux", "one"])
    said = "no Windows node is left: node one was lost during the run: Ready Unknown, NodeStatusUnknown"
    assert cluster.reach.ended.startswith(said) if ends else not cluster.reach.ended


@pytest.mark.parametrize("by_list", [True, False])
def test_a_node_that_went_away_is_noticed_by_one_list_as_by_single_reads(*, by_list: bool) -> None:
    cluster: Any = Cluster(one={}, two={"taints": ["karpenter.sh/disrupted:NoSchedule"]})
    assert gone(cluster, ["one"], by_list=by_list) is None
    assert "Karpenter is removing it" in str(gone(cluster, ["one", "two"], by_list=by_list))
    del cluster.nodes["one"]
    assert "node one was removed" in str(gone(cluster, ["one"], by_list=by_list))
    assert cluster.requests == (["all"] * 3 if by_list else ["one", "one", "two", "one"])
