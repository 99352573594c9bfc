# SPDX-License-Identifier: Apache-2.0
"""Policies that others published, retold, with answers written down before the oracle was asked.

The pods are ours: ``a/w`` on Windows, ``a/l``, ``b/l`` and ``kube-system/dns`` on Linux.  A row is ``FROM TO PROTOCOL PORT:
promise, on Windows``, one word for both.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import yaml

from conformance.offline import inputs
from conformance.offline.compare import Side, column
from conformance.offline.summary import WORDS
from conformance.offline.walk import ends_of
from conformance.policy.oracle.oracle import of_way
from conformance.policy.reach import Answer, Reach

PODS = {"a/w": "10.1.0.1", "a/l": "10.1.0.2", "b/l": "10.2.0.1", "kube-system/dns": "10.3.0.1"}
K8S, V3 = "networking.k8s.io/v1", "projectcalico.org/v3"
NUMBERS = {"TCP": 6, "UDP": 17}


class Case(NamedTuple):
    """A published set of policies, and what it does."""

    source: str
    policies: str
    rows: str
    labels: dict[str, dict[str, str]]
    """Of pods and of namespaces."""


def k8s(name: str, spec: str, space: str = "a") -> str:
    return f"- {{apiVersion: {K8S}, kind: NetworkPolicy, metadata: {{name: {name}, namespace: {space}}}, spec: {{{spec}}}}}\n"


def gnp(name: str, spec: str, api: str = V3) -> str:
    return f"- {{apiVersion: {api}, kind: GlobalNetworkPolicy, metadata: {{name: {name}}}, spec: {{{spec}}}}}\n"


def admin(kind: str, name: str, spec: str) -> str:
    return f"- {{apiVersion: policy.networking.k8s.io/v1alpha1, kind: {kind}, metadata: {{name: {name}}}, spec: {{{spec}}}}}\n"


SYSTEM = "namespaceSelector: \"kubernetes.io/metadata.name not in {'calico-system', 'kube-public', 'kube-system', 'tigera-operator'}\""
DNS = (
    "{action: Allow, protocol: %s, destination: {selector: \"k8s-app == 'kube-dns'\", ports: [53]}}"
)
BOTH_DNS = f"{DNS % 'UDP'}, {DNS % 'TCP'}"
PRIVATE = "{action: Allow, protocol: %s, %s: {nets: [10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16]}}"
OF_SYSTEM = "namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}"
OF_DNS = "podSelector: {matchLabels: {k8s-app: kube-dns}}"
QUARANTINE = "ingress: [{action: Log, source: {}, destination: {}}, {action: Deny, source: {}, destination: {}}], egress: [{action: Log}, {action: Deny}], doNotTrack: false, types: [Ingress, Egress]"
DENY_ALL = k8s("deny-all", "podSelector: {}, policyTypes: [Egress, Ingress]")

CASES = (
    Case("Profiidev/server-config terraform/network/default-deny.tf",
         gnp("default-deny", f"order: 100, {SYSTEM}, types: [Ingress, Egress], egress: [{BOTH_DNS}]", "crd.projectcalico.org/v1"),
         "a/w kube-system/dns UDP 53: open\na/w kube-system/dns UDP 54: closed\nb/l a/w TCP 80: closed\nkube-system/dns a/w TCP 80: closed", {}),
    Case("Profiidev/server-config terraform/crd/default-deny.tf",
         gnp("default-deny", f"order: 100, {SYSTEM}, types: [Ingress, Egress], egress: [{BOTH_DNS}, {PRIVATE % ('TCP', 'destination')}, "
             f"{PRIVATE % ('UDP', 'destination')}], ingress: [{PRIVATE % ('TCP', 'source')}, {PRIVATE % ('UDP', 'source')}]"),
         "b/l a/w TCP 80: open\na/w 203.0.113.9 TCP 443: closed\n203.0.113.9 a/w TCP 443: closed\n192.168.7.7 a/w UDP 9: open", {}),
    Case("xxradar/kubnernetes_training_for_networkengineer labs/lab8/readme.md, quarantine",
         gnp("quarantine", f"order: 100, selector: quarantine == \"true\", namespaceSelector: '', serviceAccountSelector: '', {QUARANTINE}"),
         "a/w b/l TCP 80: closed\nb/l a/w TCP 80: closed\na/l b/l TCP 80: open", {"a/w": {"quarantine": "true"}}),
    Case("xxradar/kubnernetes_training_for_networkengineer labs/lab8/readme.md, quarantine-ns",
         gnp("quarantine-ns", f"order: 100, selector: '', namespaceSelector: quarantine == \"true\", {QUARANTINE}"),
         "a/w a/l TCP 80: open\nb/l a/w TCP 80: closed\n203.0.113.9 b/l TCP 80: closed", {"b": {"quarantine": "true"}}),
    Case("xxradar/kubnernetes_training_for_networkengineer labs/lab8/readme.md, lab 8-bis",
         "- {apiVersion: cilium.io/v2, kind: CiliumClusterwideNetworkPolicy, metadata: {name: quarantine}, spec: {egressDeny: [{toEntities: [world]}]}}",
         "a/w 203.0.113.9 TCP 80: not judged\nb/l a/w TCP 80: not judged\na/l b/l UDP 53: not judged", {}),
    Case("fhause5/kubectl network-policies.md",
         k8s("my", "podSelector: {matchLabels: {app: nginx}}, policyTypes: [Ingress, Egress], ingress: [{from: [{namespaceSelector: "
             "{matchLabels: {team: np-test}}}], ports: [{port: 80, protocol: TCP}]}]"),
         "b/l a/w TCP 80: open\nb/l a/w TCP 81: closed\na/l a/w TCP 80: closed\na/w b/l TCP 80: closed",
         {"a/w": {"app": "nginx"}, "b": {"team": "np-test"}}),
    Case("flytux/kubernetes-practice Network_Policy.md, multi-port-egress",
         k8s("multi", "podSelector: {matchLabels: {role: db}}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.2.0.0/24}}], "
             "ports: [{protocol: TCP, port: 32000, endPort: 32768}]}]"),
         "a/w b/l TCP 32000: open\na/w b/l TCP 32768: open\na/w b/l TCP 32769: closed\na/w a/l TCP 32000: closed", {"a/w": {"role": "db"}}),
    Case("gary-crowe/hitlist examples/NetworkPolicy_example.bash, allow-from-openshift-ingress",
         k8s("ingress", "podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {network.openshift.io/policy-group: ingress}}}]}]"),
         "b/l a/w TCP 8080: open\na/l a/w TCP 8080: closed\na/w 203.0.113.9 TCP 80: open", {"b": {"network.openshift.io/policy-group": "ingress"}}),
    Case("gary-crowe/hitlist examples/NetworkPolicy_example.bash, internet-access and default-deny",
         k8s("internet-access", "podSelector: {matchLabels: {app: theblacklist}}, policyTypes: [Ingress], ingress: [{}]")
         + k8s("default-deny", "podSelector: {}, policyTypes: [Ingress, Egress]"),
         "203.0.113.9 a/w TCP 443: open\n203.0.113.9 a/l TCP 443: closed\na/w 203.0.113.9 TCP 443: closed", {"a/w": {"app": "theblacklist"}}),
    Case("codota/terraform-google-gke-tabnine tabnine_cloud_values.yaml.tpl",
         k8s("tabnine", "podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{from: [{namespaceSelector: {matchLabels: {name: prometheus}}}], "
             "ports: [{protocol: TCP, port: 8002}]}], egress: [{to: [{ipBlock: {cidr: 203.0.113.9/32}}], ports: [{port: 443, protocol: TCP}]}, "
             f"{{ports: [{{port: 53, protocol: UDP}}], to: [{{{OF_SYSTEM}, {OF_DNS}}}]}}]"),
         "b/l a/w TCP 8002: open\na/w 203.0.113.9 TCP 443: open\na/w 203.0.113.8 TCP 443: closed\na/w kube-system/dns UDP 53: open",
         {"b": {"name": "prometheus"}}),
    Case("Nynra/k3s-charts deprecated/tenantProject/templates/tenantIsolation/networkPolicy.tpl",
         k8s("deny-by-default", "podSelector: {}, ingress: []") + k8s("allow-same-namespace", "podSelector: {}, ingress: [{from: [{podSelector: {}}]}]")
         + k8s("traefik", "podSelector: {matchLabels: {app.kubernetes.io/name: traefik}}, ingress: [{}], policyTypes: [Ingress]"),
         "a/l a/w TCP 80: open\nb/l a/w TCP 80: closed\nb/l a/l TCP 80: open\na/w b/l TCP 80: open", {"a/l": {"app.kubernetes.io/name": "traefik"}}),
    Case("urvil38/kubepaas-generator templates/Kubernetes/networkpolicy.tpl",
         k8s("deny-from-other-namespaces", "podSelector: {matchLabels: null}, ingress: [{from: [{podSelector: {}}]}]"),
         "a/l a/w TCP 1: open\nb/l a/w TCP 1: closed\n203.0.113.9 a/w UDP 1: closed", {}),
    Case("sighupio/fury-distribution templates/distribution/manifests/opa/policies/kyverno/kyverno.yaml.tpl",
         k8s("egress", "podSelector: {matchLabels: {app.kubernetes.io/component: admission-controller}}, policyTypes: [Egress], egress: [{ports: "
             "[{protocol: TCP, port: 6443}]}]")
         + k8s("ingress", "podSelector: {matchLabels: {app.kubernetes.io/component: admission-controller}}, policyTypes: [Ingress], ingress: [{ports: "
               "[{protocol: TCP, port: 9443}]}]"),
         "a/w 203.0.113.9 TCP 6443: open\na/w 203.0.113.9 TCP 443: closed\nb/l a/w TCP 9443: open\nb/l a/w UDP 9443: closed",
         {"a/w": {"app.kubernetes.io/component": "admission-controller"}}),
    Case("ministryofjustice/payforlegalaid deployments/prod/network-policy.tpl",
         k8s("scraping", "podSelector: {}, policyTypes: [Ingress], ingress: [{from: [{namespaceSelector: {matchLabels: {component: monitoring}}}]}]"),
         "b/l a/w TCP 9090: open\na/l a/w TCP 9090: closed\nb/l a/l UDP 1: open", {"b": {"component": "monitoring"}}),
    Case("ministryofjustice/payforlegalaid deployments/dev/network-policy.tpl",
         k8s("scraping", "podSelector: {matchLabels: {app: gpfd-dev-service}}, policyTypes: [Ingress], ingress: [{from: [{namespaceSelector: "
             "{matchLabels: {component: monitoring}}}]}]"),
         "a/l a/w TCP 9090: closed\nb/l a/w TCP 9090: closed\nb/l a/l TCP 9090: open", {"a/w": {"app": "gpfd-dev-service"}}),
    Case("ARK322/voxeil-panel apps/controller/templates/tenant/networkpolicy-deny-all.yaml",
         k8s("default-deny", f"podSelector: {{}}, policyTypes: [Ingress, Egress], ingress: [], egress: [{{to: [{{{OF_SYSTEM}, {OF_DNS}}}], ports: "
             "[{protocol: UDP, port: 53}, {protocol: TCP, port: 53}]}]"),
         "a/w kube-system/dns TCP 53: open\na/w kube-system/dns TCP 80: closed\na/l a/w TCP 80: closed", {}),
    Case("DoD-Platform-One/bb-common chart/templates/networkPolicies/base/_egress-kube-dns.tpl",
         k8s("allow-kube-dns-egress", f"podSelector: {{}}, policyTypes: [Egress], egress: [{{to: [{{{OF_SYSTEM}}}], ports: [{{port: 53, protocol: UDP}}, "
             "{port: 53, protocol: TCP}]}]"),
         "a/w kube-system/dns UDP 53: open\na/w b/l UDP 53: closed\nb/l a/w TCP 80: open", {}),
    Case("sighupio/fury-distribution templates/distribution/manifests/auth/policies/common.yaml.tpl",
         DENY_ALL + k8s("dns", f"podSelector: {{matchLabels: {{}}}}, policyTypes: [Egress], egress: [{{to: [{{{OF_SYSTEM}, {OF_DNS}}}], ports: "
                        "[{protocol: UDP, port: 53}]}]"),
         "a/w kube-system/dns UDP 53: open\na/w kube-system/dns TCP 53: closed\na/w a/l TCP 80: closed", {}),
    Case("chadmcrowell/killercoda-scenarios kubeskills-daily/day-004/step4.md",
         DENY_ALL + k8s("allow-dns", f"podSelector: {{}}, policyTypes: [Egress], egress: [{{to: [{{{OF_SYSTEM}}}], ports: [{{protocol: UDP, port: 53}}]}}]"),
         "a/l kube-system/dns UDP 53: open\na/l a/w TCP 80: closed\nb/l a/l TCP 80: closed", {}),
    Case("np-guard/netpol-analyzer tests/anp_banp_blog_demo",
         k8s("allow-monitoring", "podSelector: null, policyTypes: [Ingress], ingress: [{from: [{namespaceSelector: {matchLabels: "
             "{kubernetes.io/metadata.name: b}}}]}]", "a")
         + admin("BaselineAdminNetworkPolicy", "default", "subject: {namespaces: {matchLabels: {security: internal}}}, ingress: [{name: d, action: Deny, "
                 "from: [{namespaces: {}}]}]")
         + admin("AdminNetworkPolicy", "allow-monitoring", "priority: 9, subject: {namespaces: {}}, ingress: [{name: a, action: Allow, from: [{namespaces: "
                 "{matchLabels: {kubernetes.io/metadata.name: b}}}]}]")
         + admin("AdminNetworkPolicy", "pass-monitoring", "priority: 7, subject: {namespaces: {matchLabels: {security: internal}}}, ingress: [{name: p, "
                 "action: Pass, from: [{namespaces: {matchLabels: {kubernetes.io/metadata.name: b}}}]}]"),
         "b/l a/w TCP 80: open\nb/l kube-system/dns TCP 80: closed\na/w kube-system/dns TCP 80: closed\na/l a/w TCP 80: closed",
         {"kube-system": {"security": "internal"}}),
    Case("mcabrito/np-operator README.md",
         "- {apiVersion: np-operator-policies.bells17.io/v1alpha1, kind: OperadorNetworkPolicy, metadata: {name: s}, spec: {policySpec: {podSelector: {}}}}",
         "a/w 203.0.113.9 TCP 80: not judged\nb/l a/w TCP 80: not judged\na/l a/w TCP 80: not judged", {}),
    Case("a tutorial's audit-default-deny, which logs and passes in the default tier",
         gnp("audit", "selector: all(), types: [Ingress, Egress], ingress: [{action: Log}, {action: Pass}], egress: [{action: Log}, {action: Pass}]"),
         "a/l b/l TCP 80: open\nb/l a/w TCP 80: open, closed\na/w 203.0.113.9 TCP 80: open, closed", {}),
)  # fmt: skip


def reach(case: Case) -> Reach:
    """The pods with their labels, and the policies of a case."""
    own = {"kube-system/dns": {"k8s-app": "kube-dns"}, **case.labels}
    objects: list[dict[str, Any]] = [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": space, "labels": own.get(space, {})},
        }
        for space in ("a", "b", "kube-system")
    ]
    for name, address in PODS.items():
        space, _, pod = name.partition("/")
        system = "windows" if name == "a/w" else "linux"
        meta = {"name": pod, "namespace": space, "labels": own.get(name, {})}
        objects.append(
            {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"os": {"name": system}, "containers": [{"name": "c"}]},
             "status": {"podIP": address}}
        )  # fmt: skip
    strangers = ("203.0.113.8", "203.0.113.9", "192.168.7.7")
    return Reach(
        inputs.given([*objects, *yaml.safe_load(case.policies)], "case").objects, strangers
    )


def wrong(case: Case) -> list[str]:
    """The rows of a case that the oracle does not agree with."""
    asked, found = reach(case), []
    for row in case.rows.splitlines():
        question, _, expected = row.partition(": ")
        source, target, protocol, port = question.split()
        pair = (ends_of(asked, source)[0], ends_of(asked, target)[0])
        promised, _, windows = expected.partition(", ")
        for name, word in (("promise", promised), ("windows", windows or promised)):
            answer = Answer(4, NUMBERS[protocol], (), (), ())
            decisions = Side(asked, column(name)).decisions(pair, answer, int(port))
            if WORDS[of_way(decisions)] != word:
                found.append(f"{row} ({name}): {list(map(str, decisions))}")
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.source)
def test_a_published_policy_does_what_was_written_down(case: Case) -> None:
    assert wrong(case) == []


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 20
    assert sum(len(case.rows.splitlines()) for case in CASES) >= 60
