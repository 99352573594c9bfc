# SPDX-License-Identifier: Apache-2.0
"""kube-proxy on a Windows node starts anew: its pod is deleted, and the next one is waited for."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.disrupt.kube_proxy import KubeProxy
from conformance.errors import EnvironmentBroken
from tests.unit.conformance.builders import a_pod


def test_its_pod_on_that_node_is_made_anew(cluster: Any, patience: Any, clock: Any) -> None:
    labels = {"k8s-app": "kube-proxy-windows"}
    for node in ("w1", "w2"):
        cluster.pods.append(
            a_pod(f"proxy-{node}", node, owner="DaemonSet", namespace="kube-system", labels=labels)
        )
    KubeProxy(cluster, cluster, patience, clock=clock).restart("w1")
    assert cluster.log == ["delete proxy-w1"]


def test_one_that_does_not_come_back_or_runs_in_no_pod_is_told(
    cluster: Any, patience: Any, clock: Any
) -> None:
    with pytest.raises(EnvironmentBroken, match="restart the service kube-proxy on the node"):
        KubeProxy(cluster, cluster, patience, clock=clock).restart("w1")
    labels = {"k8s-app": "kube-proxy"}
    cluster.pods.append(
        a_pod("proxy", "w1", owner="DaemonSet", namespace="kube-system", labels=labels)
    )
    cluster.brought_back = lambda old, number: None
    with pytest.raises(
        EnvironmentBroken, match="kube-proxy on node w1 is not back within 15 s: no pod"
    ):
        KubeProxy(cluster, cluster, patience, clock=clock).restart("w1")
