# SPDX-License-Identifier: Apache-2.0
"""Policies of the cluster: which of them may select given pods, who owns them, and which results
they excuse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.expect.owners import Times, excused
from conformance.foreign import policies as policies_there
from conformance.foreign.beforehand import beforehand
from conformance.foreign.policies import ForeignPolicies
from conformance.foreign.snapshot import policy_in_event
from conformance.kube.ownership import Ownership
from conformance.kube.refused import ApiRefused
from conformance.model.attempt import Attempt, Kind
from conformance.model.change import ObjectRef
from conformance.model.endpoint import Addressing
from conformance.model.observation import Verdict
from tests.unit.conformance.builders import a_workload, an_object
from tests.unit.conformance.expect.stand_ins import observation

DISCOVERY = "discovery.k8s.io/v1"
KUBERNETES, V3, CRD = "networking.k8s.io/v1", "projectcalico.org/v3", "crd.projectcalico.org/v1"
SERVER, CLIENT = a_workload("server"), a_workload("client")
RUN = Ownership("ab12", "gw0")


class Cluster:
    """Lists by API and kind; each pod has its name as label ``app``."""

    def __init__(self, *served: str) -> None:
        self.served = {KUBERNETES, *served}
        self.lists: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self.forbidden: set[str] = set()
        self.asked: list[str] = []
        self.version = ""
        self.events: list[tuple[int, str, dict[str, Any]]] = []

    @property
    def discovery(self) -> Cluster:
        return self

    def serves(self, api: str, kind: str) -> bool:
        return api in self.served

    def objects(
        self, api: str, kind: str, space: str = "", labels: str = ""
    ) -> list[dict[str, Any]]:
        self.asked.append(kind)
        if api in self.forbidden:
            raise ApiRefused(403, "Forbidden", "no right", "GET")
        return self.lists.get((api, kind), [])

    def objects_at(self, api: str, kind: str) -> tuple[list[dict[str, Any]], str]:
        return self.objects(api, kind), self.version

    def watch(self, api: str, kind: str, space: None, since: str, seconds: float) -> Any:
        return [event for version, of, event in self.events if of == kind and version > int(since)]

    def find(self, api: str, kind: str, name: str, space: str | None = None) -> dict[str, Any]:
        self.asked.append(kind)
        if kind in self.forbidden:
            raise ApiRefused(403, "Forbidden", "no right", "GET")
        return {"metadata": {"name": name, "namespace": space, "labels": {"app": name}}}


def known(cluster: Any, *uids: str) -> ForeignPolicies:
    changes: Any = SimpleNamespace(run=RUN, uids=set(uids), kept={})
    return ForeignPolicies(cluster, changes)


def excuse(there: ForeignPolicies, seen: Any = "closed", otherwise: float | None = None) -> str:
    return there.excuse(CLIENT, SERVER.tcp(8080), seen, times=Times(otherwise=otherwise))


def test_those_are_named_whose_selectors_choose_a_pod_or_cannot_be_read() -> None:
    cluster = Cluster()
    cluster.lists[KUBERNETES, "NetworkPolicy"] = [
        an_object("deny", podSelector={"matchLabels": {"app": "server"}}),
        an_object("other", podSelector={"matchLabels": {"app": "db"}}),
    ]
    for item in cluster.lists[KUBERNETES, "NetworkPolicy"]:
        item["metadata"]["namespace"] = "ns"
    assert known(cluster)([SERVER]) == [
        "NetworkPolicy ns/deny (networking.k8s.io/v1), not the run's own"
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
        f"GlobalNetworkPolicy company-wide ({read}), not the run's own"
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


def made(
    there: ForeignPolicies, kind: str, name: str, obj: dict[str, Any], space: str | None = "ns"
) -> None:
    """The run made it so."""
    api = V3 if "Policy" in kind else "v1"
    there.changes.kept[ObjectRef(api_version=api, kind=kind, name=name, namespace=space)] = obj


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
    assert excuse(there, seen, otherwise=0.0) == "somebody's edit of NetworkPolicy ns/deny"
    cluster.lists[V3, "NetworkPolicy"] = []
    assert excuse(there, seen, otherwise=0.0) == "somebody's deletion of NetworkPolicy ns/deny"
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
        *(f"somebody's {did} of Service ns/shop (v1)" for did in ("edit", "deletion")),
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
    told = "since somebody changed labels of its namespace GlobalNetworkPolicy quarantine denies ingress of ns/server"
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


def test_what_lasts_was_there_before_the_way_was_asked_and_still_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr("conformance.foreign.policies.time.monotonic", lambda: now)
    cluster = Cluster(V3)
    there = known(cluster)

    def told(since: float) -> tuple[bool, ...]:
        ways = [
            there.excuse(CLIENT, SERVER.tcp(8080), "closed", times=Times(since), lasting=only)
            for only in (False, True)
        ]
        return tuple(map(bool, ways))

    there.look()
    now, cluster.lists[V3, "GlobalNetworkPolicy"] = (
        110.0,
        [an_object("company-wide", types=["Ingress"])],
    )
    assert told(105.0) == (True, False), "it came"
    now = 120.0
    assert told(115.0) == (True, True), "it stayed"
    cluster.lists[V3, "GlobalNetworkPolicy"] = [an_object("company-wide", types=["Ingress"])]
    cluster.lists[V3, "GlobalNetworkPolicy"][0]["metadata"]["resourceVersion"] = "2"
    now = 130.0
    assert told(125.0) == (True, False), "it changed"
    now, cluster.lists[V3, "GlobalNetworkPolicy"] = 140.0, []
    assert told(129.0) == (True, False), "it went"


def test_a_way_is_foreclosed_only_by_what_surely_closes_it_while_nothing_may_open_it() -> None:
    cluster = Cluster(V3)
    ways = [(CLIENT, SERVER.tcp(8080), "TCP")]
    deny, allow = (
        an_object("deny", types=["Ingress"]),
        an_object("allow", types=["Ingress"], ingress=[{"action": "Allow"}]),
    )
    may = an_object("may", types=["Ingress"], selector="app ~ 'x'")
    for policies, closes in (([], False), ([deny], True), ([may], False), ([deny, allow], False)):
        cluster.lists[V3, "GlobalNetworkPolicy"] = policies
        assert bool(known(cluster).forecloses(ways)[0]) is closes, policies


def test_policies_that_can_close_nothing_cost_no_look_at_pods() -> None:
    cluster = Cluster(V3)
    elsewhere = an_object("elsewhere", podSelector={})
    elsewhere["metadata"]["namespace"] = "others"
    cluster.lists[KUBERNETES, "NetworkPolicy"] = [elsewhere]
    assert known(cluster).forecloses([(CLIENT, SERVER.tcp(8080), "TCP")]) == [""]
    assert not {"Pod", "Namespace"} & set(cluster.asked)


def test_a_node_reaches_its_own_pods_whatever_denies_ingress() -> None:
    cluster = Cluster(V3)
    cluster.lists[V3, "GlobalNetworkPolicy"] = [an_object("deny", types=["Ingress", "Egress"])]
    host = replace(CLIENT, host_network=True)
    assert known(cluster).excuse(host, SERVER.tcp(8080), "closed") == ""
    other = replace(host, node="linux-2")
    assert known(cluster).excuse(other, SERVER.tcp(8080), "closed") != ""


def test_a_node_is_under_policies_that_select_its_host_endpoint_and_under_no_others() -> None:
    cluster = Cluster(V3)
    host = replace(CLIENT, host_network=True, node="linux-2")
    deny: dict[str, Any] = {"types": ["Egress"], "selector": "has(kubernetes-host)"}
    cluster.lists[V3, "GlobalNetworkPolicy"] = [
        an_object("hosts", **deny),
        an_object("pods", **deny | {"selector": "app == 'x'"}),
    ]
    assert known(cluster).excuse(host, SERVER.tcp(8080), "closed") == "", (
        "a node without one is under no policy"
    )
    open_to_all: dict[str, Any] = {
        "interfaceName": "*",
        "profiles": ["projectcalico-default-allow"],
    }
    endpoint = an_object("linux-2-auto-hep", {"kubernetes-host": ""}, node="linux-2", **open_to_all)
    cluster.lists[V3, "HostEndpoint"] = [endpoint]
    said = "GlobalNetworkPolicy hosts denies egress of node linux-2"
    assert known(cluster).excuse(host, SERVER.tcp(8080), "closed") == said
    assert known(cluster).excuse(host, SERVER.tcp(8080), "open") == ""
    cluster.lists[V3, "HostEndpoint"] = [an_object("eth0", node="linux-2", interfaceName="eth0")]
    alone = "HostEndpoint node linux-2/eth0 denies egress of node linux-2"
    assert known(cluster).excuse(host, SERVER.tcp(8080), "closed") == alone, (
        "what no policy allows is denied there"
    )
    assert known(cluster).excuse(CLIENT, SERVER.tcp(8080), "closed") == "", (
        "pods are not its business"
    )
    cluster.lists[V3, "HostEndpoint"] = [endpoint]
    own = replace(host, node=SERVER.node)
    assert known(cluster).excuse(own, SERVER.tcp(8080), "closed") == "", (
        "the endpoint is another node's"
    )
    endpoint["spec"]["node"] = SERVER.node
    assert known(cluster).excuse(own, SERVER.tcp(8080), "closed") == "", (
        "what goes to a node's own pods is let out"
    )
    assert known(cluster).excuse(CLIENT, SERVER.tcp(8080), "closed") == ""


BY_NAME_AND_LABEL = (
    "!(projectcalico.org/name starts with 'calico-demo-' && has(calico-conformance/run))"
)
"""As docs/field-guide.md recommends it."""


@pytest.mark.parametrize(
    ("prefix", "selector", "closes"),
    [
        ("", BY_NAME_AND_LABEL, False),
        ("team-a", BY_NAME_AND_LABEL, True),
        (
            "team-a",
            "!has(calico-conformance/run)",
            True,
        ),  # namespaces that their owner made have no run's label
        ("team-a", "!(projectcalico.org/name starts with 'team-a-')", False),
    ],
)
def test_beforehand_it_is_known_whether_namespaces_are_exempt(
    *, prefix: str, selector: str, closes: bool
) -> None:
    assert BY_NAME_AND_LABEL in (Path(__file__).parents[4] / "docs" / "field-guide.md").read_text()
    cluster, run = Cluster(V3), Ownership("3f2a1c", prefix=prefix)
    cluster.lists[V3, "GlobalNetworkPolicy"] = [
        an_object("all", types=["Ingress"], namespaceSelector=selector)
    ]
    assert bool(beforehand(cluster, run).lines) == closes  # type: ignore[arg-type]


def test_beforehand_the_runs_label_exempts_its_namespaces() -> None:
    cluster = Cluster(V3)
    cluster.lists[V3, "GlobalNetworkPolicy"] = [an_object("all", types=["Ingress"])]
    assert (
        beforehand(cluster, RUN).closing  # type: ignore[arg-type]
        == "GlobalNetworkPolicy all denies ingress of this run's pods"
    )
    exempt = an_object("all", types=["Ingress"], namespaceSelector="!has(calico-conformance/run)")
    cluster.lists[V3, "GlobalNetworkPolicy"] = [exempt]
    assert beforehand(cluster, RUN).lines == []  # type: ignore[arg-type]


def test_a_policy_that_went_a_moment_ago_is_named_with_its_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr("conformance.foreign.policies.time.monotonic", lambda: now)
    there = known(Cluster())
    there.record_removal("NetworkPolicy ns/deny (networking.k8s.io/v1)")
    now += 5
    assert there([SERVER]) == ["NetworkPolicy ns/deny (networking.k8s.io/v1), deleted 5 s ago"]
    now += policies_there.RECENTLY
    assert there([SERVER]) == []
