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
  spec:
    nodeName: win
    containers:
    - {ports: [{name: http, containerPort: 8080, protocol: TCP}, {name: admin, containerPort: 9090, protocol: TCP}]}
  status: {podIP: 10.1.0.1}
- kind: Pod
  metadata: {name: client, namespace: shop, labels: {app: client, level: silver, note: ""}}
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
    around: str = ""
    """What there is beside the world."""
    objects: list[Obj] = field(init=False)
    world: list[Obj] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "objects", yaml.safe_load(self.policies) or [])
        object.__setattr__(self, "world", yaml.safe_load(WORLD) + (yaml.safe_load(self.around) or []))


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
    Case(
        "0.0.0.0/0 is every address, of a rule and of a NetworkSet",
        "Calico, EntityRule, nets; NetworkSet",
        calico(
            "p",
            "ingress: [{action: Deny, protocol: UDP, source: {selector: \"role == 'all'\"}}, "
            "{action: Allow, source: {nets: [0.0.0.0/0]}}]",
        ),
        ("ingress shop/web from 8.8.8.8 TCP 80: allowed", "ingress shop/web from 8.8.8.8 UDP 80: denied"),
        "- {kind: NetworkSet, metadata: {name: all, namespace: shop, labels: {role: all}}, spec: {nets: [0.0.0.0/0]}}",
    ),
    Case(
        "one address, and a GlobalNetworkPolicy's selector",
        "Calico, EntityRule, nets; GlobalNetworkPolicy, spec.selector",
        calico(
            "p",
            "selector: app == 'web', ingress: [{action: Allow, source: {nets: [10.1.0.9/32]}}]",
            kind="GlobalNetworkPolicy",
        ),
        ("ingress shop/web from 10.1.0.2 TCP 80: denied", "ingress shop/client from 10.1.0.1 TCP 80: allowed"),
    ),
    Case(
        "each of several exceptions",
        "Kubernetes, IPBlock; XPOL-1",
        kubernetes(
            "k",
            "podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0, except: [10.2.0.0/16, 203.0.113.0/24]}}]}]",
        ),
        (
            "ingress shop/web from 8.8.8.8 TCP 80: allowed, denied",
            "ingress shop/web from 203.0.113.7 TCP 80: denied",
            "ingress shop/client from 10.2.0.1 TCP 80: denied",
        ),
    ),
    Case(
        "every named port of a pod",
        "Kubernetes, ContainerPort; XPOL-4",
        calico("p", "ingress: [{action: Allow, protocol: TCP, destination: {ports: [admin]}}]"),
        ("ingress shop/web from 10.1.0.2 TCP 9090: allowed, denied", "ingress shop/web from 10.1.0.2 TCP 8080: denied"),
    ),
    Case(
        "both ends of a range, and no more",
        "Calico, Ports",
        calico("p", "ingress: [{action: Allow, protocol: TCP, destination: {ports: ['80:90', 95]}}]"),
        (
            "ingress shop/web from 10.1.0.2 TCP 79: denied",
            "ingress shop/web from 10.1.0.2 TCP 80: allowed",
            "ingress shop/web from 10.1.0.2 TCP 90: allowed",
            "ingress shop/web from 10.1.0.2 TCP 91: denied",
        ),
    ),
    Case(
        "port and endPort, and no more",
        "Kubernetes, NetworkPolicyPort, endPort",
        kubernetes("k", "podSelector: {}, ingress: [{ports: [{port: 80, endPort: 90}, {port: 95}]}]"),
        (
            "ingress shop/web from 10.1.0.2 TCP 79: denied",
            "ingress shop/web from 10.1.0.2 TCP 80: allowed",
            "ingress shop/web from 10.1.0.2 TCP 90: allowed",
            "ingress shop/web from 10.1.0.2 TCP 91: denied",
            "ingress shop/web from 10.1.0.2 UDP 85: denied",
        ),
    ),
    Case(
        "a protocol alone",
        "Kubernetes, NetworkPolicyPort; Calico, Rule",
        kubernetes("k", "podSelector: {matchLabels: {app: web}}, ingress: [{ports: [{protocol: TCP}]}]")
        + kubernetes("l", "podSelector: {matchLabels: {app: client}}, ingress: [{ports: [{protocol: SCTP, port: 7}]}]"),
        (
            "ingress shop/web from 10.1.0.2 TCP 1: allowed",
            "ingress shop/web from 10.1.0.2 UDP 1: denied",
            "ingress shop/client from 10.1.0.1 SCTP 7: allowed",
            "ingress shop/client from 10.1.0.1 TCP 7: denied",
        ),
    ),
    Case(
        "ICMP, SCTP and a protocol by its number",
        "Calico, Rule, protocol",
        calico("p", "selector: app == 'web', ingress: [{action: Deny, protocol: ICMP}, {action: Allow, protocol: 17}]")
        + calico("q", "selector: app == 'client', ingress: [{action: Allow, protocol: SCTP}]"),
        (
            "ingress shop/web from 10.1.0.2 UDP 80: allowed",
            "ingress shop/web from 10.1.0.2 TCP 80: denied",
            "ingress shop/client from 10.1.0.1 SCTP 7: allowed",
            "ingress shop/client from 10.1.0.1 TCP 7: denied",
        ),
    ),
    Case(
        "selectors that are there and empty",
        "Kubernetes, NetworkPolicyPeer",
        kubernetes("k", "podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {}}]}]")
        + kubernetes("l", "podSelector: {matchLabels: {app: client}}, ingress: [{from: [{namespaceSelector: {}}]}]"),
        (
            "ingress shop/web from 10.1.0.2 TCP 80: allowed",
            "ingress shop/web from 10.2.0.1 TCP 80: denied",
            "ingress shop/client from 10.2.0.1 TCP 80: allowed",
            "ingress shop/client from 8.8.8.8 TCP 80: denied",
        ),
    ),
    Case(
        "rules of a direction that policyTypes does not name",
        "Kubernetes, NetworkPolicySpec, policyTypes",
        kubernetes("k", "podSelector: {}, policyTypes: [Egress], ingress: [{ports: [{port: 80}]}]"),
        ("ingress shop/web from 10.1.0.2 TCP 81: allowed", "egress shop/web to 10.1.0.2 TCP 80: denied"),
    ),
    Case(
        "all of a selector's labels and expressions, and all values of an expression",
        "Kubernetes, LabelSelector",
        kubernetes(
            "k",
            "policyTypes: [Egress], podSelector: {matchLabels: {level: gold}, matchExpressions: "
            "[{key: app, operator: Exists}, {key: app, operator: NotIn, values: [till, web]}]}",
        )
        + kubernetes(
            "l",
            "podSelector: {matchExpressions: [{key: note, operator: Exists}]}, ingress: [{from: "
            "[{namespaceSelector: {matchExpressions: [{key: team, operator: NotIn, values: [blue]}]}}]}]",
        ),
        (
            "egress shop/web to 10.1.0.2 TCP 80: allowed",
            "egress shop/client to 10.1.0.1 TCP 80: allowed",
            "ingress shop/client from 10.2.0.1 TCP 80: allowed",
            "ingress shop/client from 10.1.0.1 TCP 80: denied",
        ),
    ),
    Case(
        "which of Calico's operators binds first",
        "Calico's parser, libcalico-go/lib/selector",
        calico(
            "p",
            "selector: \"app == 'web'\", ingress: [{action: Allow, source: "
            "{selector: \"level == 'silver' || level == 'gold' && app == 'till'\"}}]",
        )
        + calico(
            "q",
            "selector: \"app == 'client'\", ingress: [{action: Allow, source: "
            "{selector: \"!(app == 'client' || level == 'gold')\", namespaceSelector: all()}}]",
        ),
        ("ingress shop/web from 10.1.0.2 TCP 80: allowed", "ingress shop/client from 10.2.0.1 TCP 80: denied"),
    ),
    Case(
        "several terms, and values that are one, or empty, or in other quotes",
        "Calico, NetworkPolicy, Selectors",
        calico("p", "selector: \"has(app) && level == 'gold' && app == 'till'\", order: 1, ingress: [{action: Deny}]")
        + calico(
            "q",
            "selector: \"app == 'x' || app == 'y' || app == 'web'\", ingress: [{action: Deny, protocol: UDP, "
            "source: {selector: \"note == ''\"}}, {action: Allow, source: {selector: \"app in {'client'}\"}}]",
        )
        + calico(
            "r",
            "selector: 'level == \"silver\" && has(note)', ingress: [{action: Allow, source: "
            "{selector: \"app not in {'client', 'web'}\"}}, {action: Allow, protocol: UDP, "
            "source: {selector: \"app in {'y', 'web', 'z'}\"}}]",
        ),
        (
            "ingress shop/web from 10.1.0.2 TCP 80: allowed",
            "ingress shop/web from 10.1.0.2 UDP 80: denied",
            "ingress shop/web from 10.2.0.1 TCP 80: denied",
            "ingress shop/client from 10.1.0.1 TCP 80: denied",
            "ingress shop/client from 10.1.0.1 UDP 80: allowed",
        ),
    ),
    Case(
        "names and selector of service accounts, together",
        "Calico, ServiceAccountMatch; NetworkPolicy, spec.serviceAccountSelector",
        calico(
            "p",
            "ingress: [{action: Allow, source: {namespaceSelector: all(), "
            "serviceAccounts: {names: [teller], selector: \"may == 'look'\"}}}]",
        )
        + calico("q", "serviceAccountSelector: \"may == 'pay'\", selector: \"app == 'web'\"", namespace="bank"),
        ("ingress shop/web from 10.2.0.1 TCP 80: denied", "ingress bank/till from 10.1.0.2 TCP 80: allowed"),
    ),
    Case(
        "orders are numbers, 0 and less among them",
        "Calico, NetworkPolicy, spec.order",
        calico("a", "order: 0, ingress: [{action: Deny, protocol: UDP}]")
        + calico("b", "order: -5, ingress: [{action: Deny, protocol: TCP}]")
        + calico("c", f"tier: default, order: 1, {ALLOW}")
        + calico("d", "order: 30, selector: \"app == 'nobody'\""),
        (
            "ingress shop/web from 10.1.0.2 UDP 80: denied",
            "ingress shop/web from 10.1.0.2 TCP 80: denied",
            "ingress shop/web from 10.1.0.2 SCTP 80: allowed",
        ),
    ),
    Case(
        "30 is before 1000",
        "Calico, NetworkPolicy, spec.order",
        kubernetes("k", "podSelector: {}, ingress: [{}]") + calico("early", f"order: 30, {DENY}"),
        ("ingress shop/web from 10.1.0.2 TCP 80: denied",),
    ),
    Case(
        "the second tier's policies",
        "Calico, Tier",
        tier("t-one", "order: 1, defaultAction: Pass")
        + tier("t-two", "order: 2")
        + calico("t-one.p", "tier: t-one, ingress: [{action: Pass}]")
        + calico("t-two.p", f"tier: t-two, {DENY}"),
        ("ingress shop/web from 10.1.0.2 TCP 80: denied",),
    ),
    Case(
        "policies of one name",
        "Kubernetes, names are unique in a namespace, of a kind",
        calico("p", f"order: 5, {DENY}")
        + kubernetes("p", "podSelector: {}, ingress: [{}]")
        + calico("p", ALLOW, namespace="bank")
        + tier("t", "order: 1, defaultAction: Pass")
        + calico("t.p", "tier: t, selector: \"app == 'web'\", egress: [{action: Deny}]"),
        (
            "ingress shop/web from 10.1.0.2 TCP 80: denied",
            "egress shop/web to 10.1.0.2 TCP 80: denied",
            "ingress shop/client from 10.1.0.1 TCP 80: denied",
        ),
    ),
)
