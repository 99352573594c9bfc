# SPDX-License-Identifier: Apache-2.0
"""Pods of other people's DaemonSets that lose their network are named, noted before it, and made anew after it."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.disrupt.third_party import ThirdPartyPods
from conformance.errors import EnvironmentBroken
from conformance.journal.journalling import Plainly
from conformance.pods.third_party import MIRROR, label, networked, third_party_pods
from conformance.run.clusters import _third_party_pods as named_beforehand
from tests.unit.conformance.builders import a_node, a_pod, a_windows_node, some_facts
from tests.unit.conformance.disrupt.test_procedure import Hosts, procedure, words


@pytest.fixture
def cluster(cluster: Any) -> Any:
    """With a logging DaemonSet on the node, and others that nothing happens to."""
    on_host = a_pod("on-host", "w1", owner="DaemonSet", namespace="ops")
    on_host["spec"]["securityContext"] = {"windowsOptions": {"hostProcess": True}}
    host_network = a_pod("host-network", "w1", owner="DaemonSet", namespace="ops")
    host_network["spec"]["hostNetwork"] = True
    own = a_pod(
        "host-windows-host-1", "w1", owner="DaemonSet", namespace="calico-demo-r1-main-host"
    )
    cluster.pods += [
        a_pod("logs", "w1", owner="DaemonSet", namespace="ops"),
        a_pod("logs-2", "w2", owner="DaemonSet", namespace="ops"),
        on_host, host_network, own,
    ]  # fmt: skip
    felix = next(pod for pod in cluster.pods if pod["metadata"]["name"] == "felix-w")
    felix["spec"]["securityContext"] = {"windowsOptions": {"hostProcess": True}}
    return cluster


def test_they_are_those_of_daemonsets_with_a_pod_network_that_are_not_the_suites(
    cluster: Any,
) -> None:
    assert [label(pod) for pod in third_party_pods(cluster, "w1")] == ["ops/logs"]


def test_those_of_all_nodes_are_read_by_one_list(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, str]] = []
    objects = cluster.objects

    def counting(api: str, kind: str, *way: str, **how: str) -> Any:
        asked.append(how)
        return objects(api, kind, *way, **how)

    monkeypatch.setattr(cluster, "objects", counting)
    three = some_facts(*(a_windows_node(name) for name in ("w1", "w2", "w3")))
    assert named_beforehand(cluster, three) == {"w1": ("ops/logs",), "w2": ("ops/logs-2",)}
    assert asked == [{}], "one list for all nodes"
    assert named_beforehand(cluster, some_facts(a_node())) == {}
    assert len(asked) == 1, "without Windows nodes nothing is read"


def test_the_procedure_has_them_made_anew_once_the_network_is(
    cluster: Any, patience: Any, clock: Any
) -> None:
    procedure(cluster, patience, clock, Hosts(cluster.log)).new_network("w1")
    assert words(cluster) == [
        "cordon", "evict web", "evict web-2", "remove HNS network of w1", "delete felix-w", "delete logs", "uncordon",
    ]  # fmt: skip


def test_they_are_noted_before_the_removal_and_until_they_are_back(
    cluster: Any, patience: Any, clock: Any
) -> None:
    theirs = ThirdPartyPods(cluster, cluster, patience, clock=clock)
    entry, pods = theirs.note("w1")
    assert cluster.noted == [
        "daemonset-pods {'node': 'w1', 'pods': [{'namespace': 'ops', 'name': 'logs', 'uid': 'uid-logs'}]}"
    ]
    assert cluster.log == []
    theirs.renewed("w1", entry, pods)
    assert cluster.noted == []
    assert cluster.log == ["delete logs"]


def test_what_was_made_anew_meanwhile_is_left_alone(
    cluster: Any, patience: Any, clock: Any
) -> None:
    pods = [{"namespace": "ops", "name": "logs", "uid": "an-older-one"}]
    ThirdPartyPods(cluster, Plainly(cluster), patience, clock=clock).renew("w1", pods)
    assert cluster.log == []


@pytest.mark.parametrize("name", ["logs-2", "web"], ids=["on-another-node", "of-a-Deployment"])
def test_what_no_daemonset_makes_anew_on_the_node_is_left_alone(
    cluster: Any, patience: Any, clock: Any, name: str
) -> None:
    found = cluster.find("v1", "Pod", name)
    pods = [
        {"namespace": found["metadata"]["namespace"], "name": name, "uid": found["metadata"]["uid"]}
    ]
    ThirdPartyPods(cluster, Plainly(cluster), patience, clock=clock).renew("w1", pods)
    assert cluster.log == []


def test_one_that_does_not_come_back_is_told(cluster: Any, patience: Any, clock: Any) -> None:
    cluster.brought_back = lambda old, number: None
    theirs = ThirdPartyPods(cluster, cluster, patience, clock=clock)
    with pytest.raises(EnvironmentBroken, match=r"not back within 15 s: no successor of ops/logs"):
        theirs.renewed("w1", *theirs.note("w1"))
    assert len(cluster.noted) == 1, "what is not back is to be healed"


def test_a_static_pod_has_no_network_to_lose() -> None:
    assert networked(a_pod("web"))
    assert not networked(a_pod("web", annotations={MIRROR: "a-digest"}))
