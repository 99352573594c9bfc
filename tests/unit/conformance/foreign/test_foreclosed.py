# SPDX-License-Identifier: Apache-2.0
"""The paths that policies of the cluster certainly close, before and while a path is probed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.expect.owners import Times
from conformance.foreign import policies as policies_there
from conformance.foreign.beforehand import beforehand
from conformance.kube.ownership import Ownership
from tests.unit.conformance.builders import an_object
from tests.unit.conformance.foreign.clusters import (
    CLIENT,
    KUBERNETES,
    RUN,
    SERVER,
    V3,
    Cluster,
    known,
)


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
