# SPDX-License-Identifier: Apache-2.0
"""Nodes and system workloads that were Ready before a disruptive test are so after it, by owner and node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.disrupt.readiness import Readiness
from conformance.errors import EnvironmentBroken
from tests.unit.conformance.builders import Obj, a_pod

INFINITE = float("inf")


def node(name: str, status: str = "True") -> dict[str, Any]:
    ready = {"type": "Ready", "status": status, "reason": "KubeletNotReady", "message": "no CNI"}
    return {"metadata": {"name": name}, "spec": {}, "status": {"conditions": [ready]}}


@pytest.fixture
def cluster(cluster: Any) -> Any:
    """A Windows and a Linux node with a DaemonSet's pods, a Deployment's two, static and somebody's pods."""
    cluster.others = {("Node", name): node(name) for name in ("w1", "l1")}
    dns: Obj = {"labels": {"pod-template-hash": "5d78c"}, "namespace": "kube-system"}
    cluster.pods = [
        a_pod("proxy-w", "w1", owner="DaemonSet", namespace="kube-system"),
        a_pod("proxy-l", "l1", owner="DaemonSet", namespace="kube-system"),
        a_pod("dns-1", "l1", **dns), a_pod("dns-2", "l1", **dns),
        a_pod("etcd-l1", "l1", owner="Node", namespace="kube-system"),
        a_pod("web", "w1"), a_pod("mine", "w1", namespace="calico-demo-r1-main"),
        a_pod("ended", "l1", owner="Job", namespace="kube-system"),
    ]  # fmt: skip
    for name in ("dns-1", "dns-2"):
        of(cluster, name)["metadata"]["ownerReferences"][0]["name"] = "dns-5d78c"
    cluster.reach = SimpleNamespace(ended="", left=INFINITE)
    return cluster


def of(cluster: Any, name: str) -> Any:
    return next(pod for pod in cluster.pods if pod["metadata"]["name"] == name)


def away(cluster: Any, name: str) -> Any:
    pod = of(cluster, name)
    cluster.pods.remove(pod)
    return pod


def again(cluster: Any, name: str, node: str | None = None) -> None:
    """Under another name, and maybe elsewhere."""
    old = away(cluster, name)
    cluster.pods.append({
        **old, "metadata": {**old["metadata"], "name": f"{name}-new", "uid": f"new-{name}"},
        "spec": {**old["spec"], "nodeName": node or old["spec"]["nodeName"]},
    })  # fmt: skip


def unready(cluster: Any, name: str) -> None:
    of(cluster, name)["status"] = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "False"}],
    }


@pytest.fixture
def make(cluster: Any, clock: Any, tmp_path: Path) -> Callable[..., Readiness]:
    def make(worker: str = "gw0") -> Readiness:
        return Readiness(cluster, tmp_path / "ready", worker, within=30.0, every=1.0, clock=clock)

    return make


def test_what_came_back_under_other_names_is_ready_again(
    cluster: Any, make: Callable[..., Readiness]
) -> None:
    one = make()
    one.before()
    for name in ("proxy-w", "dns-1"):
        again(cluster, name)
    again(cluster, "dns-2", "w1")  # a Deployment's may run elsewhere
    for name in ("web", "mine", "ended"):  # nobody's system workload, the suite's own, a Job's
        away(cluster, name)
    one.after()


def test_it_is_waited_for(cluster: Any, clock: Any, make: Callable[..., Readiness]) -> None:
    one = make()
    one.before()
    lost, sleep = away(cluster, "proxy-w"), clock.sleep

    def passes(seconds: float) -> None:
        sleep(seconds)
        if clock.now > 10 and lost not in cluster.pods:
            cluster.pods.append(lost)

    clock.sleep = passes
    one.after()
    assert 10 < clock.now < 15


