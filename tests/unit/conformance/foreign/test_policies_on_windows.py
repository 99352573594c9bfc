# SPDX-License-Identifier: Apache-2.0
"""Policies of other owners on a cluster with Windows nodes: what each excuses there."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken
from conformance.expect.owners import Times, decided
from conformance.foreign.beforehand import beforehand
from conformance.foreign.policies import ForeignPolicies
from conformance.model.endpoint import Workload
from conformance.model.facts import Fact, Facts
from tests.plugin.stand_in_cluster import facts
from tests.unit.conformance.builders import a_workload, an_object
from tests.unit.conformance.foreign.clusters import KUBERNETES, RUN, V3, Cluster, known

NODE = facts().by_os("windows")[0].name
WINDOWS = replace(a_workload("server", os="windows"), node=NODE)
CLIENT = replace(a_workload("client", os="windows"), node=NODE)
LINUX, OTHER = a_workload("linux"), a_workload("other")
BOTH = ["Ingress", "Egress"]


def release(version: str) -> Facts:
    return replace(facts(), calico_version=Fact(version, "read"), calico_on_nodes={})


def there(kind: str, *, version: str = "v3.31.2", **spec: Any) -> ForeignPolicies:
    """A cluster of this release of Calico with one policy of another owner."""
    cluster = Cluster(V3)
    obj = an_object("theirs", **spec)
    if "Global" not in kind:
        obj["metadata"]["namespace"] = "ns"
    cluster.lists[KUBERNETES if "podSelector" in spec and "Staged" not in kind else V3, kind] = [
        obj
    ]
    return replace(known(cluster), facts=release(version))


def closed(
    judge: ForeignPolicies, source: Workload, target: Workload, protocol: str = "TCP", **how: Any
) -> str:
    at = target.udp(8080) if protocol == "UDP" else target.tcp(8080)
    return judge.excuse(source, at, how.pop("observed", "closed"), protocol=protocol, **how)


def allow(**match: Any) -> dict[str, Any]:
    return {"action": "Allow", **match}


ALL = {"cidr": "0.0.0.0/0", "except": ["169.254.169.254/32"]}
SEVEN: dict[str, tuple[str, dict[str, Any], str]] = {
    "notNets": (
        "GlobalNetworkPolicy",
        {"types": ["Ingress"], "ingress": [allow(source={"notNets": ["169.254.169.254/32"]})]},
        "skips notNets, XPOL-1",
    ),
    "except": (
        "NetworkPolicy",
        {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [{"ipBlock": ALL}]}]},
        "skips except, XPOL-1",
    ),
    "named ports": (
        "NetworkPolicy",
        {"podSelector": {}, "ingress": [{"ports": [{"port": "echo"}, {"port": 8080}]},
                                        {"ports": [{"protocol": "UDP", "port": "dns"}]}]},
        "skips named ports, XPOL-4",
    ),
    "notPorts": (
        "GlobalNetworkPolicy",
        {"types": ["Ingress"], "ingress": [
            allow(protocol="TCP", destination={"notPorts": [22]}),
            allow(protocol="UDP", destination={"notPorts": [22]})]},
        "skips notPorts, XPOL-1",
    ),
    "staged": ("StagedGlobalNetworkPolicy", {"types": ["Ingress"]}, "XPOL-14"),
    "notProtocol": (
        "GlobalNetworkPolicy",
        {"types": ["Ingress"], "ingress": [allow(notProtocol="SCTP")]},
        "skips notProtocol, XPOL-1",
    ),
    "Pass": (
        "GlobalNetworkPolicy",
        {"types": ["Ingress"], "ingress": [{"action": "Pass"}]},
        "XPOL-6",
    ),
}  # fmt: skip
"""Policies over ingress of all pods that Windows alone reads as deny."""


@pytest.mark.parametrize("name", SEVEN)
def test_beside_each_policy_faults_that_it_can_give_are_excused_and_three_others_are_not(
    name: str,
) -> None:
    kind, spec, why = SEVEN[name]
    judge = there(kind, **spec)
    for protocol in ("TCP", "UDP"):
        given = closed(judge, CLIENT, WINDOWS, protocol)
        assert f"{kind} " in given
        assert "theirs" in given
        if name != "named ports" or protocol == "TCP":  # no pod calls a UDP port so
            assert "Windows reads this policy as deny: " in given
            assert why in given
    assert closed(judge, CLIENT, LINUX) == "", "Linux enforces what is promised"
    assert closed(judge, LINUX, OTHER) == "", "the pods of Linux reach each other"
    assert closed(judge, LINUX, WINDOWS, at="source") == "", "nothing is closed where packets leave"
    assert closed(judge, CLIENT, WINDOWS, observed="open") == "", "no leak is given"


def test_a_staged_policy_excuses_no_test_of_staged_policies_and_is_named_for_it() -> None:
    judge = there("StagedGlobalNetworkPolicy", types=["Ingress"])
    path = (CLIENT, WINDOWS.tcp(8080), "TCP")
    judge.look()
    assert judge.defect(*path) == ""
    judge.observe(["XPOL-14"], ())
    assert closed(judge, CLIENT, WINDOWS) == ""
    assert judge.defect(*path).startswith("StagedGlobalNetworkPolicy theirs may deny ingress")
    assert judge.defect(CLIENT, LINUX.tcp(8080), "TCP") == ""
    judge.observe(["CONN-3"], ())
    assert closed(judge, CLIENT, WINDOWS) != ""


def test_a_policy_that_is_documented_to_be_read_so_is_no_defect_of_a_claims_own() -> None:
    judge = there("GlobalNetworkPolicy", **SEVEN["notNets"][1])
    judge.look()
    judge.observe(["XPOL-1"], ())
    assert closed(judge, CLIENT, WINDOWS) != ""
    assert judge.defect(CLIENT, WINDOWS.tcp(8080), "TCP") == ""


def test_what_is_there_is_named_as_selecting_by_release_and_system() -> None:
    for version, named in (("v3.31.2", True), ("v3.29.4", False)):
        judge = there("StagedGlobalNetworkPolicy", types=["Ingress"], version=version)
        assert bool(judge([WINDOWS])) is named
        assert judge([LINUX]) == [], "it decides nothing there"


@pytest.mark.parametrize("name", SEVEN)
def test_what_open_paths_of_the_same_pod_refute_excuses_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, spec, _ = SEVEN[name]
    judge = there(kind, **spec)
    now = 100.0
    monkeypatch.setattr("conformance.foreign.policies.time.monotonic", lambda: now)
    judge.look()
    since, now = Times(101.0), 110.0
    assert closed(judge, CLIENT, WINDOWS, times=since) != ""
    judge.observe((), [(OTHER, WINDOWS.tcp(8080), "TCP")])
    assert closed(judge, CLIENT, WINDOWS, times=since) == ""
    elsewhere = replace(WINDOWS, pod="another", uid="another")
    by_service = replace(WINDOWS.tcp(8080), backends=(WINDOWS, elsewhere))
    judge.observe((), [(OTHER, by_service, "TCP")])
    assert closed(judge, CLIENT, WINDOWS, times=since) != "", "the other backend may have answered"
    judge.observe((), [(OTHER, elsewhere.tcp(8080), "TCP"), (OTHER, LINUX.tcp(8080), "TCP")])
    assert closed(judge, CLIENT, WINDOWS, times=since) != "", "they are other pods"
    judge.observe((), [(CLIENT, elsewhere.tcp(8080), "TCP")])
    assert closed(judge, CLIENT, WINDOWS, times=since) != "", "it is enforced at another pod"
    assert closed(judge, CLIENT, WINDOWS, times=Times(99.0)) != "", "it may have come meanwhile"


def test_an_open_path_refutes_nothing_where_another_policy_may_have_opened_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(V3)
    deny = an_object("deny", types=["Ingress"])
    lets_in = an_object(
        "lets-in", types=["Ingress"], ingress=[allow(source={"selector": "app == 'other'"})]
    )
    cluster.lists[V3, "GlobalNetworkPolicy"] = [deny, lets_in]
    judge = replace(known(cluster), facts=release("v3.31.2"))
    now = 100.0
    monkeypatch.setattr("conformance.foreign.policies.time.monotonic", lambda: now)
    judge.look()
    now = 110.0
    judge.observe((), [(OTHER, WINDOWS.tcp(8080), "TCP")])
    assert "deny denies" in closed(judge, CLIENT, WINDOWS, times=Times(101.0))


def test_a_closed_path_is_explained_while_it_is_waited_for_by_what_stays_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judge = there("GlobalNetworkPolicy", **SEVEN["Pass"][1])
    now = 100.0
    monkeypatch.setattr("conformance.foreign.policies.time.monotonic", lambda: now)
    judge.look()
    path = (CLIENT, WINDOWS.tcp(8080), "TCP")
    assert judge.explains(*path, times=Times(101.0))
    assert not judge.explains(*path, times=Times(99.0)), "it came since"
    assert not judge.explains(CLIENT, LINUX.tcp(8080), "TCP", times=Times(101.0))


def test_what_windows_alone_closes_is_asked_all_the_same() -> None:
    path = (CLIENT, WINDOWS.tcp(8080), "TCP")
    for name, (kind, spec, _) in SEVEN.items():
        assert there(kind, **spec).forecloses([path]) == [""], name
    assert there("GlobalNetworkPolicy", types=["Ingress"]).forecloses([path]) != [""]


def test_a_policy_of_hosts_closes_nothing_on_windows_nodes() -> None:
    cluster = Cluster(V3)
    cluster.lists[V3, "HostEndpoint"] = [an_object("eth0", {"host": "yes"}, node=NODE)]
    cluster.lists[V3, "GlobalNetworkPolicy"] = [
        an_object("deny", types=["Egress"], selector="has(host)")
    ]
    judge = replace(known(cluster), facts=release("v3.31.2"))
    host = replace(CLIENT, host_network=True)
    assert closed(judge, host, OTHER) == ""
    linux = replace(host, os="linux")
    assert "HostEndpoint node" in closed(judge, linux, OTHER)


@pytest.mark.parametrize("name", [name for name in SEVEN if "Global" in SEVEN[name][0]])
def test_the_header_says_how_windows_reads_a_policy(name: str) -> None:
    kind, spec, why = SEVEN[name]
    cluster: Any = there(kind, **spec).kube
    told = beforehand(cluster, RUN, release("v3.31.2")).closing
    assert "of this run's pods on Windows (Windows reads this policy as deny: " in told
    assert why in told


def test_the_header_says_nothing_of_a_staged_policy_without_effect() -> None:
    cluster: Any = there("StagedGlobalNetworkPolicy", types=BOTH).kube
    assert beforehand(cluster, RUN, release("v3.29.4")).lines == []
    linux = replace(release("v3.31.2"), nodes=facts().by_os("linux"))
    assert beforehand(cluster, RUN, linux).lines == []


def test_a_plain_message_keeps_one_advice() -> None:
    others: Any = SimpleNamespace(exempt="exempt the run")
    text = "CONN-3: no answer\n  do        read kube-proxy's log\n  see       here"
    failure = decided(others, text, "NetworkPolicy x denies it")
    assert isinstance(failure, EnvironmentBroken)
    assert str(failure).count("  do ") == 1
    assert "exempt the run" in str(failure)
    assert "  see " in str(failure)


LEFT = {"nets": ["203.0.113.0/24"]}
"""Peers that no path of the table has."""
INGRESS: dict[str, Any] = {"types": ["Ingress"]}
STRANGERS: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "accounts by name": (
        "TCP", {"ingress": [allow(source={"serviceAccounts": {"names": ["prometheus"]}})]},
        "denies", "denies"),
    "accounts by labels": (
        "TCP", {"ingress": [allow(source={"serviceAccounts": {"selector": "role == 'x'"}})]},
        "denies", "denies"),
    "no namespace": (
        "TCP", {"ingress": [allow(source={"namespaceSelector": "global()"})]}, "denies", "denies"),
    "every namespace": (
        "TCP", {"ingress": [allow(source={"namespaceSelector": "all()"})]}, "", ""),
    "namespaces but this": (
        "TCP", {"namespaceSelector": "projectcalico.org/name not in {'ns'}"}, "", ""),
    "range of ports with it": (
        "TCP", {"ingress": [allow(protocol="TCP", destination={"ports": ["8000:8100"]})]}, "", ""),
    "range of ports without it": (
        "TCP", {"ingress": [allow(protocol="TCP", destination={"ports": ["8081:9000", 22]})]},
        "denies", "denies"),
    "notSelector of another": (
        "TCP", {"ingress": [allow(source={"notSelector": "app == 'evil'"})]}, "", "denies"),
    "Deny by notNets": (
        "TCP", {"ingress": [{"action": "Deny", "source": {"notNets": ["10.0.0.0/8"]}}, allow()]},
        "denies", ""),
    "type of echo requests": (
        "ICMP", {"ingress": [allow(protocol="ICMP", icmp={"type": 8})]}, "", "denies"),
    "another type": (
        "ICMP", {"ingress": [allow(protocol="ICMP", icmp={"type": 3})]}, "denies", "denies"),
    "notICMP": (
        "ICMP", {"ingress": [allow(protocol="ICMP", notICMP={"type": 3})]}, "", "denies"),
    "number of TCP": ("TCP", {"ingress": [allow(protocol=6)]}, "", ""),
    "number of UDP": ("TCP", {"ingress": [allow(protocol=17)]}, "denies", "denies"),
    "IPv6 alone": ("TCP", {"ingress": [allow(ipVersion=6)]}, "denies", "denies"),
    "Log alone": ("TCP", {"ingress": [{"action": "Log"}]}, "denies", "denies"),
    "before connections are tracked": (
        "TCP", {"doNotTrack": True, "applyOnForward": True}, "", ""),
    "forwarded traffic too": ("TCP", {"applyOnForward": True}, "denies", "denies"),
    "a tier that ends with Deny": (
        "TCP", {"tier": "early", "ingress": [{"action": "Deny", "source": LEFT}]},
        "denies", "denies"),
    "a tier that is passed": (
        "TCP",
        {"tier": "early", "ingress": [{"action": "Deny", "source": LEFT}, {"action": "Pass"}]},
        "", ""),
    "a tier that passes": (
        "TCP", {"tier": "passing", "ingress": [{"action": "Deny", "source": LEFT}]}, "", ""),
    "what HTTP asks for": ("TCP", {"ingress": [allow(http={"methods": ["GET"]})]},
                       "may deny", "may deny"),
}  # fmt: skip
"""Name to protocol, fields of a GlobalNetworkPolicy, and what it does to a Linux and to a Windows
pod."""


@pytest.mark.parametrize("name", STRANGERS)
def test_policies_of_strangers_are_read_as_the_node_reads_them(name: str) -> None:
    protocol, spec, on_linux, on_windows = STRANGERS[name]
    judge = there("GlobalNetworkPolicy", **INGRESS | spec)
    judge.kube.lists[V3, "Tier"] = [  # type: ignore[attr-defined]
        an_object("early", order=10), an_object("passing", order=None, defaultAction="Pass"),
    ]  # fmt: skip
    for pod, does in ((LINUX, on_linux), (WINDOWS, on_windows)):
        told = closed(judge, OTHER, pod, protocol)
        assert (f" {does} ingress of " in told) if does else told == "", told
