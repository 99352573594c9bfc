# SPDX-License-Identifier: Apache-2.0
"""Literal cases of the identity of peers: several names and terms, labels that Calico adds, empty
values."""

from __future__ import annotations

from tests.unit.conformance.policy.oracle.cases_of_forms import at
from tests.unit.conformance.policy.oracle.literal import Case, calico, kubernetes

CASES = (
    Case(
        "each of several accounts, and each term of a namespaceSelector",
        "Calico, EntityRule, serviceAccounts and namespaceSelector",
        calico(
            "p",
            "ingress: ["
            + at(
                81,
                "namespaceSelector: team == 'red', serviceAccounts: {names: [clerk, teller, usher]}",
            )
            + ", "
            + at(82, "namespaceSelector: has(team) && team == 'blue'")
            + ", "
            + at(83, "namespaceSelector: team == 'gone' || team == 'red'")
            + ", "
            + at(
                89,
                "namespaceSelector: team == 'red', serviceAccounts: {names: [clerk], selector: has(may)}",
            )
            + "]",
        ),
        (
            "ingress shop/web from 10.2.0.1 TCP 81: allowed",
            "ingress shop/web from 10.2.0.1 TCP 82: denied",
            "ingress shop/web from 10.2.0.1 TCP 83: allowed",
            "ingress shop/web from 10.2.0.1 TCP 89: denied",
        ),
    ),
    Case(
        "each expression about namespaces, and a label whose value is empty",
        "Kubernetes, labels and selectors: requirements are ANDed; values may be empty",
        kubernetes(
            "k",
            "podSelector: {}, ingress: [{ports: [{port: 84}], from: [{namespaceSelector: {matchExpressions: "
            "[{key: team, operator: Exists}, {key: team, operator: In, values: [blue]}]}}]}, "
            '{ports: [{port: 85}], from: [{podSelector: {matchLabels: {note: ""}}}]}]',
        ),
        (
            "ingress shop/web from 10.2.0.1 TCP 84: denied",
            "ingress shop/web from 10.1.0.2 TCP 85: allowed",
            "ingress shop/client from 10.1.0.1 TCP 85: denied",
        ),
    ),
    Case(
        "labels that Calico adds to pods and to accounts, and selectors without spaces",
        "Calico, Selectors; labels projectcalico.org/namespace and projectcalico.org/name",
        calico(
            "p",
            "ingress: ["
            + at(
                86, "namespaceSelector: all(), selector: \"projectcalico.org/namespace == 'bank'\""
            )
            + ", "
            + at(
                87,
                "namespaceSelector: all(), serviceAccounts: {selector: \"projectcalico.org/name == 'teller'\"}",
            )
            + ", "
            + at(88, "selector: \"app=='client'\"")
            + "]",
        ),
        (
            "ingress shop/web from 10.2.0.1 TCP 86: allowed",
            "ingress shop/web from 10.1.0.2 TCP 86: denied",
            "ingress shop/web from 10.2.0.1 TCP 87: allowed",
            "ingress shop/web from 10.1.0.2 TCP 88: allowed",
        ),
    ),
)
"""Cases in the form of :mod:`tests.unit.conformance.policy.oracle.cases_of_rules`."""
