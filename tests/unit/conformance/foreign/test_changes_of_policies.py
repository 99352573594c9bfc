# SPDX-License-Identifier: Apache-2.0
"""A change of objects to which a policy refers (its tier, sets, Services, labels) counts as a
change of the policy."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.foreign import policies as policies_there
from conformance.model.endpoint import Addressing
from tests.unit.conformance.builders import an_object
from tests.unit.conformance.foreign.clusters import CLIENT, SERVER, V3, Cluster, excuse, known, made

DISCOVERY = "discovery.k8s.io/v1"


def test_a_change_of_its_tier_is_one_of_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(V3)
    tier = {
        "metadata": {"name": "early", "resourceVersion": "7"},
        "spec": {"defaultAction": "Pass"},
    }
    cluster.lists[V3, "Tier"] = [tier]
    one = an_object(
        "early.log", tier="early", selector="all()", types=["Ingress"], ingress=[{"action": "Log"}]
    )
    cluster.lists[V3, "GlobalNetworkPolicy"] = [one]
    there, moments = known(cluster), iter([100.0, 110.0])
    monkeypatch.setattr(policies_there, "time", SimpleNamespace(monotonic=lambda: next(moments)))
    assert excuse(there) == "", "what it leaves goes on to the next tier"
    tier |= {
        "metadata": {"name": "early", "resourceVersion": "8"},
        "spec": {"defaultAction": "Deny"},
    }
    assert (
        excuse(there, otherwise=105.0)
        == "GlobalNetworkPolicy early.log (tier early) denies ingress of ns/server"
    )


@pytest.mark.parametrize("seen", ["open", "closed"])
def test_what_somebody_did_to_the_runs_own_policy_of_an_end_is_not_calicos(seen: Any) -> None:
    cluster = Cluster(V3)
    there = known(cluster, "uid-deny")
    deny = an_object("deny", selector="app == 'server'", types=["Ingress"])
    deny["metadata"]["namespace"] = "ns"
    made(there, "NetworkPolicy", "deny", deny)
    cluster.lists[V3, "NetworkPolicy"] = [deny]
    cluster.lists[V3, "Tier"] = [an_object("default", order=1_000_000)]
    assert excuse(there, seen) == ""
    edited = deny | {"spec": deny["spec"] | {"ingress": [{"action": "Allow"}]}}
    cluster.lists[V3, "NetworkPolicy"] = [edited]
    assert excuse(there, seen, otherwise=0.0) == "", (
        "an API server that fills in fields has edited nothing"
    )
    cluster.lists[V3, "NetworkPolicy"] = [
        edited | {"metadata": edited["metadata"] | {"resourceVersion": "99"}}
    ]
    assert excuse(there, seen, otherwise=0.0) == "edit of NetworkPolicy ns/deny by another user"
    cluster.lists[V3, "NetworkPolicy"] = []
    assert excuse(there, seen, otherwise=0.0) == "deletion of NetworkPolicy ns/deny by another user"
    cluster.forbidden.add(V3)
    assert excuse(there, seen) == "", "whether it is there is not known"


def test_what_somebody_did_to_a_policy_of_other_pods_or_a_staged_one_explains_nothing() -> None:
    there = known(Cluster(V3))
    made(
        there, "NetworkPolicy", "deny", an_object("deny", selector="app == 'db'", types=["Ingress"])
    )
    made(
        there,
        "StagedNetworkPolicy",
        "staged",
        an_object("staged", selector="all()", types=["Ingress"]),
    )
    assert excuse(there) == ""


def test_what_somebody_did_to_the_service_by_which_a_pod_was_called_is_not_calicos() -> None:
    cluster = Cluster()
    there, spec = known(cluster), {"clusterIP": "10.96.0.9", "selector": {"app": "server"}}
    for name in ("shop", "other"):
        made(there, "Service", name, {"metadata": {"name": name}, "spec": spec})
    by_service = replace(
        SERVER.tcp(8080), host="10.96.0.9", path=Addressing.CLUSTER_IP, name="Service shop"
    )
    left: list[Any] = [{"spec": spec}, {"spec": spec | {"selector": {}}}, None]
    find = cluster.find
    cluster.find = lambda api, kind, *way: left[0] if kind == "Service" else find(api, kind, *way)  # type: ignore
    told = []
    while left:
        told.append(there.excuse(CLIENT, by_service, "closed"))
        left.pop(0)
    assert told == [
        "",
        *(f"{did} of Service ns/shop (v1) by another user" for did in ("edit", "deletion")),
    ]


def test_labels_that_somebody_changed_are_why_a_policy_says_what_it_did_not_say_before() -> None:
    cluster = Cluster(V3)
    there = known(cluster)
    space = {"metadata": {"name": "ns", "labels": {"team": "own"}}}
    made(there, "Namespace", "ns", space, None)
    deny = an_object(
        "quarantine",
        namespaceSelector="state == 'bad'",
        types=["Ingress"],
        ingress=[{"action": "Deny"}],
    )
    cluster.lists[V3, "GlobalNetworkPolicy"] = [deny]
    find, now = cluster.find, {"team": "own"}
    cluster.find = lambda api, kind, *way: (  # type: ignore[method-assign]
        {"metadata": {"name": "ns", "labels": now}}
        if kind == "Namespace"
        else find(api, kind, *way)
    )
    assert excuse(there) == ""
    now["cost"] = "1"
    assert excuse(there, otherwise=float("inf")) == "", "no policy is about that label"
    now["state"] = "bad"
    told = (
        "after another user changed labels of the pod's namespace, GlobalNetworkPolicy "
        "quarantine denies ingress of ns/server"
    )
    assert excuse(there, otherwise=float("inf")) == told, (
        "the policy itself was there all the while"
    )


def test_sets_of_networks_are_read_where_rules_may_choose_them_and_a_change_of_theirs_is_one_of_the_policy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr("conformance.foreign.policies.time.monotonic", lambda: now)
    cluster = Cluster(V3)
    plain = an_object("plain", types=["Ingress"], ingress=[{"action": "Allow"}])
    cluster.lists[V3, "GlobalNetworkPolicy"] = [plain]
    there = known(cluster)
    there.look()
    assert "GlobalNetworkSet" not in cluster.asked
    private = {"action": "Deny", "source": {"selector": "name == 'private'"}}
    cluster.lists[V3, "GlobalNetworkPolicy"] = [
        an_object("wide", types=["Ingress"], ingress=[private, {"action": "Allow"}])
    ]
    assert excuse(there) == ""
    found = an_object("private", {"name": "private"}, nets=["192.168.0.0/16"])
    cluster.lists[V3, "GlobalNetworkSet"] = [found]
    assert excuse(there) == "GlobalNetworkPolicy wide denies ingress of ns/server"
    now = 110.0
    assert excuse(there, otherwise=109.0) == "", "the way connected under it"
    found["metadata"]["resourceVersion"] = "2"
    assert excuse(there, otherwise=109.0) != "", "its networks changed"


def a_slice(address: str, *, ready: bool = True, port: int = 8080) -> dict[str, Any]:
    """An EndpointSlice of Service shop/db."""
    found = an_object("db-1", {"kubernetes.io/service-name": "db"})
    found["metadata"]["namespace"] = "shop"
    members = [{"addresses": [address], "conditions": {"ready": ready}}]
    return found | {"kind": "EndpointSlice", "endpoints": members, "ports": [{"port": port}]}


@pytest.mark.parametrize(
    ("slices", "effect"),
    [
        ([a_slice(SERVER.address)], ""),
        ([a_slice("10.0.0.99")], "denies"),
        ([a_slice(SERVER.address, port=5432)], "denies"),
        ([], "denies"),
        ([a_slice(SERVER.address, ready=False)], "may deny"),
        ([a_slice("db.example.org")], "may deny"),
        (None, "may deny"),
    ],
)
def test_a_rule_that_names_a_service_means_its_members_where_they_can_be_read(
    slices: list[dict[str, Any]] | None, effect: str
) -> None:
    cluster = Cluster(V3)
    to_db = {"protocol": "TCP", "destination": {"services": {"name": "db", "namespace": "shop"}}}
    cluster.lists[V3, "GlobalNetworkPolicy"] = [
        an_object("wide", types=["Egress"], egress=[{"action": "Allow", **to_db}])
    ]
    if slices is None:
        cluster.forbidden.add(DISCOVERY)
    cluster.lists[DISCOVERY, "EndpointSlice"] = slices or []
    wanted = f"GlobalNetworkPolicy wide {effect} egress of ns/client" if effect else ""
    assert excuse(known(cluster)) == wanted


def test_another_member_of_a_service_that_a_rule_names_changes_the_policy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr("conformance.foreign.policies.time.monotonic", lambda: now)
    cluster = Cluster(V3)
    rule = {"action": "Allow", "protocol": "TCP", "destination": {"services": {"name": "db"}}}
    policy = an_object("theirs", types=["Egress"], egress=[rule])
    policy["metadata"]["namespace"] = CLIENT.namespace
    cluster.lists[V3, "NetworkPolicy"] = [policy]
    member = a_slice("10.0.0.99")
    member["metadata"]["namespace"] = CLIENT.namespace
    cluster.lists[DISCOVERY, "EndpointSlice"] = [member]
    there = known(cluster)
    assert excuse(there) == "NetworkPolicy ns/theirs denies egress of ns/client"
    now = 110.0
    assert excuse(there, otherwise=109.0) == "", "the way connected under it"
    member["metadata"]["resourceVersion"] = "2"
    assert excuse(there, otherwise=109.0) != "", "its members changed"


@pytest.mark.parametrize(("order", "closes"), [(None, False), (10.0, True)])
def test_a_tier_without_an_order_comes_last(order: float | None, closes: bool) -> None:
    """Calico's API gives ``order: null`` of a tier that was made with it."""
    cluster = Cluster(V3)
    cluster.lists[V3, "Tier"] = [
        {"metadata": {"name": "early", "resourceVersion": "7"}, "spec": {"order": order}}
    ]
    one = an_object("early.all", tier="early", types=["Ingress"], ingress=[{"action": "Allow"}])
    cluster.lists[V3, "GlobalNetworkPolicy"] = [one]
    opens = "GlobalNetworkPolicy early.all (tier early) allows ingress of ns/server"
    assert (excuse(known(cluster), "open") == opens) is closes
