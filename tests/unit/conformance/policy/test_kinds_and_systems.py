# SPDX-License-Identifier: Apache-2.0
"""Policies of kinds that are not read, pods' operating systems, Services without slices, IPv6, and
differences between releases."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from conformance.errors import UsageProblem
from conformance.offline import inputs
from conformance.offline.summary import Summary
from conformance.policy import systems
from conformance.policy.oracle.oracle import Verdict
from conformance.policy.reach import Reach

OPEN, CLOSED, NOT_SAID, NOT_JUDGED = (
    Verdict.ALLOWED,
    Verdict.DENIED,
    Verdict.NOT_SAID,
    Verdict.NOT_JUDGED,
)
PODS = """
- {apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: a}}}
- {apiVersion: v1, kind: Namespace, metadata: {name: bank, labels: {team: b}}}
- apiVersion: v1
  kind: Pod
  metadata: {name: web, namespace: shop, labels: {app: web}}
  spec: {nodeName: n1, os: {name: windows}, containers: [{name: c, ports: [{name: http,
        containerPort: 8080}]}]}
  status: {podIP: 10.1.0.1, podIPs: [{ip: 10.1.0.1}, {ip: "fd00::1"}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: till, namespace: bank, labels: {app: till}}
  spec: {nodeName: n2, os: {name: linux}, containers: [{name: c}]}
  status: {podIP: 10.2.0.1, podIPs: [{ip: 10.2.0.1}, {ip: "fd00::2"}]}
"""


def policy(
    kind: str, name: str, spec: str, space: str = "shop", api: str = "projectcalico.org/v3"
) -> str:
    where = f", namespace: {space}" if space else ""
    return (
        f"- {{apiVersion: {api}, kind: {kind}, metadata: {{name: {name}{where}}}, spec: "
        f"{{{spec}}}}}\n"
    )


def reach(*texts: str, pods: str = PODS) -> Reach:
    objects = [obj for text in (pods, *texts) for obj in yaml.safe_load(text)]
    return Reach(inputs.given(objects, "here").objects)


def verdicts(
    found: Reach, source: str, target: str, port: int = 80, family: int = 4
) -> list[Verdict]:
    """Return the verdicts for TCP by column."""
    (verdict,) = {
        way.verdicts
        for way in found.ways()
        if (way.source.name, way.destination.name, way.protocol, way.family)
        == (source, target, 6, family)
        and any(first <= port <= last for first, last in way.ports)
    }
    return list(verdict)


def notes(found: Reach) -> str:
    return "\n".join(Summary(found).notes(9))


@pytest.mark.parametrize(
    ("kind", "api", "space", "judged"),
    [
        ("CiliumNetworkPolicy", "cilium.io/v2", "shop", {"bank/till"}),
        ("AuthorizationPolicy", "security.istio.io/v1", "bank", {"shop/web"}),
        ("AuthorizationPolicy", "security.istio.io/v1", "istio-system", set()),
        ("CiliumClusterwideNetworkPolicy", "cilium.io/v2", "", set()),
        ("EgressGatewayPolicy", "projectcalico.org/v3", "", set()),
        (
            "ValidatingAdmissionPolicy",
            "admissionregistration.k8s.io/v1",
            "",
            {"bank/till", "shop/web"},
        ),
        ("PodDisruptionBudget", "policy/v1", "shop", {"bank/till", "shop/web"}),
        ("EgressFirewall", "k8s.ovn.org/v1", "shop", {"bank/till"}),
        ("Server", "policy.linkerd.io/v1beta3", "shop", {"bank/till"}),
        ("ServerAuthorization", "policy.linkerd.io/v1beta1", "shop", {"bank/till"}),
        ("Sidecar", "networking.istio.io/v1", "bank", {"shop/web"}),
        ("NetworkPolicy", "crd.antrea.io/v1beta1", "shop", {"bank/till"}),
        ("ClusterNetworkPolicy", "crd.antrea.io/v1beta1", "", set()),
    ],
)
def test_pods_that_an_unread_policy_may_be_about_are_not_judged(
    kind: str, api: str, space: str, judged: set[str]
) -> None:
    found = reach(policy(kind, "c", "", space, api))
    assert {end.name for end in found.ends if not end.unjudged} == judged
    told = {NOT_JUDGED} if judged != {"bank/till", "shop/web"} else {OPEN}
    assert set(verdicts(found, "bank/till", "shop/web")) == told
    assert (f"since {kind} " in notes(found)) is (told == {NOT_JUDGED})


def test_a_closed_end_stays_closed_beside_one_that_is_not_judged() -> None:
    closed = policy("NetworkPolicy", "p", "egress: []", "bank").replace(
        "egress: []", "types: [Egress]"
    )
    found = reach(policy("CiliumNetworkPolicy", "c", "", "shop", "cilium.io/v2"), closed)
    assert set(verdicts(found, "bank/till", "shop/web")) == {CLOSED}


@pytest.mark.parametrize(
    ("forwards", "expected"), [("true", {"bank/till"}), ("false", {"bank/till", "shop/web"})]
)
def test_host_endpoints_decide_about_pods_where_policies_apply_on_forward(
    forwards: str, expected: set[str]
) -> None:
    host = (
        "- {apiVersion: projectcalico.org/v3, kind: HostEndpoint, metadata: {name: h, "
        "labels: {role: host}}, spec: {node: n1}}\n"
    )
    rules = f"selector: role == 'host', applyOnForward: {forwards}, ingress: []"
    found = reach(host, policy("GlobalNetworkPolicy", "g", rules, ""))
    assert {end.name for end in found.ends if not end.unjudged} == expected


def test_a_policy_that_selects_nobody_is_named() -> None:
    assert "selects no pod: NetworkPolicy shop/p" in notes(
        reach(policy("NetworkPolicy", "p", "selector: app == 'wbe'"))
    )
    assert "selects no pod" not in notes(
        reach(policy("NetworkPolicy", "p", "selector: app == 'web'"))
    )


TERM = "{nodeSelectorTerms: [{matchExpressions: [%s]}]}"


def spec_of(text: str) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(text)
    return read


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("{}", ""),
        ("{os: {name: windows}}", "windows"),
        ("{nodeSelector: {kubernetes.io/os: windows}}", "windows"),
        ("{nodeSelector: {beta.kubernetes.io/os: windows}}", "windows"),
        ("{nodeSelector: {node.kubernetes.io/windows-build: 10.0.20348}}", "windows"),
        ("{nodeSelector: {disk: ssd}}", ""),
        ("{securityContext: {windowsOptions: {runAsUserName: x}}}", "windows"),
        ("{containers: [{securityContext: {windowsOptions: {hostProcess: false}}}]}", "windows"),
        ("{runtimeClassName: w2022}", "windows"),
        ("{runtimeClassName: gvisor}", ""),
        ("{nodeName: lin, nodeSelector: {kubernetes.io/os: windows}}", "linux"),
        ("{nodeName: elsewhere}", ""),
        ("{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: %s}}}"
         % (TERM % "{key: kubernetes.io/os, operator: In, values: [windows]}"), "windows"),
        ("{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: %s}}}"
         % (TERM % "{key: beta.kubernetes.io/os, operator: NotIn, values: [linux]}"), "windows"),
        ("{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: %s}}}"
         % (TERM % "{key: kubernetes.io/os, operator: In, values: [linux, windows]}"), ""),
        ("{affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [%s]}}}"
         % (TERM % "{key: kubernetes.io/os, operator: In, values: [windows]}"), ""),
    ],
)  # fmt: skip
def test_a_pods_system_is_read_from_all_that_places_it(spec: str, expected: str) -> None:
    nodes = {"lin": "linux", "win": "windows"}
    classes = {"w2022": {"kubernetes.io/os": "windows"}}
    assert systems.of_pod(spec_of(spec), nodes, classes) == expected


def test_a_pod_of_unknown_system_is_judged_for_both() -> None:
    rules = "selector: app == 'till', ingress: [{action: Allow, source: {notNets: [10.9.0.0/16]}}]"
    found = reach(
        policy("NetworkPolicy", "p", rules, "bank"), pods=PODS.replace("os: {name: linux}, ", "")
    )
    told = {
        way.destination.os: way.verdicts[:2]
        for way in found.ways()
        if way.destination.name == "bank/till" and way.family == 4
    }
    assert told == {"linux": (OPEN, OPEN), "windows": (OPEN, CLOSED)}
    assert "judged as a Linux and as a Windows pod: bank/till" in notes(found)


SERVICE = (
    "- {apiVersion: v1, kind: Service, metadata: {name: s, namespace: shop}, spec: "
    "{%sports: [{port: 80, targetPort: http}]}}\n"
)
TO_SERVICE = policy(
    "NetworkPolicy",
    "p",
    "types: [Egress], egress: [{action: Allow, destination: {services: {name: s, "
    "namespace: shop}}}]",
    "bank",
)


@pytest.mark.parametrize(
    ("service", "port", "expected"),
    [
        (SERVICE % "selector: {app: web}, ", 8080, OPEN),
        (SERVICE % "selector: {app: web}, ", 80, CLOSED),
        (SERVICE % "selector: {app: other}, ", 8080, CLOSED),
        (SERVICE % "", 8080, NOT_SAID),
        ("[]", 8080, NOT_SAID),
    ],
)
def test_members_of_a_service_without_slices_are_its_selectors_pods(
    service: str, port: int, expected: Verdict
) -> None:
    found = reach(TO_SERVICE, service)
    assert verdicts(found, "bank/till", "shop/web", port)[0] is expected


def test_ipv6_is_judged_beside_ipv4_and_not_said_on_windows() -> None:
    rules = "types: [Egress], egress: [{action: Allow, destination: {nets: ['fd00::/64']}}]"
    found = reach(policy("NetworkPolicy", "p", rules, "bank"))
    assert set(verdicts(found, "bank/till", "shop/web", family=4)) == {CLOSED}
    assert verdicts(found, "bank/till", "shop/web", family=6)[:2] == [OPEN, NOT_SAID]


ADMIN = (
    "subject: {namespaces: {}}, priority: 1, ingress: [{name: r, action: Deny, from: "
    "[{namespaces: {}}]}]"
)
NPA = "policy.networking.k8s.io"


def test_releases_read_the_older_kinds_or_the_newer_one() -> None:
    older = reach(policy("AdminNetworkPolicy", "a", ADMIN, "", f"{NPA}/v1alpha1"))
    newer = reach(
        policy("ClusterNetworkPolicy", "c", f"tier: Admin, {ADMIN}", "", f"{NPA}/v1alpha2")
    )
    assert [column.name for column in older.columns][2:] == [
        "v3.29",
        "v3.30 to v3.31",
        "v3.32 to v3.33",
    ]
    assert verdicts(older, "bank/till", "shop/web") == [CLOSED, CLOSED, CLOSED, CLOSED, OPEN]
    assert verdicts(newer, "bank/till", "shop/web") == [CLOSED, CLOSED, OPEN, OPEN, CLOSED]


def test_a_named_port_of_an_administrators_policy_is_skipped_on_windows() -> None:
    spec = (
        "tier: Admin, subject: {namespaces: {}}, priority: 1, ingress: [{name: r, action: "
        "Deny, from: [{namespaces: {}}], protocols: [{destinationNamedPort: http}]}]"
    )
    found = reach(policy("ClusterNetworkPolicy", "c", spec, "", f"{NPA}/v1alpha2"))
    assert verdicts(found, "bank/till", "shop/web", 8080)[:2] == [CLOSED, OPEN]


def test_calicos_own_tiers_need_no_file() -> None:
    for tier in ("adminnetworkpolicy", "baselineadminnetworkpolicy", "kube-admin", "kube-baseline"):
        found = reach(
            policy(
                "GlobalNetworkPolicy", f"{tier}.g", f"tier: {tier}, ingress: [{{action: Deny}}]", ""
            )
        )
        assert set(verdicts(found, "bank/till", "shop/web")) == {CLOSED}


def test_a_negated_protocol_is_of_no_ip_version() -> None:
    net = "ICMPv6"
    rule = f"ingress: [{{action: Allow, notProtocol: {net}}}]"
    found = reach(policy("NetworkPolicy", "p", rule))
    assert verdicts(found, "bank/till", "shop/web")[0] is OPEN
    with pytest.raises(UsageProblem, match="Calico refuses ipVersion 4 for this protocol"):
        reach(policy("NetworkPolicy", "p", rule.replace(f"{net}}}", f"{net}, ipVersion: 4}}")))


def test_ports_of_a_service_combine_and_may_end_felix() -> None:
    tier = (
        "- {apiVersion: projectcalico.org/v3, kind: Tier, metadata: {name: t}, spec: {order: 1}}\n"
    )
    service = (
        "- {apiVersion: v1, kind: Service, metadata: {name: s, namespace: shop}, spec: "
        "{selector: {app: web}, ports: [{port: 80}]}}\n"
    )
    peer = "services: {name: s, namespace: shop}"
    passing = f"tier: t, types: [Egress], egress: [{{action: Pass, destination: {{{peer}}}}}]"
    objects = tier + service + policy("GlobalNetworkPolicy", "t.p", passing, "")
    for port, danger in ((80, True), (81, False)):
        rule = f"action: Allow, protocol: TCP, destination: {{ports: [{port}]}}"
        behind = f"types: [Egress], egress: [{{{rule}}}]"
        found = reach(objects, policy("GlobalNetworkPolicy", "q", behind, ""), pods=WINDOWS_WEB)
        assert bool(found.panics()) is danger
        (told,) = {
            way.verdicts[-1]
            for way in found.ways()
            if (way.source.name, way.destination.name, way.protocol) == ("shop/till", "shop/web", 6)
            and any(first <= 443 <= last for first, last in way.ports)
        }
        # ports 80 and 81 have none in common, which becomes any port
        assert told is (CLOSED if danger else OPEN)


WINDOWS_WEB = """
- {apiVersion: v1, kind: Namespace, metadata: {name: shop}}
- apiVersion: v1
  kind: Pod
  metadata: {name: till, namespace: shop}
  spec: {os: {name: windows}, containers: [{name: c}]}
  status: {podIP: 10.1.0.1}
- apiVersion: v1
  kind: Pod
  metadata: {name: web, namespace: shop, labels: {app: web}}
  spec: {os: {name: linux}, containers: [{name: c}]}
  status: {podIP: 10.1.0.2}
"""


@pytest.mark.parametrize("net", ["10.1.2.3/8", "10.1.2.3"])
def test_networks_that_calico_refuses_are_refused(net: str) -> None:
    with pytest.raises(UsageProblem, match="Calico refuses"):
        reach(
            policy("NetworkPolicy", "p", f"ingress: [{{action: Allow, source: {{nets: [{net}]}}}}]")
        )


@pytest.mark.parametrize("kind", ["StagedKubernetesNetworkPolicy", "StagedNetworkPolicy"])
def test_a_staged_deletion_is_no_policy(kind: str) -> None:
    found = reach(policy(kind, "p", "stagedAction: Delete"), pods=WINDOWS_WEB)
    assert found.oracle.policies == []


@pytest.mark.parametrize("name", ["a/b", "A", "a_b", "-a", "a..b", "a" * 254])
def test_a_policys_name_that_kubernetes_refuses_is_refused(name: str) -> None:
    rule = "ingress: [{action: Allow}]"
    with pytest.raises(UsageProblem, match="Kubernetes refuses this name"):
        reach(policy("NetworkPolicy", name, rule))
    assert reach(policy("NetworkPolicy", name.strip("-")[0].lower() + ".b-2", rule))


def test_a_workload_is_the_pod_of_its_template_unless_it_has_pods() -> None:
    workload = """
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: %s, namespace: shop}
  spec:
    selector: {matchLabels: {app: %s}}
    template: {metadata: {labels: {app: %s}}, spec: {nodeSelector: {kubernetes.io/os: windows},
          containers: [{name: c}]}}
