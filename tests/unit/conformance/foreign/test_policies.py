# SPDX-License-Identifier: Apache-2.0
"""Policies of the cluster: which of them may select given pods, who owns them, and which results
they excuse."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.expect.owners import Times, excused
from conformance.foreign import policies as policies_there
from conformance.foreign.beforehand import beforehand
from conformance.foreign.snapshot import policy_in_event
from conformance.kube.ownership import Ownership
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Addressing
from conformance.model.observation import Verdict
from tests.unit.conformance.builders import an_object
from tests.unit.conformance.expect.stand_ins import observation
from tests.unit.conformance.foreign.clusters import (
    CLIENT,
    CRD,
    KUBERNETES,
    RUN,
    SERVER,
    V3,
    Cluster,
    excuse,
    known,
    made,
)


def test_those_are_named_whose_selectors_choose_a_pod_or_cannot_be_read() -> None:
    cluster = Cluster()
    cluster.lists[KUBERNETES, "NetworkPolicy"] = [
        an_object("deny", podSelector={"matchLabels": {"app": "server"}}),
        an_object("other", podSelector={"matchLabels": {"app": "db"}}),
    ]
    for item in cluster.lists[KUBERNETES, "NetworkPolicy"]:
        item["metadata"]["namespace"] = "ns"
    assert known(cluster)([SERVER]) == [
        "NetworkPolicy ns/deny (networking.k8s.io/v1), a foreign policy"
    ]
    assert known(cluster, "uid-deny")([SERVER]) == ["NetworkPolicy ns/deny (networking.k8s.io/v1)"]


@pytest.mark.parametrize(("served", "read"), [((V3, CRD), V3), ((CRD,), CRD)])
def test_calicos_are_read_once_through_the_api_that_is_served_and_kubernetes_twins_are_not(
    served: tuple[str, ...], read: str
) -> None:
    cluster = Cluster(*served)
    for api in (V3, CRD):
        cluster.lists[api, "GlobalNetworkPolicy"] = [
            an_object("company-wide"),
            an_object("kanp.adminnetworkpolicy.x"),
        ]
    assert known(cluster)([SERVER]) == [
        f"GlobalNetworkPolicy company-wide ({read}), a foreign policy"
    ]


def test_the_runs_own_excuse_nothing_by_uid_here_and_by_labels_of_its_other_workers() -> None:
    cluster = Cluster(V3)
    copied = an_object("copied", RUN.labels)
    elsewhere = an_object("elsewhere", Ownership("ab12", "gw1").labels)
    cluster.lists[V3, "GlobalNetworkPolicy"] = [an_object("made"), elsewhere]
    assert excuse(known(cluster, "uid-made")) == ""
    cluster.lists[V3, "GlobalNetworkPolicy"] += [copied]  # somebody else's, with our labels
    assert (
        excuse(known(cluster, "uid-made"))
        == "GlobalNetworkPolicy copied denies ingress of ns/server"
    )


def test_a_kind_that_may_not_be_listed_excuses_nothing_and_its_right_is_named() -> None:
    cluster = Cluster(V3)
    cluster.forbidden = {V3}
    there = known(cluster)
    assert excuse(there) == ""
    right = "the run's user may not list GlobalNetworkPolicy (projectcalico.org/v3): bind manifests/rbac/read-only.yaml"
    assert f"not read: {right}" in there([SERVER])
    assert right in beforehand(cluster, RUN).unread  # type: ignore[arg-type]


def test_what_was_seen_otherwise_under_the_same_policy_is_not_excused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr("conformance.foreign.policies.time.monotonic", lambda: now)
    cluster = Cluster(V3)
    cluster.lists[V3, "GlobalNetworkPolicy"] = [an_object("company-wide", types=["Ingress"])]
    there = known(cluster)
    there.look()
    denies = "GlobalNetworkPolicy company-wide denies ingress of ns/server"
    assert excuse(there, otherwise=99.0) == denies  # seen open before anybody looked for policies
    assert excuse(there, otherwise=101.0) == ""
    cluster.lists[V3, "GlobalNetworkPolicy"][0]["metadata"]["resourceVersion"] = "2"
    now = 102.0
    assert excuse(there, otherwise=101.0) == denies  # it was changed since


def test_what_was_there_while_a_way_was_asked_is_excused_when_it_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr("conformance.foreign.policies.time.monotonic", lambda: now)
    cluster = Cluster(V3)
    there = known(cluster)

    def told(since: float, otherwise: float | None = None) -> str:
        return there.excuse(CLIENT, SERVER.tcp(8080), "closed", times=Times(since, otherwise))

    there.look()
    now, cluster.lists[V3, "GlobalNetworkPolicy"] = (
        110.0,
        [an_object("company-wide", types=["Ingress"])],
    )
    there.look()
    now, cluster.lists[V3, "GlobalNetworkPolicy"] = 120.0, []
    assert told(105.0) == "GlobalNetworkPolicy company-wide denies ingress of ns/server"
    assert told(105.0, otherwise=105.0), "the way connected first"
    assert not told(105.0, otherwise=111.0), "the way connected under it"
    assert not told(115.0), "it went before the way was asked first"


def test_of_several_policies_those_alone_are_named_that_could_give_what_was_seen() -> None:
    cluster = Cluster(V3)
    spec: dict[str, Any] = {"selector": "all()", "types": ["Ingress", "Egress"]}
    harmless = an_object(
        "go-anywhere", **spec, ingress=[{"action": "Allow"}], egress=[{"action": "Allow"}]
    )
    passing = an_object(
        "passing", **spec, ingress=[{"action": "Pass"}], egress=[{"action": "Pass"}]
    )
    denying = an_object(
        "company-wide", **spec | {"types": ["Ingress"]}, ingress=[{"action": "Deny"}]
    )
    cluster.lists[V3, "GlobalNetworkPolicy"] = [harmless, passing]
    assert excuse(known(cluster)) == ""
    cluster.lists[V3, "GlobalNetworkPolicy"] = [harmless, denying, passing]
    assert excuse(known(cluster)) == "GlobalNetworkPolicy company-wide denies ingress of ns/server"


def test_those_that_a_watch_told_of_are_judged_as_those_that_are_there() -> None:
    cluster = Cluster(V3)
    cluster.lists[V3, "GlobalNetworkPolicy"] = [
        an_object("there", selector="all()", ingress=[{"action": "Deny"}])
    ]

    def told(selector: str, *, at: Any = "both", seen: Any = "closed", **more: Any) -> str:
        spec = {"selector": selector, "types": ["Ingress"], "ingress": [{"action": "Deny"}], **more}
        one = policy_in_event(cluster, V3, "GlobalNetworkPolicy", an_object("gone", **spec))  # type: ignore[arg-type]
        return known(cluster).blame([one], CLIENT, SERVER.tcp(8080), seen, protocol="", at=at)

    assert told("app == 'server'") == "GlobalNetworkPolicy gone denies ingress of ns/server"
    assert told("app == 'server'", serviceAccountSelector="has(x)") == "", (
        "no such account is there"
    )
    cluster.forbidden.add("ServiceAccount")
    unread = "GlobalNetworkPolicy gone may deny ingress of ns/server"
    assert told("app == 'server'", serviceAccountSelector="has(x)") == unread
    assert (
        told("app == 'client'")
        == told("app == 'server'", at="source")
        == told("app == 'server'", seen="open")
        == ""
    )


def test_a_policy_that_came_and_went_between_two_looks_is_told_by_the_api_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, now = Cluster(V3), [100.0]
    monkeypatch.setattr(policies_there, "time", SimpleNamespace(monotonic=lambda: now[0]))
    there, cluster.version = known(cluster), "7"
    stayed = an_object("stayed", selector="all()", ingress=[{"action": "Deny"}])
    cluster.lists[V3, "GlobalNetworkPolicy"] = [stayed]
    there.look()

    def excuse_since(when: float) -> str:
        now[0] += 10.0
        return there.excuse(CLIENT, SERVER.tcp(8080), "closed", times=Times(when, otherwise=105.0))

    flap = an_object("flap", selector="app == 'server'", ingress=[{"action": "Deny"}])
    for version, kind, of in ((5, "ADDED", flap), (6, "DELETED", flap), (9, "MODIFIED", stayed)):
        cluster.events.append((version, "GlobalNetworkPolicy", {"type": kind, "object": of}))
    assert excuse_since(101.0) == "", "it was before, and one that was there got an annotation"
    cluster.events.append((10, "GlobalNetworkPolicy", {"type": "ADDED", "object": flap}))
    assert excuse_since(101.0) == "GlobalNetworkPolicy flap denies ingress of ns/server"
    made(there, "NetworkPolicy", "own", an_object("own", selector="app == 'x'") | {})
    there.changes.kept[next(iter(there.changes.kept))]["metadata"]["resourceVersion"] = "11"
    cluster.lists[V3, "NetworkPolicy"] = [an_object("own", selector="app == 'x'")]
    assert excuse_since(101.0) == "", "it was before the run's own came"


def test_who_asks_for_names_is_under_policies_of_the_clusters_dns_too() -> None:
    cluster = Cluster(V3)
    meta = {"name": "coredns-1", "namespace": "kube-system", "uid": "uid-dns"}
    spec = {
        "nodeName": "linux-1",
        "containers": [{"name": "dns", "ports": [{"containerPort": 53, "protocol": "UDP"}]}],
    }
    ready = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "podIP": "192.168.0.3",
        "hostIP": "10.0.0.11",
    }
    cluster.lists["v1", "Pod"] = [{"metadata": meta, "spec": spec, "status": ready}]
    friends = {"namespaceSelector": {"matchLabels": {"dns": "yes"}}}
    guarded = an_object(
        "guarded", podSelector={"matchLabels": {"app": "coredns-1"}}, ingress=[{"from": [friends]}]
    )
    guarded["metadata"]["namespace"] = "kube-system"
    cluster.lists[KUBERNETES, "NetworkPolicy"] = [guarded]
    asks = Attempt(source=CLIENT, kind=Kind.DNS, query="web", give_up_after=1.0)
    by_name = replace(SERVER.tcp(8080), path=Addressing.NAME, host="web")
    may = "NetworkPolicy kube-system/guarded may deny ingress of kube-system/coredns-1"
    for attempt, verdict, told in (
        (asks, Verdict.DNS_FAILED, may),
        (replace(asks, kind=Kind.TCP, target=by_name), Verdict.DNS_FAILED, may),
        (replace(asks, kind=Kind.TCP, target=by_name), Verdict.TIMED_OUT, ""),
    ):
        assert excused(known(cluster), attempt, [observation(attempt, verdict)], want=True) == told
