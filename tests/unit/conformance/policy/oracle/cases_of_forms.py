# SPDX-License-Identifier: Apache-2.0
"""Literal cases of unusual forms: of selectors, of their combinations, of ports and of tiers."""

from __future__ import annotations

from tests.unit.conformance.policy.oracle.literal import Case, calico, kubernetes, tier

SELECTORS = "Calico, NetworkPolicy, Selectors"
SHARD = """
- kind: Pod
  metadata: {name: shard, namespace: shop, labels: {number: "1"}}
  spec: {nodeName: lin, containers: [{}]}
  status: {podIP: 10.1.0.7}
"""
MANY = range(1, 20)
"""Numbers of entries, more than a reader may expect in one list of the kernel."""
NETS = ", ".join(f"198.18.{number}.0/24" for number in MANY)
LONG = "a-name-of-" + "-".join(["many-words"] * 6)
"""A name of a policy with more characters than a label's value may have."""
ODD = ", ".join(str(port) for port in range(1, 30, 2))


def at(port: int, source: str) -> str:
    """Return a rule that admits a source at a port of its own."""
    return (
        f"{{action: Allow, protocol: TCP, destination: {{ports: [{port}]}}, source: {{{source}}}}}"
    )


CASES = (
    Case(
        "negations of negations and of one term, whole values, whole labels, and parts that are empty",
        SELECTORS,
        calico(
            "p",
            "ingress: ["
            + ", ".join(
                at(port, f'selector: "{selector}"')
                for port, selector in (
                    (81, "!!has(note)"),
                    (82, "!has(note) && level == 'bronze'"),
                    (83, "app == 'Client'"),
                    (84, "number == '01'"),
                    (85, "app == ' client'"),
                    (86, "number in {'13'}"),
                    (87, "note contains ''"),
                )
            )
            + ", "
            + at(88, "namespaceSelector: has(tea)")
            + "]",
        ),
        (
            "ingress shop/web from 10.1.0.2 TCP 81: allowed",
            "ingress shop/web from 10.1.0.2 TCP 82: denied",
            "ingress shop/web from 10.1.0.2 TCP 83: denied",
            "ingress shop/web from 10.1.0.7 TCP 84: denied",
            "ingress shop/web from 10.1.0.2 TCP 85: denied",
            "ingress shop/web from 10.1.0.7 TCP 86: denied",
            "ingress shop/web from 10.1.0.2 TCP 87: allowed",
            "ingress shop/web from 10.2.0.1 TCP 88: denied",
        ),
        SHARD,
    ),
    Case(
        "a policy's || stays in its namespace",
        "Calico, NetworkPolicy, metadata.namespace: the policy applies to endpoints of its namespace",
        calico("p", "selector: \"app == 'till' || app == 'x'\", types: [Ingress]"),
        ("ingress bank/till from 10.1.0.2 TCP 80: allowed",),
    ),
    Case(
        "a global policy's || stays in its namespaces",
        "Calico, GlobalNetworkPolicy, spec.namespaceSelector: what it selects in these namespaces",
        calico(
            "p",
            "namespaceSelector: \"kubernetes.io/metadata.name == 'shop'\", "
            "selector: \"app == 'till' || app == 'x'\", types: [Ingress]",
            kind="GlobalNetworkPolicy",
        ),
        ("ingress bank/till from 10.1.0.2 TCP 80: allowed",),
    ),
    Case(
        "a notSelector is negated as a whole, and pods that name no account have the default one",
        "Calico, EntityRule, notSelector; Kubernetes, ServiceAccount: pods without one get that called default",
        calico(
            "p",
            "ingress: ["
            + at(81, "selector: has(app), notSelector: \"app == 'x' || app == 'client'\"")
            + ", "
            + at(82, "serviceAccounts: {names: [default]}")
            + "]",
        ),
        (
            "ingress shop/web from 10.1.0.2 TCP 81: denied",
            "ingress shop/web from 10.1.0.2 TCP 82: allowed",
        ),
    ),
    Case(
        "a tier of a higher order than the default one's is asked behind it",
        "Calico, Tier, spec.order: the default tier has 1,000,000",
        tier("late", "order: 2000000")
        + calico("p", "ingress: [{action: Allow, protocol: TCP}, {action: Pass}]")
        + calico("late.p", "tier: late, ingress: [{action: Deny, protocol: TCP}, {action: Allow}]"),
        (
            "ingress shop/web from 10.1.0.2 TCP 80: allowed",
            "ingress shop/web from 10.1.0.2 UDP 80: allowed",
        ),
    ),
    Case(
        "each of many ports, and each that is excepted",
        "Calico, EntityRule, ports and notPorts",
        calico(
            "p",
            f"ingress: [{{action: Allow, protocol: TCP, destination: {{ports: [{ODD}, 80]}}}}, "
            "{action: Allow, protocol: UDP, destination: {notPorts: [53, 80]}}]",
        ),
        (
            "ingress shop/client from 10.1.0.1 TCP 80: allowed",
            "ingress shop/client from 10.1.0.1 UDP 80: denied",
        ),
    ),
    Case(
        "a port between two of Kubernetes', and namespaces that lack a label",
        "Kubernetes, NetworkPolicyPort; labels and selectors, DoesNotExist",
        kubernetes(
            "k",
            "podSelector: {}, ingress: [{ports: [{port: 80}, {port: 82}]}, {ports: [{port: 90}], "
            "from: [{namespaceSelector: {matchExpressions: [{key: gone, operator: DoesNotExist}]}}]}]",
        ),
        (
            "ingress shop/web from 10.1.0.2 TCP 81: denied",
            "ingress shop/web from 10.2.0.1 TCP 90: allowed",
        ),
    ),
    Case(
        "the last of many nets, values and rules",
        "Calico, EntityRule, nets; NetworkSet, nets; Selectors, in; Rule",
        calico(
            "p",
            "ingress: ["
            + ", ".join(
                f"{{action: Deny, protocol: UDP, destination: {{ports: [{number}]}}}}"
                for number in MANY
            )
            + ", "
            + at(91, f"nets: [{NETS}]")
            + ", "
            + at(92, "selector: role == 'many'")
            + ", "
            + at(
                93,
                f"selector: \"app in {{{', '.join(repr(str(number)) for number in MANY)}, 'client'}}\"",
            )
            + "]",
        ),
        (
            "ingress shop/web from 198.18.19.1 TCP 91: allowed",
            "ingress shop/web from 198.18.19.1 TCP 92: allowed",
            "ingress shop/web from 10.1.0.2 TCP 93: allowed",
        ),
        f"- {{kind: NetworkSet, metadata: {{name: many, namespace: shop, labels: {{role: many}}}}, "
        f"spec: {{nets: [{NETS}]}}}}",
    ),
    Case(
        "a policy with a long name",
        "Kubernetes, Object Names and IDs: up to 253 characters",
        kubernetes(LONG, "podSelector: {}, policyTypes: [Ingress]"),
        ("ingress shop/web from 10.1.0.2 TCP 80: denied",),
    ),
)
"""Cases in the form of :mod:`tests.unit.conformance.policy.oracle.cases_of_rules`."""