"""
    found = reach(workload % ("api", "api", "api"), workload % ("web", "web", "web"))
    assert [(end.name, end.os) for end in found.ends] == [
        ("bank/till", "linux"),
        ("shop/api", "windows"),
        ("shop/web", "windows"),
    ]
    assert "no address is known, so it is in no network except 0.0.0.0/0: shop/api" in notes(found)


@pytest.mark.parametrize(
    ("kind", "spec", "pods"),
    [
        ("Deployment", "replicas: 3, ", ["shop/api", "shop/api#2"]),
        ("Deployment", "replicas: 1, ", ["shop/api"]),
        ("Deployment", "", ["shop/api"]),
        ("StatefulSet", "replicas: 2, ", ["shop/api", "shop/api#2"]),
        ("DaemonSet", "", ["shop/api", "shop/api#2"]),
        ("Job", "parallelism: 2, ", ["shop/api", "shop/api#2"]),
        ("Job", "replicas: 2, ", ["shop/api"]),
    ],
)
def test_pods_of_a_workload_reach_each_other(kind: str, spec: str, pods: list[str]) -> None:
    template = (
        "{metadata: {labels: {app: api}}, spec: {os: {name: linux}, containers: [{name: c}]}}"
    )
    workload = (
        f"- {{apiVersion: apps/v1, kind: {kind}, metadata: {{name: api, namespace: shop}}, "
        f"spec: {{{spec}template: {template}}}}}\n"
    )
    found = reach(workload, policy("NetworkPolicy", "p", "selector: app == 'api', ingress: []"))
    assert [end.name for end in found.ends if end.name.startswith("shop/api")] == pods
    if len(pods) == 2:
        assert set(verdicts(found, pods[0], pods[1])) == {CLOSED}


@pytest.mark.parametrize(
    ("action", "expected"), [("Deny", CLOSED), ("Pass", CLOSED), ("Accept", OPEN)]
)
def test_a_rule_with_a_peer_that_calico_does_not_read_fails_closed(
    action: str, expected: Verdict
) -> None:
    rules = f"egress: [{{name: r, action: {action}, to: [{{nodes: {{}}}}]}}]"
    spec = f"tier: Admin, subject: {{namespaces: {{}}}}, priority: 1, {rules}"
    found = reach(policy("ClusterNetworkPolicy", "c", spec, "", f"{NPA}/v1alpha2"))
    assert verdicts(found, "bank/till", "shop/web")[0] is expected


def test_a_node_reaches_its_own_pods_and_another_address_does_not() -> None:
    node = (
        "- {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {addresses: [{type: "
        "InternalIP, address: 10.0.0.1}]}}\n"
    )
    objects = [
        obj
        for text in (PODS, node, policy("NetworkPolicy", "p", "ingress: []"))
        for obj in yaml.safe_load(text)
    ]
    found = Reach(inputs.given(objects, "here").objects, ["10.0.0.9", "10.0.0.1"])
    assert set(verdicts(found, "10.0.0.9", "shop/web")) == {CLOSED}
    assert set(verdicts(found, "10.0.0.1", "shop/web")) == {OPEN}
