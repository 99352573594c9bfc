"""Literal cases: a small world, a policy, and what becomes of a packet, by the document that says so.

They say what no case of the golden tables says, and what is not said by any document.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import yaml

Obj = dict[str, Any]

WORLD = """
- kind: Node
  metadata: {name: win, labels: {kubernetes.io/os: windows}}
  status: {addresses: [{type: InternalIP, address: 10.0.0.9}]}
- kind: Node
  metadata: {name: lin, labels: {kubernetes.io/os: linux}}
  status: {addresses: [{type: InternalIP, address: 10.0.0.8}]}
- {kind: Namespace, metadata: {name: shop, labels: {team: blue}}}
- {kind: Namespace, metadata: {name: bank, labels: {team: red}}}
- {kind: ServiceAccount, metadata: {name: teller, namespace: bank, labels: {may: pay}}}
- kind: Pod
  metadata: {name: web, namespace: shop, labels: {app: web, level: gold}}
  spec: {nodeName: win, containers: [{ports: [{name: http, containerPort: 8080, protocol: TCP}]}]}
  status: {podIP: 10.1.0.1}
- kind: Pod
  metadata: {name: client, namespace: shop, labels: {app: client, level: silver}}
  spec: {nodeName: lin, containers: [{}]}
  status: {podIP: 10.1.0.2}
- kind: Pod
  metadata: {name: till, namespace: bank, labels: {app: till, level: gold}}
  spec: {nodeName: lin, serviceAccountName: teller, containers: [{}]}
  status: {podIP: 10.2.0.1}
- kind: NetworkSet
  metadata: {name: lan, namespace: shop, labels: {role: lan}}
  spec: {nets: [198.51.100.0/24, 203.0.113.0/24]}
- kind: EndpointSlice
  metadata: {name: tills-1, namespace: bank, labels: {kubernetes.io/service-name: tills}}
  ports: [{port: 80, protocol: TCP}]
  endpoints: [{addresses: [10.2.0.1], conditions: {ready: true}}, {addresses: [10.2.0.7], conditions: {ready: false}}]
