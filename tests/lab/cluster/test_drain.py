# SPDX-License-Identifier: Apache-2.0
"""Cordon, drain and uncordon as kubectl does them: evictions obey budgets, DaemonSet pods stay,
and no new pod arrives."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pytest

from tests.lab.lab_process import RunningLab, running_lab, until

pytestmark = [
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH"),
    pytest.mark.xdist_group("drain"),
]

NODE = "windows-2022"
WORKLOAD = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {kubernetes.io/os: windows}
      tolerations: [{operator: Exists, effect: NoSchedule, key: os}]
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: "registry.k8s.io/e2e-test-images/agnhost:2.53", args: [pause]}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: default}
spec: {minAvailable: 4, selector: {matchLabels: {app: web}}}
"""
DRAIN = ("drain", NODE, "--ignore-daemonsets", "--timeout=20s")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    with running_lab(tmp_path_factory.mktemp("drain")) as running:
        running.kubectl("apply", "-f", "-", stdin=WORKLOAD)
        running.kubectl("rollout", "status", "deployment/web", "--timeout=30s")
        yield running


def pods_on(lab: RunningLab, node: str) -> dict[str, str]:
    """Name to the kind of its owner, of what runs on a node."""
    every = ("get", "pods", "-A", f"--field-selector=spec.nodeName={node}", "-o", "json")
    items = json.loads(lab.kubectl(*every).stdout)["items"]
    return {
        item["metadata"]["name"]: item["metadata"].get("ownerReferences", [{"kind": "none"}])[0][
            "kind"
        ]
        for item in items
    }


def ready(lab: RunningLab) -> int:
    said = lab.kubectl("get", "deployment", "web", "-o", "jsonpath={.status.readyReplicas}").stdout
    return int(said or 0)


def test_a_drain_waits_for_the_budget_and_then_empties_the_node(lab: RunningLab) -> None:
    before = pods_on(lab, NODE)
    web = {name for name, owner in before.items() if owner == "ReplicaSet"}
    assert web
    refused = lab.kubectl("drain", NODE, "--ignore-daemonsets", "--timeout=2s", check=False)
    assert refused.returncode
    assert "Cannot evict pod as it would violate the pod's disruption budget." in refused.stderr
    assert pods_on(lab, NODE) == before

    lab.kubectl(
        "patch", "poddisruptionbudget", "web", "--type=merge", "-p", '{"spec":{"minAvailable":3}}'
    )
    lab.kubectl(*DRAIN)
    left = pods_on(lab, NODE)
    assert set(left.values()) == {"DaemonSet"}
    assert set(left) == {name for name, owner in before.items() if owner == "DaemonSet"}
    until(lambda: ready(lab) == 4)
    assert set(pods_on(lab, NODE).values()) == {"DaemonSet"}, (
        "nothing new arrives on a cordoned node"
    )

    lab.kubectl("uncordon", NODE)
    lab.kubectl("scale", "deployment/web", "--replicas=10")
    until(lambda: ready(lab) == 10)
    assert "ReplicaSet" in pods_on(lab, NODE).values()


def test_a_cordoned_node_says_so(lab: RunningLab) -> None:
    lab.kubectl("cordon", NODE)
    until(
        lambda: (
            "node.kubernetes.io/unschedulable"
            in lab.kubectl("get", "node", NODE, "-o", "json").stdout
        )
    )
    lab.kubectl("uncordon", NODE)
    until(
        lambda: (
            "node.kubernetes.io/unschedulable"
            not in lab.kubectl("get", "node", NODE, "-o", "json").stdout
        )
    )
