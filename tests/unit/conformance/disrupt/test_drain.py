# SPDX-License-Identifier: Apache-2.0
"""A drain evicts what comes back elsewhere, waits for budgets and for the pods' end, and refuses what would be lost."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.disrupt.drain import Drain
from conformance.errors import EnvironmentBroken, MissingCapability
from conformance.journal.journalling import Plainly
from conformance.kube.refused import ApiRefused
from tests.unit.conformance.builders import a_pod


def drain(cluster: Any, patience: Any, clock: Any) -> Drain:
    return Drain(cluster, Plainly(cluster), patience, clock=clock)


def refused(code: int) -> ApiRefused:
    return ApiRefused(
        code, "Refused", "the disruption budget web needs 1 healthy pod", "POST eviction"
    )


def evictions(cluster: Any) -> list[str]:
    return [line for line in cluster.log if line.startswith("evict")]


def test_it_cordons_first_and_evicts_what_has_a_controller_and_nothing_else(
    cluster: Any, patience: Any, clock: Any
) -> None:
    mirror = a_pod("static", "w1", owner="Node")
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    cluster.pods.append(mirror)
    assert drain(cluster, patience, clock).drain("w1") == ["default/web", "default/web-2"]
    assert "'unschedulable': True" in cluster.log[0]
    assert cluster.log[1:] == ["evict web", "evict web-2"]
    assert {pod["metadata"]["name"] for pod in cluster.pods} == {
        "felix-w",
        "felix-l",
        "elsewhere",
        "over",
        "static",
    }


def test_a_pod_without_a_controller_is_refused_before_anything_is_changed(
    cluster: Any, patience: Any, clock: Any
) -> None:
    cluster.pods.append(a_pod("mine", "w1", owner=""))
    with pytest.raises(
        MissingCapability, match=r"node w1 cannot be drained: .*default/mine; .*--disruptive-node"
    ):
        drain(cluster, patience, clock).drain("w1")
    assert cluster.log == []


def test_data_in_a_pods_emptydir_is_lost_only_with_leave(
    cluster: Any, patience: Any, clock: Any
) -> None:
    holding = a_pod("cache", "w1")
    holding["spec"]["volumes"] = [
        {"name": "config", "configMap": {}},
        {"name": "scratch", "emptyDir": {}},
    ]
    cluster.pods.append(holding)
    words = r"node w1 cannot be drained: the data in emptyDir .* default/cache; .*--delete-emptydir-data"
    with pytest.raises(MissingCapability, match=words):
        drain(cluster, patience, clock).drain("w1")
    assert cluster.log == []
    Drain(cluster, Plainly(cluster), patience, lose_data=True, clock=clock).drain("w1")
    assert "evict cache" in cluster.log


def test_each_pod_ends_in_its_own_grace_period(cluster: Any, patience: Any, clock: Any) -> None:
    drain(cluster, patience, clock).drain("w1")
    uids = ["uid-web", "uid-web-2"]
    assert cluster.evictions == [{"deleteOptions": {"preconditions": {"uid": uid}}} for uid in uids]


def test_a_pod_that_takes_longer_to_end_than_a_drain_waits_is_named_before_anything_is_changed(
    cluster: Any, patience: Any, clock: Any
) -> None:
    slow = a_pod("slow", "w1")
    slow["spec"]["terminationGracePeriodSeconds"] = 30
    cluster.pods.append(slow)
    drain(cluster, patience, clock).possible("w1")
    slow["spec"]["terminationGracePeriodSeconds"] = 31
    words = r"node w1 cannot be drained: these pods take longer to end than the 30 s .*: default/slow; give the drain more"
    with pytest.raises(MissingCapability, match=words):
        drain(cluster, patience, clock).drain("w1")
    assert cluster.log == []


@pytest.mark.parametrize("owner", ["DaemonSet", "ReplicaSet"])
def test_that_is_so_of_daemonsets_pods_that_would_be_made_anew_and_not_of_what_stays(
    cluster: Any, patience: Any, clock: Any, owner: str
) -> None:
    slow = a_pod("slow", "w1", owner=owner)
    slow["spec"] |= {"terminationGracePeriodSeconds": 600}
    cluster.pods.append(slow)
    with pytest.raises(MissingCapability, match="default/slow"):
        drain(cluster, patience, clock).possible("w1")
    slow["spec"]["hostNetwork"] = True
    drain(cluster, patience, clock).possible("w1")


def by_affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}
    }
    return {"affinity": {"nodeAffinity": required}}


def named(*nodes: str, key: str = "metadata.name", operator: str = "In") -> dict[str, Any]:
    where = "matchFields" if key == "metadata.name" else "matchExpressions"
    return {where: [{"key": key, "operator": operator, "values": list(nodes)}]}


UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
RETURNS: dict[str, dict[str, Any]] = {
    "everything": {"tolerations": [{"operator": "Exists"}]},
    "every-key": {"tolerations": [{"operator": "Exists", "effect": "NoSchedule"}]},
    "every-key-written-out": {
        "tolerations": [{"key": "", "operator": "Exists", "value": "", "effect": ""}]
    },
    "the-key": {"tolerations": [{"key": UNSCHEDULABLE, "operator": "Exists"}]},
    "the-key-and-effect": {
        "tolerations": [{"key": UNSCHEDULABLE, "operator": "Exists", "effect": "NoSchedule"}]
    },
    "equal": {
        "tolerations": [
            {"key": UNSCHEDULABLE, "operator": "Equal", "value": "", "effect": "NoSchedule"}
        ]
    },
    "equal-by-default": {"tolerations": [{"key": UNSCHEDULABLE}]},
    "beside-others": {"tolerations": [{"key": "os", "value": "windows"}, {"operator": "Exists"}]},
    "hostname": {"nodeSelector": {"kubernetes.io/hostname": "w1"}},
    "affinity-to-the-name": by_affinity(named("w1")),
    "affinity-to-the-hostname": by_affinity(named("w1", key="kubernetes.io/hostname")),
    "affinity-in-each-term": by_affinity(named("w1"), named("w1", key="kubernetes.io/hostname")),
}
GOES_ELSEWHERE: dict[str, dict[str, Any]] = {
    "nothing": {},
    "os-alone": {
        "tolerations": [
            {"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"}
        ]
    },
    "no-execute": {"tolerations": [{"operator": "Exists", "effect": "NoExecute"}]},
    "another-value": {"tolerations": [{"key": UNSCHEDULABLE, "operator": "Equal", "value": "x"}]},
    "another-key": {"tolerations": [{"key": "os", "operator": "Exists"}]},
    "selector": {"nodeSelector": {"kubernetes.io/os": "windows"}},
    "two-names": by_affinity(named("w1", "w2")),
    "one-term-of-two": by_affinity(named("w1"), named("windows", key="kubernetes.io/os")),
    "not-the-other": by_affinity(named("w2", key="kubernetes.io/hostname", operator="NotIn")),
}


@pytest.mark.parametrize("name", RETURNS)
def test_a_pod_of_another_owner_that_would_come_back_is_named_before_anything_is_changed(
    cluster: Any, patience: Any, clock: Any, name: str
) -> None:
    theirs = a_pod("shop", "w1")
    theirs["spec"] |= RETURNS[name]
    cluster.pods.append(theirs)
    words = r"^node w1 cannot be drained: these pods of other owners would come back although the node is cordoned: default/shop \("
    with pytest.raises(MissingCapability, match=words):
        drain(cluster, patience, clock).refuse_returning("w1")
    assert cluster.log == []


@pytest.mark.parametrize("name", GOES_ELSEWHERE)
def test_one_that_goes_elsewhere_or_waits_is_no_reason(
    cluster: Any, patience: Any, clock: Any, name: str
) -> None:
    theirs = a_pod("shop", "w1")
    theirs["spec"] |= GOES_ELSEWHERE[name]
    cluster.pods.append(theirs)
    drain(cluster, patience, clock).refuse_returning("w1")


@pytest.mark.parametrize("known", ["by its owner", "by its maker"])
def test_a_pod_whose_owner_names_its_node_would_come_back(
    cluster: Any, patience: Any, clock: Any, known: str
) -> None:
    theirs = a_pod("shop", "w1")
    cluster.pods.append(theirs)
    if known == "by its owner":
        cluster.others["ReplicaSet", "owner"] = {"spec": {"template": {"spec": {"nodeName": "w1"}}}}
    else:
        theirs["metadata"]["managedFields"] = [{"fieldsV1": {"f:spec": {"f:nodeName": {}}}}]
    with pytest.raises(
        MissingCapability, match=r"default/shop \(ReplicaSet owner names the node\)"
    ):
        drain(cluster, patience, clock).refuse_returning("w1")


def test_an_owner_that_may_not_be_read_is_no_reason(
    cluster: Any, patience: Any, clock: Any
) -> None:
    def find(*_: Any) -> None:
        raise refused(403)

    cluster.find = find
    drain(cluster, patience, clock).refuse_returning("w1")


@pytest.mark.parametrize("own", [{"namespace": "calico-demo-r1-main"}, {"labels": {
    "app.kubernetes.io/managed-by": "calico-windows-conformance"}}])  # fmt: skip
def test_the_suites_own_may_come_back(
    cluster: Any, patience: Any, clock: Any, own: dict[str, Any]
) -> None:
    mine = a_pod("client", "w1", **own)
    mine["spec"]["tolerations"] = [{"operator": "Exists"}]
    cluster.pods.append(mine)
    drain(cluster, patience, clock).refuse_returning("w1")


def test_a_dry_run_lists_nothing_again(cluster: Any, patience: Any, clock: Any) -> None:
    cluster.dry_run = True
    assert drain(cluster, patience, clock).emptied("w1") == []


def test_a_budget_that_forbids_it_is_waited_for(cluster: Any, patience: Any, clock: Any) -> None:
    cluster.refuse["web"] = [refused(429), refused(429)]
    drain(cluster, patience, clock).drain("w1")
    assert evictions(cluster) == ["evict web", "evict web", "evict web", "evict web-2"]
    assert clock.now == pytest.approx(2 * patience.evict_again, abs=2.0)


@pytest.mark.parametrize("code", [500, 503])
def test_an_error_of_the_server_s_own_is_tried_again(
    cluster: Any, patience: Any, clock: Any, code: int
) -> None:
    cluster.refuse["web"] = [refused(code), refused(code)]
    drain(cluster, patience, clock).drain("w1")
    assert evictions(cluster) == ["evict web", "evict web", "evict web", "evict web-2"]


def test_a_server_that_refuses_to_the_end_breaks_the_environment(
    cluster: Any, patience: Any, clock: Any
) -> None:
    cluster.refuse["web"] = [refused(500) for _ in range(1000)]
    with pytest.raises(
        EnvironmentBroken,
        match=r"node w1 was not drained within .* the eviction of pod default/web was refused",
    ):
        drain(cluster, patience, clock).drain("w1")


def test_a_refusal_of_the_request_itself_is_not_tried_again(
    cluster: Any, patience: Any, clock: Any
) -> None:
    cluster.refuse["web"] = [refused(403)]
    with pytest.raises(ApiRefused):
        drain(cluster, patience, clock).drain("w1")
    assert evictions(cluster) == ["evict web"]


def test_a_budget_is_named_before_anything_is_changed(
    cluster: Any, patience: Any, clock: Any
) -> None:
    details = {
        "causes": [
            {
                "reason": "DisruptionBudget",
                "message": "The disruption budget web needs 2 healthy pods",
            }
        ]
    }
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    cluster.refuse["web-2"] = [
        ApiRefused(429, "TooManyRequests", message, "POST eviction", {"details": details})
    ]
    words = r"node w1 cannot be drained: the eviction of pod default/web-2 was refused: .*disruption budget web needs 2 healthy"
    with pytest.raises(MissingCapability, match=words):
        drain(cluster, patience, clock).refuse_budgets("w1")
    assert cluster.log == []


def test_a_budget_that_never_allows_it_is_told(cluster: Any, patience: Any, clock: Any) -> None:
    cluster.refuse["web"] = [refused(429) for _ in range(100)]
    with pytest.raises(
        EnvironmentBroken,
        match=r"eviction of pod default/web was refused: the disruption budget web",
    ):
        drain(cluster, patience, clock).drain("w1")


@pytest.mark.parametrize("code", [404, 409])
def test_a_pod_that_is_gone_meanwhile_is_no_error(
    cluster: Any, patience: Any, clock: Any, code: int
) -> None:
    cluster.refuse["web"] = [refused(code)]
    original = cluster.make

    def make(change: Any) -> None:
        (old,) = [pod for pod in cluster.pods if pod["metadata"]["name"] == "web"] or [None]
        if old:  # another of its name, as a StatefulSet makes it
            cluster.pods.remove(old)
            cluster.pods.append({**old, "metadata": {**old["metadata"], "uid": "uid-of-another"}})
        original(change)

    cluster.make = make
    assert drain(cluster, patience, clock).drain("w1") == ["default/web", "default/web-2"]
    assert "uid-of-another" in {pod["metadata"]["uid"] for pod in cluster.pods}


def test_a_pod_that_does_not_go_is_named(cluster: Any, patience: Any, clock: Any) -> None:
    cluster.stubborn.add("web-2")
    with pytest.raises(
        EnvironmentBroken, match=r"w1 was not drained within 30 s; pods that remain: default/web-2"
    ):
        drain(cluster, patience, clock).drain("w1")


def test_uncordoning_takes_the_mark_away(cluster: Any, patience: Any, clock: Any) -> None:
    one = drain(cluster, patience, clock)
    one.drain("w1")
    assert marks(cluster) == {"calico-conformance/cordoned": "r1"}
    one.uncordon("w1")
    assert cluster.others["Node", "w1"]["spec"] == marks(cluster) == {}


@pytest.mark.parametrize(
    "mark", [{}, {"calico-conformance/cordoned": "r2"}], ids=["somebody", "another-run"]
)
def test_a_cordon_of_somebody_else_is_left(
    cluster: Any, patience: Any, clock: Any, mark: dict[str, str]
) -> None:
    cluster.others["Node", "w1"] = {
        "metadata": {"annotations": mark},
        "spec": {"unschedulable": True},
    }
    one = drain(cluster, patience, clock)
    one.drain("w1")
    one.uncordon("w1")
    assert cluster.others["Node", "w1"]["spec"] == {"unschedulable": True}
    assert marks(cluster) == mark


def marks(cluster: Any) -> Any:
    return cluster.others["Node", "w1"]["metadata"].get("annotations")
