# SPDX-License-Identifier: Apache-2.0
"""Literal cases of policies: which of them apply, in which direction and in which order; tiers and
their ends."""

from __future__ import annotations

from tests.unit.conformance.policy.oracle.literal import ALLOW, DENY, Case, calico, kubernetes, tier

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
        (
            "ingress shop/web from 10.1.0.2 TCP 80: denied",
            "egress shop/web to 10.1.0.2 TCP 80: allowed",
        ),
    ),
    Case(
        "no types and egress rules: egress alone",
        "Calico, NetworkPolicy, spec.types",
        calico("p", "egress: [{action: Deny}]"),
        (
            "ingress shop/web from 10.1.0.2 TCP 80: allowed",
            "egress shop/web to 10.1.0.2 TCP 80: denied",
        ),
    ),
    Case(
        "no policyTypes and egress rules: both",
        "Kubernetes, NetworkPolicySpec, policyTypes",
        kubernetes("k", "podSelector: {}, egress: [{ports: [{port: 80}]}]"),
        (
            "ingress shop/web from 10.1.0.2 TCP 80: denied",
            "egress shop/web to 10.1.0.2 TCP 81: denied",
        ),
    ),
    Case(
        "a node reaches its own pods",
        "Kubernetes, Network Policies; XPOL-8",
        calico("p", DENY),
        (
            "ingress shop/web from 10.0.0.9 TCP 80: allowed",
            "ingress shop/web from 10.0.0.8 TCP 80: denied",
        ),
    ),
    Case(
        "policies of one order",
        "no document; Calico's code changed it in v3.32",
        calico("a", f"order: 5, {ALLOW}")
        + calico("b", "order: 5, ingress: [{action: Deny, protocol: TCP}]"),
        (
            "ingress shop/web from 10.1.0.2 TCP 80: not said",
            "ingress shop/web from 10.1.0.2 UDP 80: allowed",
        ),
    ),
    Case(
        "policies of one order that agree, and one behind them",
        "Calico, NetworkPolicy, spec.order",
        calico("a", "order: 5, ingress: [{action: Deny, protocol: TCP}]")
        + calico("b", "order: 5, ingress: [{action: Deny, protocol: UDP}]")
        + calico("c", f"order: 6, {ALLOW}"),
        (
            "ingress shop/web from 10.1.0.2 TCP 80: denied",
            "ingress shop/web from 10.1.0.2 SCTP 80: allowed",
        ),
    ),
    Case(
        "three policies of one order, the middle one of which differs",
        "no document",
        calico("a", f"order: 5, {ALLOW}")
        + calico("b", f"order: 5, {DENY}")
        + calico("c", f"order: 5, {ALLOW}"),
        ("ingress shop/web from 10.1.0.2 TCP 80: not said",),
    ),
    Case(
        "an order that decides before the tie",
        "Calico, NetworkPolicy, spec.order",
        calico("a", f"order: 5, {ALLOW}")
        + calico("b", f"order: 5, {DENY}")
        + calico("first", f"order: 1, {DENY}"),
        ("ingress shop/web from 10.1.0.2 TCP 80: denied",),
    ),
    Case(
        "a tie that passes or allows, before a tier that allows",
        "Calico, Tier",
        tier("t", "order: 1")
        + calico("t.a", "tier: t, order: 5, ingress: [{action: Pass}]", kind="GlobalNetworkPolicy")
        + calico("t.b", f"tier: t, order: 5, {ALLOW}", kind="GlobalNetworkPolicy")
        + calico("p", "order: 1, ingress: [{action: Allow, protocol: TCP}]"),
        (
            "ingress shop/web from 10.1.0.2 TCP 80: allowed",
            "ingress shop/web from 10.1.0.2 UDP 80: not said",
        ),
    ),
    Case(
        "a pod that sends to itself",
        "no document",
        calico("p", DENY),
        ("ingress shop/web from 10.1.0.1 TCP 80: not said",),
    ),
    Case(
        "a Log rule decides nothing",
        "Calico, NetworkPolicy, Rule; XPOL-5",
        calico("p", "ingress: [{action: Log}, {action: Allow, protocol: TCP}]"),
        (
            "ingress shop/web from 10.1.0.2 TCP 80: allowed",
            "ingress shop/web from 10.1.0.2 UDP 80: denied",
        ),
    ),
    Case(
        "Pass in the default tier",
        "Calico, Tier; XPOL-6",
        calico("p", "ingress: [{action: Pass, protocol: TCP}]"),
        (
            "ingress shop/web from 10.1.0.2 TCP 80: allowed, denied",
            "ingress shop/web from 10.1.0.2 UDP 80: denied",
        ),
    ),
    Case(
        "Pass in a tier with none behind it",
        "Calico, Tier; XPOL-6",
        tier("t", "order: 1") + calico("t.a", "tier: t, ingress: [{action: Pass, protocol: TCP}]"),
        (
            "ingress shop/web from 10.1.0.2 TCP 80: allowed",
            "ingress shop/web from 10.1.0.2 UDP 80: denied",
        ),
    ),
    Case(
        "a tier of later order behind one of earlier name",
        "Calico, Tier",
        tier("z", "order: 1, defaultAction: Pass")
        + tier("a", "order: 2")
        + calico("z.p", "tier: z, ingress: [{action: Deny, protocol: TCP}]")
        + calico("a.p", f"tier: a, {ALLOW}"),
        (
            "ingress shop/web from 10.1.0.2 TCP 80: denied",
            "ingress shop/web from 10.1.0.2 UDP 80: allowed",
        ),
    ),
    Case(
        "staged policies have no effect",
        "Calico, StagedNetworkPolicy",
        calico("a", DENY, kind="StagedNetworkPolicy")
        + calico("b", DENY, kind="StagedGlobalNetworkPolicy")
        + calico(
            "c", "podSelector: {}, policyTypes: [Ingress]", kind="StagedKubernetesNetworkPolicy"
        ),
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
        "rules of a direction that policyTypes does not name",
        "Kubernetes, NetworkPolicySpec, policyTypes",
        kubernetes("k", "podSelector: {}, policyTypes: [Egress], ingress: [{ports: [{port: 80}]}]"),
        (
            "ingress shop/web from 10.1.0.2 TCP 81: allowed",
            "egress shop/web to 10.1.0.2 TCP 80: denied",
        ),
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
    Case(
        "each of several types",
        "Calico, NetworkPolicy, spec.types; Kubernetes, NetworkPolicySpec, policyTypes",
        calico("p", f"types: [Ingress, Egress], selector: \"app == 'web'\", {ALLOW}")
        + kubernetes(
            "k",
            "podSelector: {matchLabels: {app: client}}, policyTypes: [Ingress, Egress], ingress: [{}]",
        ),
        (
            "egress shop/web to 10.1.0.2 TCP 80: denied",
            "egress shop/client to 10.1.0.1 TCP 80: denied",
        ),
    ),
    Case(
        "rules in the order in which they are written",
        "Calico, NetworkPolicy, Rule",
        tier("t", "order: 1")
        + calico("t.p", "tier: t, ingress: [{action: Deny, protocol: TCP}, {action: Pass}]")
        + calico(
            "p",
            "ingress: [{action: Allow, protocol: UDP}, {action: Allow, protocol: TCP}, {action: Deny}]",
        ),
        (
            "ingress shop/web from 10.1.0.2 TCP 80: denied",
            "ingress shop/web from 10.1.0.2 UDP 80: allowed",
        ),
    ),
)
