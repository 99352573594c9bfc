# SPDX-License-Identifier: Apache-2.0
"""Kubernetes NetworkPolicy: who reaches whom under each of its forms."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from tests.unit.hybridlab.policy.verdicts import World

OTHER = "10.9.9.9"
SYSTEMS = ("linux", "windows")


def world(spec: str, os: str = "linux") -> World:
    """Two namespaces with two pods each, and one policy in ``one``."""
    made = World(os)
    made.namespace("one", team="a")
    made.namespace("two", team="b")
    http = {"name": "http", "containerPort": 80, "protocol": "TCP"}
    dns = {"name": "dns", "containerPort": 53, "protocol": "UDP"}
    made.pod("one/web", "192.168.0.1", ports=[http, dns], app="web")
    made.pod("one/client", "192.168.0.2", app="client")
    made.pod("two/web", "192.168.0.3", ports=[http], app="web")
    made.pod("two/client", "192.168.0.4", app="client")
    head = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: one}\nspec:\n"
    made.apply(head + textwrap.indent(textwrap.dedent(spec), "  "))
    return made


INGRESS = [
    # spec, who reaches one/web on TCP 80: one/client, two/client, two/web, an address outside
    ("podSelector: {}", "...."),
    ("podSelector: {matchLabels: {app: client}}", "yyyy"),
    ("{podSelector: {}, ingress: []}", "...."),
    ("{podSelector: {}, ingress: [{}]}", "yyyy"),
    ("{podSelector: {}, ingress: [{from: []}]}", "yyyy"),
    ("{podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}", "y..."),
    ("{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: client}}}]}]}", "y..."),
    ("{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]}", "...."),
    ("{podSelector: {}, ingress: [{from: [{namespaceSelector: {}}]}]}", "yyy."),
    (
        "{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: b}}}]}]}",
        ".yy.",
    ),
    (
        "{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: b}},"
        " podSelector: {matchLabels: {app: client}}}]}]}",
        ".y..",
    ),
    (
        "{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: b}}},"
        " {podSelector: {matchLabels: {app: client}}}]}]}",
        "yyy.",
    ),
    (
        "{podSelector: {}, ingress: [{from: [{namespaceSelector:"
        " {matchExpressions: [{key: team, operator: NotIn, values: [a]}]}}]}]}",
        ".yy.",
    ),
    ("{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 192.168.0.0/16}}]}]}", "yyy."),
    (
        "{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0, except: [192.168.0.4/32]}}]}]}",
        "y.yy",
    ),
    ("{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 2001:db8::/32}}]}]}", "...."),
    ("{podSelector: {}, ingress: [{ports: [{port: 80}]}]}", "yyyy"),
    ("{podSelector: {}, ingress: [{ports: [{port: 81}]}]}", "...."),
    ("{podSelector: {}, ingress: [{ports: [{port: 79, endPort: 80}]}]}", "yyyy"),
    ("{podSelector: {}, ingress: [{ports: [{port: 70, endPort: 79}]}]}", "...."),
    ("{podSelector: {}, ingress: [{ports: [{protocol: UDP, port: 80}]}]}", "...."),
    ("{podSelector: {}, ingress: [{ports: [{protocol: TCP}]}]}", "yyyy"),
    ("{podSelector: {}, ingress: [{ports: [{port: 81}, {protocol: TCP}]}]}", "yyyy"),
    ("{podSelector: {}, ingress: [{ports: [{port: 81}, {protocol: UDP}]}]}", "...."),
    ("{podSelector: {}, ingress: [{ports: [{port: http}]}]}", "yyyy"),
    ("{podSelector: {}, ingress: [{ports: [{port: https}]}]}", "...."),
    ("{podSelector: {}, ingress: [{ports: [{port: dns}]}]}", "...."),
    ("{podSelector: {}, ingress: [{ports: [{port: 81}, {port: http}]}]}", "yyyy"),
    ("{podSelector: {}, ingress: [{from: [{podSelector: {}}], ports: [{port: 81}]}]}", "...."),
    ("{podSelector: {}, ingress: [{from: [{podSelector: {}}]}, {ports: [{port: 80}]}]}", "yyyy"),
    ("{podSelector: {}, policyTypes: [Egress]}", "yyyy"),
    ("{podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{}]}", "yyyy"),
    ("{podSelector: {}, policyTypes: [Ingress], egress: [{}]}", "...."),
    ("{podSelector: {}, egress: [{}]}", "...."),
]


@pytest.mark.parametrize(("spec", "expected"), INGRESS)
def test_ingress(spec: Any, expected: Any) -> None:
    made = world(spec)
    made.graph.remove_pod("uid-one/client")  # so that its own egress says nothing here
    made.pod("one/client", "192.168.0.2", app="client")
    program = made.program("one/web")
    observed = ""
    for source in ("one/client", "two/client", "two/web", OTHER):
        packet = (made.addresses.get(source, source), made.addresses["one/web"], "tcp", 80, 8)
        observed += "y" if made._passes(program.ingress, packet) else "."
    assert observed == expected


EGRESS = [
    # spec, whom one/client reaches on TCP 80: one/web, two/web, two/client, an address outside
    ("podSelector: {}", "yyyy"),
    ("{podSelector: {}, policyTypes: [Egress]}", "...."),
    ("{podSelector: {}, egress: []}", "yyyy"),
    ("{podSelector: {}, policyTypes: [Egress], egress: [{}]}", "yyyy"),
    ("{podSelector: {}, policyTypes: [Egress], egress: [{to: [{podSelector: {}}]}]}", "y..."),
    ("{podSelector: {}, egress: [{to: [{namespaceSelector: {matchLabels: {team: b}}}]}]}", ".yy."),
    ("{podSelector: {}, egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8}}]}]}", "...y"),
    ("{podSelector: {}, egress: [{ports: [{port: 80}]}]}", "yyyy"),
    ("{podSelector: {}, egress: [{ports: [{port: http}]}]}", "yy.."),
    ("{podSelector: {}, egress: [{to: [{podSelector: {}}], ports: [{port: http}]}]}", "y..."),
    (
        "{podSelector: {}, egress: [{to: [{ipBlock: {cidr: 192.168.0.0/30}}], ports: [{port: 81}]}]}",
        "....",
    ),
    ("{podSelector: {matchLabels: {app: web}}, policyTypes: [Egress]}", "yyyy"),
]


@pytest.mark.parametrize(("spec", "expected"), EGRESS)
def test_egress(spec: Any, expected: Any) -> None:
    made = world(spec)
    program = made.program("one/client")
    observed = ""
    for target in ("one/web", "two/web", "two/client", OTHER):
        packet = (made.addresses["one/client"], made.addresses.get(target, target), "tcp", 80, 8)
        observed += "y" if made._passes(program.egress, packet) else "."
    assert observed == expected


def test_a_policy_is_about_its_own_namespace_only() -> None:
    made = world("podSelector: {}")
    assert made.allowed("one/client", "two/web")
    assert not made.allowed("two/client", "one/web")


def test_policies_add_up() -> None:
    made = world(
        "{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: b}}}]}]}"
    )
    assert not made.allowed("one/client", "one/web")
    made.apply(
        "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: q, namespace: one}, spec:"
        " {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {}}]}]}}"
    )
    assert made.allowed("one/client", "one/web")
    assert made.allowed("two/client", "one/web")
    assert not made.allowed("one/web", "one/client")


def test_a_named_port_is_each_pods_own_number() -> None:
    made = world("{podSelector: {}, ingress: [{ports: [{port: http}]}]}")
    made.pod("one/other", "192.168.0.9", ports=[{"name": "http", "containerPort": 8080}])
    assert made.allowed("two/client", "one/other", 8080)
    assert not made.allowed("two/client", "one/other", 80)
    assert made.allowed("two/client", "one/web", 80)
    assert not made.allowed("two/client", "one/web", 8080)


def test_windows_skips_an_ip_block_with_exceptions_and_no_other() -> None:
    blocks = "[{ipBlock: {cidr: 192.168.0.4/32}}, {ipBlock: {cidr: 0.0.0.0/0, except: [192.168.0.2/32]}}]"
    spec = f"{{podSelector: {{}}, ingress: [{{from: {blocks}}}]}}"
    reached = {
        os: [world(spec, os).allowed(who, "one/web") for who in ("two/client", OTHER)]
        for os in SYSTEMS
    }
    assert reached == {"linux": [True, True], "windows": [True, False]}
