# SPDX-License-Identifier: Apache-2.0
"""Literal cases of rules: the peers and the traffic that they match, by selectors, networks, ports,
protocols and accounts."""

from __future__ import annotations

from tests.unit.conformance.policy.oracle.literal import Case, calico, kubernetes

CASES = (
    Case(
        "all of matchLabels",
        "Kubernetes, LabelSelector",
        kubernetes("k", "podSelector: {matchLabels: {level: gold, app: client}}"),
        (
            "ingress shop/web from 10.1.0.2 TCP 80: allowed",
            "ingress shop/client from 10.1.0.1 TCP 80: allowed",
        ),
    ),
    Case(
        "ends with",
        "Calico, NetworkPolicy, Selectors",
        calico("p", "ingress: [{action: Allow, source: {selector: \"level ends with 'ver'\"}}]"),
        (
            "ingress shop/web from 10.1.0.2 TCP 80: allowed",
            "ingress shop/web from 10.1.0.1 TCP 80: not said",
        ),
    ),
    Case(
        "every net of a NetworkSet",
        "Calico, NetworkSet",
        calico("p", "ingress: [{action: Allow, source: {selector: \"role == 'lan'\"}}]"),
        (
            "ingress shop/web from 198.51.100.7 TCP 80: allowed",
            "ingress shop/web from 203.0.113.7 TCP 80: allowed",
        ),
    ),
    Case(
        "a port's name is of one protocol",
        "Kubernetes, ContainerPort; XPOL-4",
        calico("p", "ingress: [{action: Allow, protocol: UDP, destination: {ports: [http]}}]"),
        ("ingress shop/web from 10.1.0.2 UDP 8080: denied",),
    ),
    Case(
        "members of a Service that are not ready",
        "no document; Calico's code lets them through",
        calico(
            "p",
            "egress: [{action: Allow, destination: {services: {name: tills, namespace: bank}}}]",
        ),
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
        (
            "ingress shop/web from 10.1.0.2 TCP 80: not said",
            "ingress shop/web from 10.1.0.2 UDP 80: denied",
        ),
    ),
    Case(
        "a negated match",
        "XPOL-1, XPOL-2",
        calico("p", "ingress: [{action: Deny, source: {notNets: [10.2.0.0/16]}}, {action: Allow}]"),
        (
            "ingress shop/web from 10.1.0.2 TCP 80: denied, allowed",
            "ingress shop/web from 10.2.0.1 TCP 80: allowed",
        ),
    ),
    Case(
        "an exception of an ipBlock",
        "XPOL-1",
        kubernetes(
            "k",
            "podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.2.0.0/16]}}]}]",
        ),
        (
            "ingress shop/web from 10.1.0.2 TCP 80: allowed, denied",
            "ingress shop/web from 10.2.0.1 TCP 80: denied",
        ),
    ),
    Case(
        "a notSelector in a NetworkPolicy is no negation",
        "felix/calc/rule_scanner.go",
        calico("p", "ingress: [{action: Allow, source: {notSelector: \"app == 'web'\"}}]"),
        (
            "ingress shop/web from 10.1.0.2 TCP 80: allowed",
            "ingress shop/web from 10.2.0.1 TCP 80: denied",
        ),
    ),
    Case(
        "a notSelector alone in a GlobalNetworkPolicy speaks of all other addresses",
        "felix/calc/rule_scanner.go; XPOL-1",
        calico(
            "p",
            "ingress: [{action: Allow, source: {notSelector: \"app == 'till'\"}}]",
            kind="GlobalNetworkPolicy",
        ),
        (
            "ingress shop/web from 8.8.8.8 TCP 80: allowed, denied",
            "ingress shop/web from 10.2.0.1 TCP 80: denied",
        ),
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
        "a namespaceSelector: all() is whatever is in a namespace",
        "Calico, EntityRule, namespaceSelector",
        calico("p", "ingress: [{action: Allow, source: {namespaceSelector: all()}}]"),
        (
            "ingress shop/web from 10.2.0.1 TCP 80: allowed",
            "ingress shop/web from 8.8.8.8 TCP 80: denied",
        ),
    ),
    Case(
        "labels that Calico adds",
        "Calico, automatic labels",
        calico(
            "p",
            "ingress: [{action: Allow, source: {namespaceSelector: \"projectcalico.org/name == 'bank'\"}}]",
        )
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
        (
            "ingress shop/web from 8.8.8.8 TCP 80: allowed",
            "ingress shop/web from 8.8.8.8 UDP 80: denied",
        ),
        "- {kind: NetworkSet, metadata: {name: all, namespace: shop, labels: {role: all}}, spec: {nets: [0.0.0.0/0]}}",
    ),
    Case(
        "a network of IPv4 that is written as one of IPv6",
        "no document; Calico's code reads ::ffff:a.b.c.d/n as one of IPv4",
        calico("p", "ingress: [{action: Allow, source: {nets: ['::ffff:10.1.0.2/127']}}]"),
        (
            "ingress shop/web from 10.1.0.2 TCP 80: allowed",
            "ingress shop/web from 10.1.0.3 TCP 80: allowed",
            "ingress shop/web from 10.1.0.4 TCP 80: denied",
        ),
    ),
    Case(
        "notNets of IPv6 alone make a rule of IPv6",
        "no document; felix/rules/policy.go, FilterRuleToIPVersion",
        calico(
            "p",
            "ingress: [{action: Deny, protocol: UDP, source: {notNets: ['2001:db8::/32']}}, "
            "{action: Allow, protocol: UDP}, "
            "{action: Allow, source: {notNets: ['2001:db8::/32']}}]",
        ),
        (
            "ingress shop/web from 10.1.0.2 TCP 80: denied",
            "ingress shop/web from 10.1.0.2 UDP 80: allowed",
        ),
    ),
    Case(
        "one address, and a GlobalNetworkPolicy's selector",
        "Calico, EntityRule, nets; GlobalNetworkPolicy, spec.selector",
        calico(
            "p",
            "selector: app == 'web', ingress: [{action: Allow, source: {nets: [10.1.0.9/32]}}]",
            kind="GlobalNetworkPolicy",
        ),
        (
            "ingress shop/web from 10.1.0.2 TCP 80: denied",
            "ingress shop/client from 10.1.0.1 TCP 80: allowed",
        ),
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
        (
            "ingress shop/web from 10.1.0.2 TCP 9090: allowed, denied",
            "ingress shop/web from 10.1.0.2 TCP 8080: denied",
        ),
    ),
    Case(
        "both ends of a range, and no more",
        "Calico, Ports",
        calico(
            "p", "ingress: [{action: Allow, protocol: TCP, destination: {ports: ['80:90', 95]}}]"
        ),
        (
            "ingress shop/web from 10.1.0.2 TCP 79: denied",
            "ingress shop/web from 10.1.0.2 TCP 80: allowed",
            "ingress shop/web from 10.1.0.2 TCP 85: allowed",
            "ingress shop/web from 10.1.0.2 TCP 90: allowed",
            "ingress shop/web from 10.1.0.2 TCP 91: denied",
        ),
    ),
    Case(
        "port and endPort, and no more",
        "Kubernetes, NetworkPolicyPort, endPort",
        kubernetes(
            "k", "podSelector: {}, ingress: [{ports: [{port: 80, endPort: 90}, {port: 95}]}]"
        ),
        (
            "ingress shop/web from 10.1.0.2 TCP 79: denied",
            "ingress shop/web from 10.1.0.2 TCP 80: allowed",
            "ingress shop/web from 10.1.0.2 TCP 85: allowed",
            "ingress shop/web from 10.1.0.2 TCP 90: allowed",
            "ingress shop/web from 10.1.0.2 TCP 91: denied",
            "ingress shop/web from 10.1.0.2 UDP 85: denied",
        ),
    ),
    Case(
        "a protocol alone",
        "Kubernetes, NetworkPolicyPort; Calico, Rule",
        kubernetes(
            "k", "podSelector: {matchLabels: {app: web}}, ingress: [{ports: [{protocol: TCP}]}]"
        )
        + kubernetes(
            "l",
            "podSelector: {matchLabels: {app: client}}, ingress: [{ports: [{protocol: SCTP, port: 7}]}]",
        ),
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
        calico(
            "p",
            "selector: app == 'web', ingress: [{action: Deny, protocol: ICMP}, {action: Allow, protocol: 17}]",
        )
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
        kubernetes(
            "k", "podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {}}]}]"
        )
        + kubernetes(
            "l",
            "podSelector: {matchLabels: {app: client}}, ingress: [{from: [{namespaceSelector: {}}]}]",
        ),
        (
            "ingress shop/web from 10.1.0.2 TCP 80: allowed",
            "ingress shop/web from 10.2.0.1 TCP 80: denied",
            "ingress shop/client from 10.2.0.1 TCP 80: allowed",
            "ingress shop/client from 8.8.8.8 TCP 80: denied",
        ),
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
        (
            "ingress shop/web from 10.1.0.2 TCP 80: allowed",
            "ingress shop/client from 10.2.0.1 TCP 80: denied",
        ),
    ),
    Case(
        "several terms, and values that are one, or empty, or in other quotes",
        "Calico, NetworkPolicy, Selectors",
        calico(
            "p",
            "selector: \"has(app) && level == 'gold' && app == 'till'\", order: 1, ingress: [{action: Deny}]",
        )
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
        + calico(
            "q",
            "serviceAccountSelector: \"may == 'pay'\", selector: \"app == 'web'\"",
            namespace="bank",
        ),
        (
            "ingress shop/web from 10.2.0.1 TCP 80: denied",
            "ingress bank/till from 10.1.0.2 TCP 80: allowed",
        ),
    ),
    Case(
        "ports beside an ipBlock",
        "Kubernetes, NetworkPolicyIngressRule",
        kubernetes(
            "k",
            "podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.1.0.0/16}}], ports: [{port: 80}]}]",
        ),
        (
            "ingress shop/web from 10.1.0.2 TCP 80: allowed",
            "ingress shop/web from 10.1.0.2 TCP 81: denied",
        ),
    ),
    Case(
        "whole values, and where in a value a part is",
        "Calico, NetworkPolicy, Selectors",
        calico(
            "p",
            "ingress: [{action: Deny, source: {selector: \"app == 'cli'\"}}, "
            "{action: Deny, source: {selector: \"app starts with 'lie'\"}}, "
            "{action: Deny, source: {selector: \"app ends with 'lie'\"}}, "
            "{action: Allow, source: {selector: \"app contains 'ent'\"}}]",
        ),
        (
            "ingress shop/web from 10.1.0.2 TCP 80: allowed",
            "ingress shop/web from 10.2.0.1 TCP 80: denied",
        ),
    ),
    Case(
        "who lacks a label",
        "Calico, NetworkPolicy, Selectors",
        calico(
            "p",
            "ingress: [{action: Allow, source: {selector: '!has(note)', namespaceSelector: all()}}]",
        ),
        (
            "ingress shop/web from 10.2.0.1 TCP 80: allowed",
            "ingress shop/web from 10.1.0.2 TCP 80: denied",
        ),
    ),
)
