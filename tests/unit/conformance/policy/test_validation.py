# SPDX-License-Identifier: Apache-2.0
"""What Calico or Kubernetes refuses is refused in one line, and nothing that Calico takes is."""

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
- {apiVersion: v1, kind: Pod, metadata: {name: w, namespace: a}, spec: {os: {name: windows}}, status: {podIP: 10.1.0.1}}
- {apiVersion: v1, kind: Pod, metadata: {name: l, namespace: a}, spec: {os: {name: linux}}, status: {podIP: 10.1.0.2}}
"""


def reach(text: str) -> Reach:
    return Reach(inputs.given(yaml.safe_load(PODS) + yaml.safe_load(text), "file").objects)


def refusal(text: str) -> str:
    try:
        reach(text)
    except UsageProblem as problem:
        return str(problem)
    return ""


def calico(rules: str, kind: str = "NetworkPolicy", more: str = "") -> str:
    space = "" if "Global" in kind else ", namespace: a"
    return f"- {{apiVersion: projectcalico.org/v3, kind: {kind}, metadata: {{name: p{space}}}, spec: {{{more}{rules}}}}}"


def kubernetes(ingress: str) -> str:
    return f"- {{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: p, namespace: a}}, spec: {{podSelector: {{}}, ingress: [{ingress}]}}}}"


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ("ingress: [{action: Allow, source: {nets: ['fd00::/8', 10.0.0.0/8]}}]", "networks of IPv4 and of IPv6"),
        ("ingress: [{action: Allow, source: {nets: [10.0.0.0/8]}, destination: {notNets: ['fd00::/8']}}]", "networks of IPv4 and of IPv6"),
        ("egress: [{action: Allow, ipVersion: 6, destination: {nets: [10.0.0.0/8]}}]", "networks of another IP version"),
        ("ingress: [{action: Allow, source: {notNets: [0.0.0.0/0]}}]", "notNets of all addresses"),
        ("ingress: [{action: Allow, source: {notNets: ['::/0']}}]", "notNets of all addresses"),
        ("ingress: [{action: Allow, icmp: {type: 8}}]", "icmp without protocol"),
        ("ingress: [{action: Allow, protocol: TCP, icmp: {type: 8}}]", "icmp without protocol"),
        ("ingress: [{action: Allow, destination: {services: {name: s}}}]", "services but as the source of ingress"),
        ("egress: [{action: Allow, source: {services: {name: s}}}]", "services but as the source of ingress"),
        ("egress: [{action: Allow, destination: {services: {name: s}, selector: all()}}]", "services beside selectors"),
        ("egress: [{action: Allow, destination: {services: {name: s}, nets: [10.0.0.0/8]}}]", "services beside selectors"),
        ("egress: [{action: Allow, protocol: TCP, destination: {services: {name: s}, ports: [80]}}]", "ports beside services"),
        ("egress: [{action: Allow, http: {methods: [GET]}}]", "http but in Allow rules"),
        ("ingress: [{action: Deny, http: {methods: [GET]}}]", "http but in Allow rules"),
        ("ingress: [{action: Allow, protocol: UDP, http: {methods: [GET]}}]", "http but in Allow rules"),
        ("types: [Ingress, Ingress]", "a type that is there twice"),
        ("ingress: [{action: Allow, protocol: TCP, destination: {ports: [0]}}]", "0 is no range of ports"),
    ],
)  # fmt: skip
def test_what_calico_refuses_is_refused(rules: str, why: str) -> None:
    for kind in ("NetworkPolicy", "GlobalNetworkPolicy", "StagedGlobalNetworkPolicy"):
        found = refusal(calico(rules.replace("name: s}", "name: s, namespace: a}"), kind))
        assert why in found
        assert found.startswith(f"{kind} ")


def test_a_service_needs_a_namespace_in_a_global_policy_alone() -> None:
    rules = "egress: [{action: Allow, destination: {services: {name: s}}}]"
    assert "services without a namespace" in refusal(calico(rules, "GlobalNetworkPolicy"))
    assert refusal(calico(rules)) == ""


@pytest.mark.parametrize(
    "rules",
    [
        "ingress: [{action: Allow, source: {nets: [0.0.0.0/0], notNets: [10.0.0.0/8]}}]",
        "ingress: [{action: Allow, protocol: ICMPv6, source: {nets: [10.0.0.0/8]}}]",
        "ingress: [{action: Allow, notICMP: {type: 8}}]",
        "ingress: [{action: Allow, http: {methods: [GET]}, source: {serviceAccounts: {names: [s]}}}]",
        "ingress: [{action: Allow, protocol: TCP, source: {services: {name: s, namespace: a}}, destination: {ports: [80]}}]",
        "egress: [{action: Allow, protocol: TCP, source: {selector: all()}, destination: {services: {name: s, namespace: a}}}]",
        "ingress: [{action: Allow, ipVersion: 6, source: {nets: ['fd00::/8']}}, {action: Allow, ipVersion: 4, source: {nets: [10.0.0.0/8]}}]",
    ],
)  # fmt: skip
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
    "obj",
    [
        "{apiVersion: longhorn.io/v1beta2, kind: Node, metadata: {name: n}, spec: {}}",
        "{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: j, namespace: a}, spec: {tasks: []}}",
        "{apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: s, namespace: a}, spec: {template: {}}}",
        "{apiVersion: example.com/v1, kind: Pod, metadata: {name: w, namespace: a}}",
        "{apiVersion: crd.antrea.io/v1beta1, kind: Tier, metadata: {name: t}, spec: {priority: 5}}",
        "{apiVersion: example.com/v1, kind: Namespace, metadata: {name: a, labels: {team: x}}}",
    ],
)
def test_a_kind_of_another_projects_api_is_passed_over_by_name(obj: str) -> None:
    asked = reach(f"- {obj}")
    named = yaml.safe_load(obj)
    assert [f"{named['kind']} " in one for one in passed_over(asked.world)] == [True]
    assert [end.name for end in asked.ends] == ["a/l", "a/w"]
    assert asked.world.undescribed == ["a"]
    assert not asked.world.unknown_services


@pytest.mark.parametrize(
    ("obj", "judged"),
    [
        ("{apiVersion: kuma.io/v1alpha1, kind: MeshTrafficPermission, metadata: {name: x, namespace: kuma-system}}", False),
        ("{apiVersion: consul.hashicorp.com/v1alpha1, kind: ServiceIntentions, metadata: {name: x, namespace: a}}", False),
        ("{apiVersion: consul.hashicorp.com/v1alpha1, kind: ServiceIntentions, metadata: {name: x, namespace: b}}", True),
    ],
)  # fmt: skip
def test_permissions_of_service_meshes_are_not_judged(obj: str, judged: bool) -> None:
    assert (reach(f"- {obj}").unjudged == {}) is judged


def test_a_slice_of_names_has_no_addresses() -> None:
    slice_of = "- {apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: %s, metadata: {name: s, namespace: a, labels: {kubernetes.io/service-name: s}}, endpoints: [{addresses: [db.example.com]}]}"
    assert not reach(slice_of % "FQDN").world.backends
    assert refusal(slice_of % "IPv4") == "EndpointSlice a/s: 'db.example.com' is no address"
