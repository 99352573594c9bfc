# SPDX-License-Identifier: Apache-2.0
"""Which pods a node takes, and why it takes no others."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.kube.node_conditions import boot_id, closed, may_take, not_ready, tolerated

Obj = dict[str, Any]
OS = {"key": "os", "value": "windows", "effect": "NoSchedule"}
DOWN = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}


def a_condition(kind: str, status: str) -> Obj:
    return {"type": kind, "status": status, "reason": "R", "message": "m"}


@pytest.mark.parametrize(
    ("conditions", "taints", "why"),
    [
        ([], [], ""),
        ([a_condition("Ready", "True")], [], ""),
        ([a_condition("Ready", "False")], [], "Ready False, R: m"),
        ([a_condition("Ready", "Unknown")], [DOWN], "Ready Unknown, R: m"),
        ([a_condition("MemoryPressure", "False")], [], ""),
        (
            [a_condition("MemoryPressure", "True"), a_condition("Ready", "False")],
            [],
            "Ready False, R: m",
        ),
        ([a_condition("Ready", "True")], [DOWN], "taint node.kubernetes.io/unreachable"),
        ([a_condition("Ready", "True")], [OS], ""),
        (
            [],
            [{"key": "node.kubernetes.io/not-ready"}, DOWN],
            "taint node.kubernetes.io/unreachable",
        ),
        (
            [],
            [{"key": "node.cloudprovider.kubernetes.io/shutdown"}],
            "taint node.cloudprovider.kubernetes.io/shutdown",
        ),
    ],
)
def test_a_node_is_not_ready_by_its_condition_or_by_a_taint_of_nodes_that_are_down(
    conditions: list[Obj], taints: list[Obj], why: str
) -> None:
    node = {"status": {"conditions": conditions}, "spec": {"taints": taints}}
    assert not_ready(node) == why


@pytest.mark.parametrize(
    ("node", "identity"), [({}, ""), ({"status": {"nodeInfo": {"bootID": "b-1"}}}, "b-1")]
)
def test_a_node_that_reports_no_boot_has_none(node: Obj, identity: str) -> None:
    assert boot_id(node) == identity


@pytest.mark.parametrize(
    ("taint", "tolerations", "may"),
    [
        (OS, [], False),
        (OS | {"effect": "PreferNoSchedule"}, [], True),
        (OS, [{"key": "os", "value": "windows", "effect": "NoSchedule"}], True),
        (OS, [{"key": "os", "value": "windows"}], True),
        (OS, [{"key": "os", "value": "linux"}], False),
        (OS, [{"key": "os"}], False),
        (OS, [{"key": "os", "operator": "Exists"}], True),
        (OS, [{"key": "os", "operator": "Exists", "effect": "NoExecute"}], False),
        (OS, [{"key": "arch", "operator": "Exists"}], False),
        (OS, [{"operator": "Exists"}], True),
        (OS, [{"operator": "Exists", "effect": "NoExecute"}], False),
        (DOWN, [{"key": "node.kubernetes.io/unreachable"}], True),
        (OS, [{"key": "arch"}, {"operator": "Exists"}], True),
    ],
)
def test_a_taint_is_tolerated_by_key_effect_and_value(
    taint: Obj, tolerations: list[Obj], may: bool
) -> None:
    assert tolerated(taint, tolerations) is may


@pytest.mark.parametrize(
    ("spec", "tolerations", "why"),
    [
        ({}, [], ""),
        ({"unschedulable": True}, [], "cordoned"),
        ({"unschedulable": True}, [{"operator": "Exists"}], ""),
        ({"unschedulable": True, "taints": [OS]}, [], "cordoned"),
        ({"taints": [OS]}, [], "tainted os=windows:NoSchedule"),
        ({"taints": [DOWN]}, [], "tainted node.kubernetes.io/unreachable=:NoExecute"),
        (
            {"taints": [OS, DOWN]},
            [{"key": "os", "operator": "Exists"}],
            "tainted node.kubernetes.io/unreachable=:NoExecute",
        ),
        ({"taints": [OS]}, [{"key": "os", "operator": "Exists"}], ""),
    ],
)
def test_a_node_takes_no_pods_that_do_not_tolerate_its_cordon_and_every_taint(
    spec: Obj, tolerations: list[Obj], why: str
) -> None:
    assert closed({"spec": spec}, tolerations) == why


def required(*terms: list[str]) -> Obj:
    """The affinity of a pod that requires nodes by name, as DaemonSets write it."""
    fields = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": names}]}
        for names in terms
    ]
    selector = {"nodeSelectorTerms": fields}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}


@pytest.mark.parametrize(
    ("spec", "may"),
    [
        ({}, True),
        ({"nodeSelector": {"os": "windows"}}, True),
        ({"nodeSelector": {"os": "linux"}}, False),
        ({"nodeSelector": {"os": "windows", "zone": "a"}}, False),
        ({"affinity": required(["w1"])}, True),
        ({"affinity": required(["w2"])}, False),
        ({"affinity": required(["w2"], ["w1"])}, True),
        ({"affinity": {"nodeAffinity": {}}}, True),
        ({"affinity": required(["w1"]), "nodeSelector": {"os": "linux"}}, False),
    ],
)
def test_a_pod_may_run_by_its_node_selector_and_the_names_that_it_requires(
    spec: Obj, may: bool
) -> None:
    node = {"metadata": {"name": "w1", "labels": {"os": "windows", "arch": "amd64"}}}
    assert may_take(node, spec) is may
