# SPDX-License-Identifier: Apache-2.0
"""A path under policies of other owners: the directions and ends at which policies apply to it."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.foreign.paths import end_of, may_close, node_end, pod_in, ways_between
from conformance.model.endpoint import Addressing, Target, Workload
from conformance.policy.foreign import End, ForeignPolicy
from conformance.policy.oracle.rules import NOT_KNOWN
from conformance.policy.oracle.switches import PROMISE
from tests.unit.conformance.builders import a_pod, a_workload

POD = a_workload("client", address="192.168.0.5")
SERVER = a_workload("server", "windows", address="192.168.1.7")
HOST = a_workload("host", host_network=True, node="linux-1", address="10.0.0.11")
NEIGHBOUR = a_workload("neighbour", node="linux-1")
SERVICE = Target(
    host="10.96.0.8",
    port=80,
    protocol="tcp",
    path=Addressing.CLUSTER_IP,
    backends=(SERVER,),
    backend_port=8080,
)
OUTSIDE = Target(host="203.0.113.9", port=443, protocol="tcp", path=Addressing.EXTERNAL)
NAMED = Target(host="example.org", port=443, protocol="tcp", path=Addressing.EXTERNAL)


def ways(source: Workload, target: Target, **labels: str) -> list[tuple[Any, ...]]:
    """Return where policies apply: the end's name, direction, ports, and whether the other end is
    known."""
    ends = {
        pod.uid: end_of(a_pod(pod.pod), {"metadata": {"name": "ns"}}, None, pod, (PROMISE,))
        for pod in (POD, SERVER, NEIGHBOUR)
    }
    ends[HOST.uid] = node_end("linux-1", labels, HOST.address)
    return [
        (name, way.direction, way.ports, way.other.address != NOT_KNOWN)
        for name, way in ways_between(ends, source, target, "")
    ]


@pytest.mark.parametrize(
    ("source", "target", "found"),
    [
        pytest.param(
            POD,
            SERVER.tcp(80),
            [("ns/client", "egress", (80,), True), ("ns/server", "ingress", (80,), True)],
            id="from pod to pod",
        ),
        pytest.param(
            POD,
            SERVICE,
            [("ns/client", "egress", (80, 8080), True), ("ns/server", "ingress", (8080,), False)],
            id="by a Service, behind which the source may be another",
        ),
        pytest.param(
            POD, OUTSIDE, [("ns/client", "egress", (443,), True)], id="out of the cluster"
        ),
        pytest.param(POD, NAMED, [("ns/client", "egress", (443,), False)], id="to a name"),
        pytest.param(POD, HOST.tcp(22), [("ns/client", "egress", (22,), True)], id="to a node"),
        pytest.param(
            HOST, SERVER.tcp(80), [("ns/server", "ingress", (80,), True)], id="from a node"
        ),
        pytest.param(HOST, NEIGHBOUR.tcp(80), [], id="from a node to its own pod"),
    ],
)
def test_policies_apply_to_the_egress_and_the_ingress_of_pods(
    source: Workload, target: Target, found: list[tuple[Any, ...]]
) -> None:
    assert ways(source, target) == found


def test_policies_apply_to_a_node_by_its_host_endpoint_but_for_its_own_pods() -> None:
    assert [way[:2] for way in ways(HOST, SERVER.tcp(80), role="node")] == [
        ("node linux-1", "egress"),
        ("ns/server", "ingress"),
    ]
    assert ways(HOST, NEIGHBOUR.tcp(80), role="node") == []


def test_the_protocol_is_the_target_s_unless_it_is_said() -> None:
    ends = {POD.uid: End(), SERVER.uid: End()}
    for said, expected in (("", {"UDP"}), ("ICMP", {"ICMP"})):
        found = ways_between(ends, POD, SERVER.udp(53), said)
        assert {way.protocol for _, way in found} == expected


NAMESPACE = {"metadata": {"name": "ns", "labels": {"team": "a"}}}
ACCOUNT = {"metadata": {"name": "teller", "labels": {"may": "pay"}}}


@pytest.mark.parametrize(
    ("pod", "namespace", "account", "known"),
    [
        pytest.param(None, None, None, (False, False, False, False), id="nothing is read"),
        pytest.param(a_pod("p"), None, None, (True, False, False, False), id="the pod alone"),
        pytest.param(a_pod("p"), NAMESPACE, None, (True, True, True, False), id="no account"),
        pytest.param(None, NAMESPACE, ACCOUNT, (False, False, True, True), id="no pod"),
        pytest.param(a_pod("p"), NAMESPACE, ACCOUNT, (True, True, True, True), id="all"),
    ],
)
def test_labels_that_were_not_read_are_unknown_and_none_are_invented(
    pod: Any, namespace: Any, account: Any, known: tuple[bool, ...]
) -> None:
    found: Any = end_of(pod, namespace, account, POD, (PROMISE,)).member
    parts = (found.own, found.labels, found.namespace_labels, found.account_labels)
    assert tuple(part is not None for part in parts) == known
    assert (found.ports is not None) is (pod is not None)
    if all(known):
        assert found.labels["pcns.team"] == "a"
        assert found.labels["pcsa.may"] == "pay"


@pytest.mark.parametrize(
    ("address", "known"), [("192.168.0.5", True), ("fd00::5", False), ("", False)]
)
def test_an_address_that_is_no_ipv4_is_not_known(address: str, known: bool) -> None:
    pod = a_workload("p", address=address)
    assert (end_of(None, None, None, pod, (PROMISE,)).address != NOT_KNOWN) is known
    assert (node_end("n", {}, address).address != NOT_KNOWN) is known


def a_policy(namespace: str, **spec: Any) -> ForeignPolicy:
    return ForeignPolicy(
        kind="NetworkPolicy",
        name="p",
        namespace=namespace,
        api="networking.k8s.io/v1",
        uid="u",
        version="1",
        spec={"podSelector": {}} | spec,
    )


@pytest.mark.parametrize(
    ("policies", "namespaces", "may"),
    [
        ([], ["demo"], False),
        ([a_policy("demo", policyTypes=["Ingress"])], ["demo"], True),
        ([a_policy("demo", policyTypes=["Egress"])], ["other", "demo"], True),
        ([a_policy("demo", policyTypes=["Ingress"])], ["other"], False),
        ([a_policy("demo", policyTypes=["Ingress"], ingress=[{}])], ["demo"], False),
        ([a_policy("demo", podSelector={"matchLabels": {"a": "b"}})], ["demo"], True),
        ([a_policy("demo", policyTypes=["Ingress"])], [], False),
    ],
)
def test_a_policy_may_close_a_path_of_a_namespace_unless_it_certainly_does_not(
    policies: list[ForeignPolicy], namespaces: list[str], may: bool
) -> None:
    assert may_close(policies, namespaces, [(PROMISE,)]) is may


def test_of_a_pod_in_a_namespace_nothing_else_is_known() -> None:
    pod = pod_in("demo", {"team": "a"})
    assert (pod.namespace, pod.namespace_labels) == ("demo", {"team": "a"})
    assert (pod.own, pod.labels, pod.account_labels, pod.ports) == (None, None, None, None)
    assert pod.address == NOT_KNOWN