"""


@dataclass(frozen=True)
class Case:
    """Policies in the world, and rows of what they make of packets."""

    name: str
    source: str
    """The document, or the finding, that says so."""
    policies: str
    rows: tuple[str, ...]
    """``ingress shop/web from 10.1.0.2 TCP 80: promised, on Windows``; one word for both."""
    objects: list[Obj] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "objects", yaml.safe_load(self.policies) or [])


def calico(name: str, spec: str, *, kind: str = "NetworkPolicy", namespace: str = "shop") -> str:
    """A Calico policy as one entry of a list."""
    space = "" if "Global" in kind else f", namespace: {namespace}"
    meta = f"metadata: {{name: {name}{space}}}"
    return f"- {{apiVersion: projectcalico.org/v3, kind: {kind}, {meta}, spec: {{{spec}}}}}\n"


def kubernetes(name: str, spec: str, *, namespace: str = "shop") -> str:
    """A Kubernetes NetworkPolicy as one entry of a list."""
    meta = f"metadata: {{name: {name}, namespace: {namespace}}}"
    return f"- {{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, {meta}, spec: {{{spec}}}}}\n"


def tier(name: str, spec: str) -> str:
    """A tier as one entry of a list."""
    return f"- {{apiVersion: projectcalico.org/v3, kind: Tier, metadata: {{name: {name}}}, spec: {{{spec}}}}}\n"


ALLOW = "ingress: [{action: Allow}]"
DENY = "ingress: [{action: Deny}]"

CASES = (
    Case(
        "a Kubernetes policy has order 1000",
        "Calico, NetworkPolicy, spec.order",
        kubernetes("k", "podSelector: {}, ingress: [{}]") + calico("late", f"order: 1001, {DENY}"),
        ("ingress shop/web from 10.1.0.2 TCP 80: allowed",),
    ),
    Case(
        "a policy before order 1000 precedes Kubernetes'",
        "Calico, NetworkPolicy, spec.order",
        kubernetes("k", "podSelector: {}, ingress: [{}]") + calico("early", f"order: 999, {DENY}"),
        ("ingress shop/web from 10.1.0.2 TCP 80: denied",),
    ),
    Case(
        "no types and no rules: ingress alone",
        "Calico, NetworkPolicy, spec.types",
        calico("p", "selector: all()"),
        ("ingress shop/web from 10.1.0.2 TCP 80: denied", "egress shop/web to 10.1.0.2 TCP 80: allowed"),
    ),
    Case(
        "no types and egress rules: egress alone",
        "Calico, NetworkPolicy, spec.types",
        calico("p", "egress: [{action: Deny}]"),
        ("ingress shop/web from 10.1.0.2 TCP 80: allowed", "egress shop/web to 10.1.0.2 TCP 80: denied"),
    ),
    Case(
        "no policyTypes and egress rules: both",
        "Kubernetes, NetworkPolicySpec, policyTypes",
        kubernetes("k", "podSelector: {}, egress: [{ports: [{port: 80}]}]"),
        ("ingress shop/web from 10.1.0.2 TCP 80: denied", "egress shop/web to 10.1.0.2 TCP 81: denied"),
    ),
    Case(
        "all of matchLabels",
        "Kubernetes, LabelSelector",
        kubernetes("k", "podSelector: {matchLabels: {level: gold, app: client}}"),
        ("ingress shop/web from 10.1.0.2 TCP 80: allowed", "ingress shop/client from 10.1.0.1 TCP 80: allowed"),
    ),
    Case(
        "ends with",
        "Calico, NetworkPolicy, Selectors",
        calico("p", "ingress: [{action: Allow, source: {selector: \"level ends with 'ver'\"}}]"),
        ("ingress shop/web from 10.1.0.2 TCP 80: allowed", "ingress shop/web from 10.1.0.1 TCP 80: not said"),
    ),
    Case(
        "every net of a NetworkSet",
        "Calico, NetworkSet",
        calico("p", "ingress: [{action: Allow, source: {selector: \"role == 'lan'\"}}]"),
        ("ingress shop/web from 198.51.100.7 TCP 80: allowed", "ingress shop/web from 203.0.113.7 TCP 80: allowed"),
    ),
    Case(
        "a port's name is of one protocol",
        "Kubernetes, ContainerPort; XPOL-4",
        calico("p", "ingress: [{action: Allow, protocol: UDP, destination: {ports: [http]}}]"),
        ("ingress shop/web from 10.1.0.2 UDP 8080: denied",),
    ),
    Case(
        "a node reaches its own pods",
        "Kubernetes, Network Policies; XPOL-8",
        calico("p", DENY),
        ("ingress shop/web from 10.0.0.9 TCP 80: allowed", "ingress shop/web from 10.0.0.8 TCP 80: denied"),
    ),
    Case(
        "policies of one order",
        "no document; Calico's code changed it in v3.32",
        calico("a", f"order: 5, {ALLOW}") + calico("b", "order: 5, ingress: [{action: Deny, protocol: TCP}]"),
        ("ingress shop/web from 10.1.0.2 TCP 80: not said", "ingress shop/web from 10.1.0.2 UDP 80: allowed"),
    ),
    Case(
        "policies of one order that agree, and one behind them",
        "Calico, NetworkPolicy, spec.order",
        calico("a", "order: 5, ingress: [{action: Deny, protocol: TCP}]")
        + calico("b", "order: 5, ingress: [{action: Deny, protocol: UDP}]")
        + calico("c", f"order: 6, {ALLOW}"),
        ("ingress shop/web from 10.1.0.2 TCP 80: denied", "ingress shop/web from 10.1.0.2 SCTP 80: allowed"),
    ),
    Case(
        "three policies of one order, the middle one of which differs",
        "no document",
        calico("a", f"order: 5, {ALLOW}") + calico("b", f"order: 5, {DENY}") + calico("c", f"order: 5, {ALLOW}"),
        ("ingress shop/web from 10.1.0.2 TCP 80: not said",),
    ),
    Case(
        "an order that decides before the tie",
        "Calico, NetworkPolicy, spec.order",
        calico("a", f"order: 5, {ALLOW}") + calico("b", f"order: 5, {DENY}") + calico("first", f"order: 1, {DENY}"),
        ("ingress shop/web from 10.1.0.2 TCP 80: denied",),
    ),
    Case(
        "a tie that passes or allows, before a tier that allows",
        "Calico, Tier",
        tier("t", "order: 1")
        + calico("t.a", "tier: t, order: 5, ingress: [{action: Pass}]", kind="GlobalNetworkPolicy")
        + calico("t.b", f"tier: t, order: 5, {ALLOW}", kind="GlobalNetworkPolicy")
        + calico("p", "order: 1, ingress: [{action: Allow, protocol: TCP}]"),
        ("ingress shop/web from 10.1.0.2 TCP 80: allowed", "ingress shop/web from 10.1.0.2 UDP 80: not said"),
    ),
    Case(
        "members of a Service that are not ready",
        "no document; Calico's code lets them through",
        calico("p", "egress: [{action: Allow, destination: {services: {name: tills, namespace: bank}}}]"),
        (
            "egress shop/web to 10.2.0.1 TCP 80: allowed",
            "egress shop/web to 10.2.0.1 TCP 81: denied",
            "egress shop/web to 10.2.0.7 TCP 80: not said",
            "egress shop/web to 10.2.0.8 TCP 80: denied",
        ),
    ),
    Case(
        "HTTP",
        "no document of what becomes of it without Istio",
        calico("p", "ingress: [{action: Allow, protocol: TCP, http: {methods: [GET]}}]"),
        ("ingress shop/web from 10.1.0.2 TCP 80: not said", "ingress shop/web from 10.1.0.2 UDP 80: denied"),
    ),
    Case(
        "a pod that sends to itself",
        "no document",
        calico("p", DENY),
        ("ingress shop/web from 10.1.0.1 TCP 80: not said",),
    ),
    Case(
        "a negated match",
        "XPOL-1, XPOL-2",
        calico("p", "ingress: [{action: Deny, source: {notNets: [10.2.0.0/16]}}, {action: Allow}]"),
        ("ingress shop/web from 10.1.0.2 TCP 80: denied, allowed", "ingress shop/web from 10.2.0.1 TCP 80: allowed"),
    ),
    Case(
        "an exception of an ipBlock",
        "XPOL-1",
        kubernetes("k", "podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.2.0.0/16]}}]}]"),
        ("ingress shop/web from 10.1.0.2 TCP 80: allowed, denied", "ingress shop/web from 10.2.0.1 TCP 80: denied"),
    ),
    Case(
        "a notSelector in a NetworkPolicy is no negation",
        "felix/calc/rule_scanner.go",
        calico("p", "ingress: [{action: Allow, source: {notSelector: \"app == 'web'\"}}]"),
        ("ingress shop/web from 10.1.0.2 TCP 80: allowed", "ingress shop/web from 10.2.0.1 TCP 80: denied"),
    ),
    Case(
        "a notSelector alone in a GlobalNetworkPolicy speaks of all other addresses",
        "felix/calc/rule_scanner.go; XPOL-1",
        calico("p", "ingress: [{action: Allow, source: {notSelector: \"app == 'till'\"}}]", kind="GlobalNetworkPolicy"),
        ("ingress shop/web from 8.8.8.8 TCP 80: allowed, denied", "ingress shop/web from 10.2.0.1 TCP 80: denied"),
    ),
    Case(
        "a port by name and by number",
        "XPOL-4",
        calico("p", "ingress: [{action: Allow, protocol: TCP, destination: {ports: [http, 81]}}]"),
        (
            "ingress shop/web from 10.1.0.2 TCP 8080: allowed, denied",
            "ingress shop/web from 10.1.0.2 TCP 81: allowed, denied",
        ),
    ),
    Case(
        "a Log rule decides nothing",
        "Calico, NetworkPolicy, Rule; XPOL-5",
        calico("p", "ingress: [{action: Log}, {action: Allow, protocol: TCP}]"),
        ("ingress shop/web from 10.1.0.2 TCP 80: allowed", "ingress shop/web from 10.1.0.2 UDP 80: denied"),
    ),
    Case(
        "Pass in the default tier",
        "Calico, Tier; XPOL-6",
        calico("p", "ingress: [{action: Pass, protocol: TCP}]"),
        ("ingress shop/web from 10.1.0.2 TCP 80: allowed, denied", "ingress shop/web from 10.1.0.2 UDP 80: denied"),
    ),
    Case(
        "Pass in a tier with none behind it",
        "Calico, Tier; XPOL-6",
        tier("t", "order: 1") + calico("t.a", "tier: t, ingress: [{action: Pass, protocol: TCP}]"),
        ("ingress shop/web from 10.1.0.2 TCP 80: allowed", "ingress shop/web from 10.1.0.2 UDP 80: denied"),
    ),
    Case(
        "a tier of later order behind one of earlier name",
        "Calico, Tier",
        tier("z", "order: 1, defaultAction: Pass")
        + tier("a", "order: 2")
        + calico("z.p", "tier: z, ingress: [{action: Deny, protocol: TCP}]")
        + calico("a.p", f"tier: a, {ALLOW}"),
        ("ingress shop/web from 10.1.0.2 TCP 80: denied", "ingress shop/web from 10.1.0.2 UDP 80: allowed"),
    ),
    Case(
        "staged policies have no effect",
        "Calico, StagedNetworkPolicy",
        calico("a", DENY, kind="StagedNetworkPolicy")
        + calico("b", DENY, kind="StagedGlobalNetworkPolicy")
        + calico("c", "podSelector: {}, policyTypes: [Ingress]", kind="StagedKubernetesNetworkPolicy"),
        ("ingress shop/web from 10.1.0.2 TCP 80: allowed",),
    ),
    Case(
        "policies for hosts have no effect at pods",
        "Calico, GlobalNetworkPolicy, spec.doNotTrack, spec.preDNAT",
        calico("a", f"doNotTrack: true, applyOnForward: true, {DENY}", kind="GlobalNetworkPolicy")
        + calico("b", f"preDNAT: true, applyOnForward: true, {DENY}", kind="GlobalNetworkPolicy"),
        ("ingress shop/web from 10.1.0.2 TCP 80: allowed",),
    ),
    Case(
        "a namespaceSelector: all() is whatever is in a namespace",
        "Calico, EntityRule, namespaceSelector",
        calico("p", "ingress: [{action: Allow, source: {namespaceSelector: all()}}]"),
        ("ingress shop/web from 10.2.0.1 TCP 80: allowed", "ingress shop/web from 8.8.8.8 TCP 80: denied"),
    ),
    Case(
        "labels that Calico adds",
        "Calico, automatic labels",
        calico("p", "ingress: [{action: Allow, source: {namespaceSelector: \"projectcalico.org/name == 'bank'\"}}]")
        + calico(
            "q",
            "order: 1, ingress: [{action: Deny, protocol: UDP, source: {selector: \"pcns.team == 'red'\"}}]",
            kind="GlobalNetworkPolicy",
        ),
        (
            "ingress shop/web from 10.2.0.1 TCP 80: allowed",
            "ingress shop/web from 10.2.0.1 UDP 80: denied",
            "ingress shop/web from 10.1.0.2 TCP 80: denied",
        ),
    ),
)
