# SPDX-License-Identifier: Apache-2.0
"""Published policies, rewritten, with answers that were written down before the oracle computed
them.

The pods are ours: ``a/w`` on Windows, ``a/l``, ``b/l`` and ``kube-system/dns`` on Linux. A row is
``FROM TO PROTOCOL PORT: promise, on Windows``, or one word for both.
"""

from __future__ import annotations

from pathlib import Path
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


def ns_np(name: str, spec: str, space: str = "a") -> str:
    return f"- {{apiVersion: {V3}, kind: NetworkPolicy, metadata: {{name: {name}, namespace: {space}}}, spec: {{{spec}}}}}\n"


APPS = 'namespaceSelector: \'has(projectcalico.org/name) && projectcalico.org/name not in {"kube-system", "calico-system", "calico-apiserver"}\''
SECOND = (
    Case("kriipke/umbrella-chart templates/networkpolicy.tpl, any namespace",
         k8s("chart", "podSelector: {matchLabels: {app: x}}, policyTypes: [Ingress], ingress: [{from: [{namespaceSelector: {}}]}]"),
         "b/l a/w TCP 1: open\n203.0.113.9 a/w TCP 1: closed\na/w 203.0.113.9 TCP 1: open", {"a/w": {"app": "x"}}),
    Case("shiftlabsdev-community/shiftlabs-helm-library charts/common/templates/_networkpolicy.tpl, allowDNS",
         k8s("common", "podSelector: {}, policyTypes: [Ingress, Egress], egress: [{to: [{namespaceSelector: {}}], ports: [{protocol: UDP, port: 53}, "
             "{protocol: TCP, port: 53}]}]"),
         "a/w kube-system/dns UDP 53: open\na/w 203.0.113.9 UDP 53: closed\na/w b/l TCP 53: open\nb/l a/w TCP 80: closed", {}),
    Case("cedric-kiama-wachira/Software-Engineering kubernetes-deployment-TheHardWay/7.b.postgresql-Cilium-Network-Policies.sh",
         k8s("postgres", "podSelector: {matchLabels: {app: postgresql}}, policyTypes: [Ingress, Egress], ingress: [{from: [{namespaceSelector: {matchLabels: "
             "{kubernetes.io/metadata.name: a}}}], ports: [{protocol: TCP, port: 5432}]}, {from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: "
             f"b}}}}}}], ports: [{{protocol: TCP, port: 9187}}]}}], egress: [{{to: [{{{OF_SYSTEM}, {OF_DNS}}}], ports: [{{protocol: UDP, port: 53}}]}}, "
             "{to: [], ports: [{protocol: TCP, port: 443}]}]"),
         "a/l a/w TCP 5432: open\nb/l a/w TCP 5432: closed\nb/l a/w TCP 9187: open\na/w 203.0.113.9 TCP 443: open\na/w 203.0.113.9 TCP 80: closed\n"
         "a/w kube-system/dns UDP 53: open", {"a/w": {"app": "postgresql"}}),
    Case("DoD-Platform-One/bb-common chart/templates/networkPolicies/conditional/_egress-helm-test.tpl, beside a deny-all",
         DENY_ALL + k8s("helm-test", "podSelector: {matchLabels: {helm-test: enabled}}, policyTypes: [Egress], egress: [{}]"),
         "a/w 203.0.113.9 TCP 443: open\na/l 203.0.113.9 TCP 443: closed\nb/l a/w TCP 1: closed", {"a/w": {"helm-test": "enabled"}}),
    Case("a page of notes on NetworkPolicy, in which an ipBlock with an exception stands beside other peers",
         k8s("test", "podSelector: {matchLabels: {role: db}}, policyTypes: [Ingress, Egress], ingress: [{from: [{ipBlock: {cidr: 172.17.0.0/16, except: "
             "[172.17.1.0/24]}}, {namespaceSelector: {matchLabels: {project: myproject}}}, {podSelector: {matchLabels: {role: frontend}}}], ports: [{protocol: "
             "TCP, port: 6379}]}], egress: [{to: [{ipBlock: {cidr: 10.0.0.0/24}}], ports: [{protocol: TCP, port: 32000}]}]"),
         "b/l a/w TCP 6379: open\na/l a/w TCP 6379: open\n203.0.113.9 a/w TCP 6379: closed\na/w b/l TCP 32000: closed",
         {"a/w": {"role": "db"}, "a/l": {"role": "frontend"}, "b": {"project": "myproject"}}),
    Case("the same page, default-deny-ingress beside allow-all-ingress",
         k8s("deny", "podSelector: {}, policyTypes: [Ingress]") + k8s("allow", "podSelector: {}, ingress: [{}], policyTypes: [Ingress]"),
         "203.0.113.9 a/w TCP 5: open\nb/l a/l UDP 9: open", {}),
    Case("a page of notes on Calico, frontend to backend beside a default-deny that also closes the frontend's way out",
         gnp("default-deny", "selector: all(), types: [Ingress, Egress]")
         + ns_np("allow", "selector: app == 'backend', ingress: [{action: Allow, source: {selector: app == 'frontend'}}, {action: Deny}]"),
         "a/l a/w TCP 80: closed\nb/l a/w TCP 80: closed\n203.0.113.9 a/w TCP 80: closed\nkube-system/dns a/l UDP 53: closed",
         {"a/w": {"app": "backend"}, "a/l": {"app": "frontend"}}),
    Case("a page of notes on Calico, allow-frontend-service-access, whose Service is not there",
         ns_np("service", "selector: all(), ingress: [{action: Allow, source: {services: {name: frontend-service, namespace: b}}}]"),
         "b/l a/w TCP 80: not said\n203.0.113.9 a/w TCP 80: not said\na/w b/l TCP 80: open", {}),
    Case("a guide to testing rules, test-icmp-rules",
         ns_np("test", "order: 100, selector: all(), ingress: [{action: Deny}], types: [Ingress]"),
         "a/l a/w TCP 80: closed\na/w b/l TCP 80: open\nb/l a/l UDP 53: closed", {}),
    Case("a guide to Typha, deny-all-test", ns_np("deny-all-test", "selector: \"all()\", types: [Ingress]"),
         "b/l a/w TCP 80: closed\na/w b/l TCP 80: open", {}),
    Case("a guide to namespaces without labels, allow-known-namespaces",
         ns_np("known", "selector: app == 'api-server', types: [Ingress], ingress: [{action: Allow, source: {namespaceSelector: "
               "\"kubernetes.io/metadata.name == 'b' || kubernetes.io/metadata.name == 'monitoring'\"}, protocol: TCP, destination: {ports: [8080]}}]"),
         "b/l a/w TCP 8080: open\nb/l a/w UDP 8080: closed\na/l a/w TCP 8080: closed\nkube-system/dns a/w TCP 8080: closed", {"a/w": {"app": "api-server"}}),
    Case("a workshop's default-app-policy", gnp("default-app-policy", f"{APPS}, types: [Ingress, Egress], egress: [{{action: Allow, protocol: UDP, destination: "
         "{selector: k8s-app == \"kube-dns\", ports: [53]}}]"),
         "a/w kube-system/dns UDP 53: open\na/w kube-system/dns TCP 53: closed\nkube-system/dns 203.0.113.9 UDP 53: open\nb/l a/w TCP 80: closed\n"
         "203.0.113.9 kube-system/dns TCP 9: open", {}),
    Case("the same workshop's p-external2customer",
         ns_np("customer", "selector: app == \"customer\", ingress: [{action: Allow, protocol: TCP, destination: {selector: app == \"customer\"}}], egress: "
               "[{action: Allow, protocol: TCP, destination: {serviceAccounts: {names: [summary]}, namespaceSelector: ns == \"summary\"}}]"),
         "203.0.113.9 a/w TCP 80: open\n203.0.113.9 a/w UDP 80: closed\na/w b/l TCP 80: closed\na/l 203.0.113.9 TCP 80: open",
         {"a/w": {"app": "customer"}, "b": {"ns": "summary"}}),
    Case("the same workshop's p-customer2summary",
         ns_np("summary", "selector: app == \"summary\", ingress: [{action: Allow, protocol: TCP, destination: {selector: app == \"summary\", ports: [80]}}], "
               "egress: [{action: Allow, protocol: TCP, destination: {selector: app == \"database\", namespaceSelector: projectcalico.org/name == \"b\"}}]"),
         "b/l a/w TCP 80: open\nb/l a/w TCP 81: closed\na/w b/l TCP 5432: open\na/w a/l TCP 5432: closed",
         {"a/w": {"app": "summary"}, "b/l": {"app": "database"}}),
    Case("a guide to AKS, default-deny-all",
         gnp("default-deny-all", "order: 1000, selector: all(), types: [Ingress, Egress], ingress: [{action: Deny}], egress: [{action: Allow, protocol: UDP, "
             "destination: {ports: [53]}}, {action: Deny}]"),
         "a/w 203.0.113.9 UDP 53: open\na/w b/l UDP 53: closed\na/w 203.0.113.9 TCP 53: closed", {}),
    Case("the same guide's allow-web-ingress beside a deny-all",
         DENY_ALL + k8s("web", "podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress], ingress: [{from: [{namespaceSelector: {matchLabels: "
                        "{kubernetes.io/metadata.name: b}}}], ports: [{protocol: TCP, port: 8080}]}]"),
         "b/l a/w TCP 8080: open\nb/l a/w TCP 80: closed\na/l a/w TCP 8080: closed\na/w b/l TCP 80: closed", {"a/w": {"app": "web"}}),
    Case("a script's allow-60443-nodeports, which is of hosts alone, and open60443",
         gnp("nodeports", "applyOnForward: true, preDNAT: true, ingress: [{action: Allow, destination: {ports: [60443]}, protocol: TCP, source: {nets: "
             "[0.0.0.0/0]}}]")
         + k8s("open60443", "podSelector: {matchLabels: {role: client}}, policyTypes: [Ingress], ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0}}], ports: "
               "[{port: 60443}]}]"),
         "203.0.113.9 a/w TCP 60443: open\nb/l a/w TCP 60443: open\n203.0.113.9 a/w TCP 80: closed\n203.0.113.9 a/l TCP 80: open",
         {"a/w": {"role": "client"}}),
    Case("a guide to audits, tier security with block-lateral-movement",
         f"- {{apiVersion: {V3}, kind: Tier, metadata: {{name: security}}, spec: {{order: 100}}}}\n"
         + gnp("security.lateral", "tier: security, order: 100, selector: all(), types: [Ingress, Egress], ingress: [{action: Allow, source: {selector: "
               "trusted == \"true\"}}, {action: Deny, source: {selector: all()}}], egress: [{action: Allow, destination: {selector: trusted == \"true\"}}, "
               "{action: Pass}]"),
         "a/l b/l TCP 80: open\nb/l a/l TCP 80: closed\n203.0.113.9 a/w TCP 80: closed\na/l a/w TCP 80: open\na/w 203.0.113.9 TCP 80: open",
         {"a/l": {"trusted": "true"}}),
    Case("a chart of Redis, with metrics",
         k8s("redis", "podSelector: {matchLabels: {app: redis}}, ingress: [{ports: [{port: 6379}], from: [{podSelector: {matchLabels: {redis-client: "
             "\"true\"}}}]}, {ports: [{port: 9121}]}]"),
         "a/l a/w TCP 6379: open\nb/l a/w TCP 6379: closed\n203.0.113.9 a/w TCP 9121: open\na/w b/l TCP 1: open",
         {"a/w": {"app": "redis"}, "a/l": {"redis-client": "true"}}),
    Case("a chart of Postgres, with metrics",
         k8s("pg", "podSelector: {matchLabels: {app: pg}}, ingress: [{ports: [{port: 5432}], from: [{podSelector: {matchLabels: {component: myapp}}}]}, "
             "{ports: [{port: 9187}]}]"),
         "a/l a/w TCP 5432: open\nb/l a/w TCP 9187: open\nb/l a/w TCP 5432: closed", {"a/w": {"app": "pg"}, "a/l": {"component": "myapp"}}),
    Case("a chart with one port in and private networks out",
         k8s("private", "podSelector: {}, policyTypes: [Egress, Ingress], ingress: [{ports: [{port: 8080, protocol: TCP}]}], egress: [{to: [{ipBlock: {cidr: "
             "10.0.0.0/8}}, {ipBlock: {cidr: 172.16.0.0/12}}, {ipBlock: {cidr: 192.168.0.0/16}}]}]"),
         "203.0.113.9 a/w TCP 8080: open\na/w b/l TCP 1: open\na/w 203.0.113.9 TCP 443: closed\na/w 192.168.7.7 UDP 5: open\nb/l a/w UDP 8080: closed", {}),
    Case("a chart of Prometheus, names to everybody",
         k8s("prometheus", "podSelector: {matchLabels: {app: prom}}, policyTypes: [Ingress, Egress], ingress: [], egress: [{to: [], ports: [{protocol: UDP, "
             "port: 53}]}]"),
         "a/w 203.0.113.9 UDP 53: open\nb/l a/w TCP 9090: closed\na/w b/l TCP 53: closed", {"a/w": {"app": "prom"}}),
    Case("a test's allow-notSelector-tier",
         ns_np("no-tier", "order: 1, types: [Ingress, Egress], ingress: [{action: Allow, source: {notSelector: has(tier)}}], egress: [{action: Allow, "
               "destination: {selector: all()}}]", "kube-system"),
         "a/w kube-system/dns TCP 80: closed\nkube-system/dns 203.0.113.9 TCP 80: closed\nkube-system/dns a/w TCP 80: closed", {}),
)  # fmt: skip
"""Further ones, of 2026-11-29, written down before the run as well."""
THIRD = tuple(
    Case(
        one["source"],
        yaml.safe_dump(one["objects"]),
        "\n".join(one["answers"]),
        one.get("labels", {}),
    )
    for one in yaml.safe_load(
        Path(__file__).with_name("published-policies.yaml").read_text(encoding="utf-8")
    )
)
"""Further ones, of 2026-11-30, written down before the run as well."""


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


@pytest.mark.parametrize("case", [*CASES, *SECOND, *THIRD], ids=lambda case: case.source)
def test_a_published_policy_does_what_was_written_down(case: Case) -> None:
    assert wrong(case) == []


def test_there_are_enough_of_them() -> None:
    for cases in (CASES, SECOND, THIRD):
        assert len(cases) >= 20
        assert sum(len(case.rows.splitlines()) for case in cases) >= 60
