# SPDX-License-Identifier: Apache-2.0
"""Objects that Calico or Kubernetes refuses are refused in one line, and no object that Calico
accepts is refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from conformance.errors import UsageProblem
from conformance.offline import inputs
from conformance.policy.oracle.policies import policy_of
from conformance.policy.reach import Reach
from conformance.policy.unread import passed_over
from conformance.policy.validation import check_object, check_policy

GOLDEN = Path(__file__).parents[4] / "tests" / "golden"
TABLES = sorted(GOLDEN.glob("windows-policy*/windows_acls*.jsonl.gz"))
PODS = """
- apiVersion: v1
  kind: Pod
  metadata: {name: w, namespace: a}
  spec: {os: {name: windows}}
  status: {podIP: 10.1.0.1}
- apiVersion: v1
  kind: Pod
  metadata: {name: l, namespace: a}
  spec: {os: {name: linux}}
  status: {podIP: 10.1.0.2}
"""


def reach(text: str) -> Reach:
    return Reach(inputs.given(yaml.safe_load(PODS) + yaml.safe_load(text), "file").objects)


def refusal(text: str) -> str:
    try:
        reach(text)
    except UsageProblem as problem:
        return str(problem)
    return ""


def calico(rules: str, kind: str = "NetworkPolicy") -> str:
    space = "" if "Global" in kind else ", namespace: a"
    meta = f"metadata: {{name: p{space}}}"
    return f"- {{apiVersion: projectcalico.org/v3, kind: {kind}, {meta}, spec: {{{rules}}}}}"


def allow(rule: str, way: str = "ingress") -> str:
    """The rules of a Calico policy with one Allow rule."""
    return f"{way}: [{{action: Allow, {rule}}}]"


def kubernetes(ingress: str) -> str:
    of = "apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p, namespace: a}"
    return f"- {{{of}, spec: {{podSelector: {{}}, ingress: [{ingress}]}}}}"


MIXED = "networks of IPv4 and of IPv6"
SIDE = "services except as the source of ingress"
BESIDE = "services together with a selector or nets"
HTTP = "http except in Allow rules"
SERVICE = "services: {name: s, namespace: a}"
GET = "http: {methods: [GET]}"


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        (allow("source: {nets: ['fd00::/8', 10.0.0.0/8]}"), MIXED),
        (allow("source: {nets: [10.0.0.0/8]}, destination: {notNets: ['fd00::/8']}"), MIXED),
        (
            allow("ipVersion: 6, destination: {nets: [10.0.0.0/8]}"),
            "networks of another IP version",
        ),
        (allow("source: {notNets: [0.0.0.0/0]}"), "notNets of all addresses"),
        (allow("source: {notNets: ['::/0']}"), "notNets of all addresses"),
        (allow("icmp: {type: 8}"), "icmp without protocol"),
        (allow("protocol: TCP, icmp: {type: 8}"), "icmp without protocol"),
        (allow(f"destination: {{{SERVICE}}}"), SIDE),
        (allow(f"source: {{{SERVICE}}}", "egress"), SIDE),
        (allow(f"destination: {{{SERVICE}, selector: all()}}", "egress"), BESIDE),
        (allow(f"destination: {{{SERVICE}, nets: [10.0.0.0/8]}}", "egress"), BESIDE),
        (
            allow(f"protocol: TCP, destination: {{{SERVICE}, ports: [80]}}", "egress"),
            "ports together with services",
        ),
        (allow("destination: {services: {namespace: a}}", "egress"), "services without a name"),
        (allow("destination: {services: {}}", "egress"), "services without a name"),
        (allow(GET, "egress"), HTTP),
        (f"ingress: [{{action: Deny, {GET}}}]", HTTP),
        (allow(f"protocol: UDP, {GET}"), HTTP),
        ("types: [Ingress, Ingress]", "a type that appears twice"),
        (allow("protocol: TCP, destination: {ports: [0]}"), "0 is no range of ports"),
    ],
)
def test_what_calico_refuses_is_refused(rules: str, why: str) -> None:
    for kind in ("NetworkPolicy", "GlobalNetworkPolicy", "StagedGlobalNetworkPolicy"):
        found = refusal(calico(rules, kind))
        assert why in found
        assert found.startswith(f"{kind} ")


def test_a_service_needs_a_namespace_in_a_global_policy_alone() -> None:
    rules = "egress: [{action: Allow, destination: {services: {name: s}}}]"
    assert "services without a name, and in global" in refusal(calico(rules, "GlobalNetworkPolicy"))
    assert refusal(calico(rules)) == ""


@pytest.mark.parametrize(
    "rules",
    [
        allow("source: {nets: [0.0.0.0/0], notNets: [10.0.0.0/8]}"),
        allow("protocol: ICMPv6, source: {nets: [10.0.0.0/8]}"),
        allow("notICMP: {type: 8}"),
        allow(f"{GET}, source: {{serviceAccounts: {{names: [s]}}}}"),
        allow(f"protocol: TCP, source: {{{SERVICE}}}, destination: {{ports: [80]}}"),
        allow(f"protocol: TCP, source: {{selector: all()}}, destination: {{{SERVICE}}}", "egress"),
        allow("ipVersion: 6, source: {nets: ['fd00::/8']}}, {action: Pass, ipVersion: 4"),
    ],
)
def test_what_looks_alike_is_read(rules: str) -> None:
    for kind in ("NetworkPolicy", "GlobalNetworkPolicy"):
        assert refusal(calico(rules, kind)) == ""


@pytest.mark.parametrize(
    ("ingress", "why"),
    [
        ("{from: [null]}", "a peer without podSelector"),
        ("{from: [{ipBlock: {cidr: 10.0.0.1}}]}", "'10.0.0.1' is no network"),
        ("{from: [{ipBlock: {cidr: 10.0.0.0/255.0.0.0}}]}", "is no network"),
        ("{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.0.0.1]}}]}", "'10.0.0.1' is no network"),
        ("{ports: [{port: 0}]}", "0 is no range of ports"),
        ("{from: null}", ""),
        ("{from: [{ipBlock: {cidr: 10.1.2.3/8}}]}", ""),
    ],
)
def test_what_kubernetes_refuses_is_refused(ingress: str, why: str) -> None:
    found = refusal(kubernetes(ingress))
    assert why in found
    assert bool(found) is bool(why)


@pytest.mark.parametrize("table", TABLES, ids=lambda path: path.stem)
def test_nothing_that_calico_takes_is_refused(table: Path) -> None:
    with gzip.open(table, "rt") as lines:
        cases: list[dict[str, Any]] = [json.loads(line) for line in lines]
    taken = [obj for case in cases if "rejected" not in case for obj in case["objects"]]
    assert len(taken) > 100
    for obj in taken:
        check_object(obj)
        policy = policy_of(obj)
        if policy is not None:
            check_policy(policy)


@pytest.mark.parametrize(
    ("api", "kind", "rest"),
    [
        ("longhorn.io/v1beta2", "Node", "spec: {}"),
        ("batch.volcano.sh/v1alpha1", "Job", "spec: {tasks: []}"),
        ("serving.knative.dev/v1", "Service", "spec: {template: {}}"),
        ("example.com/v1", "Pod", "spec: {}"),
        ("crd.antrea.io/v1beta1", "Tier", "spec: {priority: 5}"),
        ("example.com/v1", "Namespace", "spec: {}"),
    ],
)
def test_a_kind_of_another_projects_api_is_passed_over_by_name(
    api: str, kind: str, rest: str
) -> None:
    meta = "metadata: {name: a, namespace: a, labels: {team: x}}"
    asked = reach(f"- {{apiVersion: {api}, kind: {kind}, {meta}, {rest}}}")
    assert passed_over(asked.world) == [f"{kind} a/a"]
    assert [end.name for end in asked.ends] == ["a/l", "a/w"]
    assert asked.world.undescribed == ["a"]
    assert not asked.world.unknown_services


@pytest.mark.parametrize(
    ("api", "kind", "space", "judged"),
    [
        ("kuma.io/v1alpha1", "MeshTrafficPermission", "kuma-system", False),
        ("consul.hashicorp.com/v1alpha1", "ServiceIntentions", "a", False),
        ("consul.hashicorp.com/v1alpha1", "ServiceIntentions", "b", True),
    ],
)
def test_permissions_of_service_meshes_are_not_judged(
    api: str, kind: str, space: str, judged: bool
) -> None:
    meta = f"metadata: {{name: x, namespace: {space}}}"
    asked = reach(f"- {{apiVersion: {api}, kind: {kind}, {meta}}}")
    assert (asked.unjudged == {}) is judged


def test_a_slice_of_names_has_no_addresses() -> None:
    slice_of = """
- apiVersion: discovery.k8s.io/v1
  kind: EndpointSlice
  addressType: %s
  metadata: {name: s, namespace: a, labels: {kubernetes.io/service-name: s}}
  endpoints: [{addresses: [db.example.com]}]
"""
    assert not reach(slice_of % "FQDN").world.backends
    assert refusal(slice_of % "IPv4") == "EndpointSlice a/s: 'db.example.com' is no address"