DIFFERS: dict[str, tuple[Callable[[Any], object], str]] = {
    "node": (
        lambda cluster: cluster.others.update({("Node", "w1"): node("w1", "False")}),
        "node w1 is not Ready: Ready False, KubeletNotReady: no CNI",
    ),
    "node-unknown": (
        lambda cluster: cluster.others.update({("Node", "l1"): node("l1", "Unknown")}),
        "node l1 is not Ready: Ready Un",
    ),
    "node-gone": (lambda cluster: cluster.others.pop(("Node", "w1")), "node w1 is gone"),
    "daemonset": (
        lambda cluster: away(cluster, "proxy-w"),
        "DaemonSet kube-system/owner on node w1 is gone",
    ),
    "daemonset-elsewhere": (
        lambda cluster: again(cluster, "proxy-w", "l1"),
        "DaemonSet kube-system/owner on node w1 is gone",
    ),
    "unready": (
        lambda cluster: unready(cluster, "proxy-w"),
        "DaemonSet kube-system/owner on node w1 is not Ready: pod kube-system/proxy-w",
    ),
    "deployment": (
        lambda cluster: unready(cluster, "dns-2"),
        "Deployment kube-system/dns is not Ready: pod kube-system/dns-2",
    ),
    "deployment-gone": (
        lambda cluster: [away(cluster, name) for name in ("dns-1", "dns-2")],
        "Deployment kube-system/dns is gone",
    ),
    "static": (
        lambda cluster: away(cluster, "etcd-l1"),
        "static pod kube-system/etcd-l1 on node l1 is gone",
    ),
}


@pytest.mark.parametrize("name", DIFFERS)
def test_what_differs_is_named(cluster: Any, make: Callable[..., Readiness], name: str) -> None:
    one, (differ, words) = make(), DIFFERS[name]
    one.before()
    differ(cluster)
    with pytest.raises(EnvironmentBroken) as told:
        one.after()
    assert "are not Ready again within 30 s: " in str(told.value)
    assert words in str(told.value)


def test_a_deployment_that_was_scaled_down_is_ready(
    cluster: Any, make: Callable[..., Readiness]
) -> None:
    one = make()
    one.before()
    away(cluster, "dns-2")
    one.after()


def test_a_workload_outside_system_namespaces_counts_by_its_priority(
    cluster: Any, make: Callable[..., Readiness]
) -> None:
    of(cluster, "web")["spec"]["priorityClassName"] = "system-cluster-critical"
    one = make()
    one.before()
    away(cluster, "web")
    with pytest.raises(EnvironmentBroken, match="ReplicaSet default/owner is gone"):
        one.after()


def test_what_was_not_ready_before_is_not_waited_for(
    cluster: Any, make: Callable[..., Readiness]
) -> None:
    unready(cluster, "proxy-w")
    cluster.others["Node", "l1"] = node("l1", "False")
    one = make()
    one.before()
    one.after()


@pytest.mark.parametrize("worker", ["gw0", "gw1"])
def test_what_a_test_left_whose_worker_died_keeps_the_next_one_from_beginning(
    cluster: Any, make: Callable[..., Readiness], worker: str
) -> None:
    make("gw0").before()  # and nothing after it
    away(cluster, "proxy-w")
    with pytest.raises(EnvironmentBroken, match="DaemonSet kube-system/owner on node w1"):
        make(worker).before()


def test_what_is_ready_again_is_no_matter_of_the_next_test(
    cluster: Any, make: Callable[..., Readiness]
) -> None:
    one = make()
    one.before()
    one.after()
    away(cluster, "proxy-w")
    make("gw1").before()
    make("gw1").after()


def test_nothing_is_asked_in_a_dry_run_nor_once_nobody_may_ask(
    cluster: Any, make: Callable[..., Readiness]
) -> None:
    one = make()
    one.before()
    away(cluster, "proxy-w")
    for reach in (SimpleNamespace(ended="401", left=INFINITE), SimpleNamespace(ended="", left=9.0)):
        cluster.reach = reach
        one.after()
    cluster.dry_run = True
    make("gw1").before()
    make("gw1").after()
