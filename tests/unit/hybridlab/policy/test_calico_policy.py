# SPDX-License-Identifier: Apache-2.0
"""Calico's NetworkPolicy and GlobalNetworkPolicy: order, actions, scope, and every match."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from hybridlab.policy.policy import from_calico
from hybridlab.policy.release import Release
from tests.unit.hybridlab.policy.verdicts import World

OUTSIDE = "10.9.9.9"


def world(os: str = "linux", release: Release | None = None) -> World:
    made = World(os, release)
    made.namespace("one", team="a")
    made.namespace("two", team="b")
    http = {"name": "http", "containerPort": 80}
    made.pod("one/web", "192.168.0.1", ports=[http], app="web", role="server")
    made.pod("one/client", "192.168.0.2", account="robot", app="client")
    made.pod("two/web", "192.168.0.3", ports=[http], app="web")
    made.pod("two/client", "192.168.0.4", app="client")
    return made


def policy(spec: str, name: str = "p", namespace: str | None = "one") -> str:
    kind = "NetworkPolicy" if namespace else "GlobalNetworkPolicy"
    where = f", namespace: {namespace}" if namespace else ""
    return f"{{apiVersion: projectcalico.org/v3, kind: {kind}, metadata: {{name: {name}{where}}}, spec: {spec}}}"


NAMESPACED = [
    # spec of a policy in namespace one; who reaches one/web on TCP 80: one/client, two/client, outside
    ("{}", "..."),
    ("{selector: app == 'client'}", "yyy"),
    ("{selector: app == 'web'}", "..."),
    ("{types: [Egress]}", "yyy"),
    ("{ingress: [{action: Allow}]}", "yyy"),
    ("{ingress: [{action: Deny}]}", "..."),
    ("{egress: [{action: Allow}]}", "yyy"),
    ("{ingress: [{action: Deny}], egress: [{action: Allow}]}", "..."),
    ("{ingress: [{action: Allow, source: {notSelector: app == 'client'}}]}", "..."),
    (
        "{ingress: [{action: Allow, source: {namespaceSelector: all(), notSelector: app == 'web'}}]}",
        "yy.",
    ),
    ("{types: [Ingress], egress: [{action: Allow}]}", "..."),
    ("{ingress: [{action: Allow, source: {selector: app == 'client'}}]}", "y.."),
    ("{ingress: [{action: Allow, source: {selector: all()}}]}", "y.."),
    ("{ingress: [{action: Allow, source: {notSelector: app == 'web'}}]}", "y.."),
    ("{ingress: [{action: Allow, source: {namespaceSelector: all()}}]}", "yy."),
    ("{ingress: [{action: Allow, source: {namespaceSelector: team == 'b'}}]}", ".y."),
    (
        "{ingress: [{action: Allow, source: {namespaceSelector: team == 'b', selector: app == 'web'}}]}",
        "...",
    ),
    (
        "{ingress: [{action: Allow, source: {namespaceSelector: has(team), selector: app == 'client'}}]}",
        "yy.",
    ),
    ("{ingress: [{action: Allow, source: {namespaceSelector: \"team != 'a'\"}}]}", ".y."),
    ("{ingress: [{action: Allow, source: {namespaceSelector: global()}}]}", "..."),
    ("{ingress: [{action: Allow, source: {serviceAccounts: {names: [robot]}}}]}", "y.."),
    ("{ingress: [{action: Allow, source: {serviceAccounts: {names: [default]}}}]}", "..."),
    ("{ingress: [{action: Allow, source: {nets: [192.168.0.4/32, 10.0.0.0/8]}}]}", ".yy"),
    ("{ingress: [{action: Allow, source: {notNets: [192.168.0.4/32]}}]}", "y.y"),
    ("{ingress: [{action: Allow, source: {nets: ['2001:db8::/32']}}]}", "..."),
    ("{ingress: [{action: Allow, source: {notNets: ['2001:db8::/32']}}]}", "..."),
    ("{ingress: [{action: Allow, ipVersion: 6}]}", "..."),
    ("{ingress: [{action: Allow, ipVersion: 4}]}", "yyy"),
    ("{ingress: [{action: Allow, protocol: TCP}]}", "yyy"),
    ("{ingress: [{action: Allow, protocol: 6}]}", "..."),
    ("{ingress: [{action: Allow, protocol: UDP}]}", "..."),
    ("{ingress: [{action: Allow, notProtocol: UDP}]}", "yyy"),
    ("{ingress: [{action: Allow, notProtocol: TCP}]}", "..."),
    ("{ingress: [{action: Allow, protocol: TCP, destination: {ports: [80]}}]}", "yyy"),
    ("{ingress: [{action: Allow, protocol: TCP, destination: {ports: [81, '79:80']}}]}", "yyy"),
    ("{ingress: [{action: Allow, protocol: TCP, destination: {ports: ['81:90']}}]}", "..."),
    ("{ingress: [{action: Allow, protocol: TCP, destination: {ports: [http]}}]}", "yyy"),
    ("{ingress: [{action: Allow, protocol: TCP, destination: {ports: [81, http]}}]}", "yyy"),
    ("{ingress: [{action: Allow, protocol: TCP, destination: {ports: [other]}}]}", "..."),
    ("{ingress: [{action: Allow, protocol: TCP, destination: {notPorts: [80]}}]}", "..."),
    ("{ingress: [{action: Allow, protocol: TCP, destination: {notPorts: [81]}}]}", "yyy"),
    ("{ingress: [{action: Allow, destination: {selector: role == 'server'}}]}", "yyy"),
    ("{ingress: [{action: Allow, destination: {selector: role == 'other'}}]}", "..."),
    ("{ingress: [{action: Deny, source: {selector: app == 'client'}}, {action: Allow}]}", ".yy"),
    ("{ingress: [{action: Allow}, {action: Deny, source: {selector: app == 'client'}}]}", "yyy"),
    ("{ingress: [{action: Log}, {action: Allow}]}", "yyy"),
    ("{ingress: [{action: Log}]}", "..."),
    ("{ingress: [{action: Pass}]}", "yyy"),
    ("{ingress: [{action: Allow, source: {services: {name: clients}}}]}", "yy."),
    ("{ingress: [{action: Allow, http: {methods: [GET]}}]}", "yyy"),
    ("{ingress: [{action: Allow, protocol: ICMPv6}]}", "..."),
]


@pytest.mark.parametrize(("spec", "expected"), NAMESPACED)
def test_namespaced_ingress(spec: Any, expected: Any) -> None:
    made = world()
    made.apply(CLIENTS_SLICE)
    made.apply(policy(spec))
    program = made.program("one/web")
    sources = [made.addresses["one/client"], made.addresses["two/client"], OUTSIDE]
    packets = [(source, made.addresses["one/web"], "tcp", 80, 8) for source in sources]
    assert (
        "".join("y" if made._passes(program.ingress, packet) else "." for packet in packets)
        == expected
    )


CLIENTS_SLICE = """
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: clients-1, namespace: one, labels: {kubernetes.io/service-name: clients}}
endpoints:
- {addresses: [192.168.0.2], conditions: {ready: true}}
- {addresses: [192.168.0.4], conditions: {ready: false}}
ports: [{port: 9000, protocol: TCP}]
"""


def test_egress_to_a_service_is_to_its_backends_ready_or_not_and_their_ports() -> None:
    made = world()
    made.apply(CLIENTS_SLICE.replace("port: 9000", "port: 80"))
    made.apply(
        policy(
            "{types: [Egress], egress: [{action: Allow, destination: {services: {name: clients}}}]}"
        )
    )
    assert made.allowed("one/web", "one/client", 80)
    assert not made.allowed("one/web", "one/client", 81)
    assert made.allowed("one/web", "two/client", 80)
    assert not made.allowed("one/web", "two/web", 80)


def test_icmp_types() -> None:
    made = world()
    made.apply(policy("{ingress: [{action: Allow, protocol: ICMP, icmp: {type: 8}}]}"))
    assert made.allowed("two/client", "one/web", 0, "icmp", icmp=8)
    assert not made.allowed("two/client", "one/web", 0, "icmp", icmp=13)
    assert not made.allowed("two/client", "one/web")


@pytest.mark.parametrize(
    ("first", "second", "allowed"),
    [
        ("order: 10", "order: 20", False),
        ("order: 20", "order: 10", True),
        ("order: 10", "", False),
        ("", "order: 1", True),
    ],
)
def test_the_lower_order_is_asked_first_and_none_is_last(
    first: str, second: str, allowed: bool
) -> None:
    made = world()
    made.apply(
        policy(f"{{{first}{', ' if first else ''}ingress: [{{action: Deny}}]}}", name="deny")
    )
    made.apply(
        policy(f"{{{second}{', ' if second else ''}ingress: [{{action: Allow}}]}}", name="allow")
    )
    assert made.allowed("two/client", "one/web") is allowed


def test_policies_of_one_order_go_by_name() -> None:
    made = world()
    made.apply(policy("{ingress: [{action: Deny}]}", name="b"))
    made.apply(policy("{ingress: [{action: Allow}]}", name="a"))
    assert made.allowed("two/client", "one/web")


@pytest.mark.parametrize(("version", "allowed"), [("v3.31.7", False), ("v3.32.1", True)])
def test_which_of_two_of_one_order_is_first_changed_with_3_32(version: str, allowed: bool) -> None:
    made = world(release=Release(version))
    made.apply(
        "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: a, namespace: one},"
        " spec: {podSelector: {}, ingress: [{}]}}"
    )
    made.apply(policy("{order: 1000, ingress: [{action: Deny}]}", name="z"))
    assert made.allowed("two/client", "one/web") is allowed


def test_a_kubernetes_policy_has_order_1000() -> None:
    made = world()
    made.apply(
        "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: k, namespace: one},"
        " spec: {podSelector: {}, ingress: [{from: [{namespaceSelector: {}}]}]}}"
    )
    made.apply(policy("{order: 1001, ingress: [{action: Deny}]}"))
    assert made.allowed("two/client", "one/web")
    made.apply(policy("{order: 999, ingress: [{action: Deny}]}"))
    assert not made.allowed("two/client", "one/web")


GLOBAL = [
    # spec; which of one/web, two/web are reached by two/client
    ("{selector: all()}", ".."),
    (
        "{selector: app == 'web', ingress: [{action: Allow, source: {selector: app == 'client'}}]}",
        "yy",
    ),
    (
        "{selector: app == 'web', ingress: [{action: Allow, source: {selector: app == 'other'}}]}",
        "..",
    ),
    ("{namespaceSelector: team == 'a'}", ".y"),
    ("{namespaceSelector: team == 'b', selector: app == 'web'}", "y."),
    ("{namespaceSelector: all()}", ".."),
    ("{namespaceSelector: global()}", "yy"),
    ("{serviceAccountSelector: grade == 'high'}", "yy"),
    ("{selector: app == 'web', types: [Egress]}", "yy"),
]


@pytest.mark.parametrize(("spec", "expected"), GLOBAL)
def test_global(spec: Any, expected: Any) -> None:
    made = world()
    made.apply(policy(spec, namespace=None))
    program = {target: made.program(target).ingress for target in ("one/web", "two/web")}
    packets = {
        target: (made.addresses["two/client"], made.addresses[target], "tcp", 80, 8)
        for target in program
    }
    assert (
        "".join("y" if made._passes(program[t], packets[t]) else "." for t in program) == expected
    )


def test_a_service_accounts_labels_select() -> None:
    made = world()
    made.apply(policy("{serviceAccountSelector: grade == 'high'}", namespace=None))
    assert made.program("one/client").ingress == ()
    made.graph.set_service_account("one", "robot", {"grade": "high"})
    assert not made.allowed("two/web", "one/client")
    made.graph.set_service_account("one", "robot", None)
    assert made.allowed("two/web", "one/client")


@pytest.mark.parametrize(
    ("selector", "outside"), [("all()", False), ("team != 'a'", True), ("!has(missing)", True)]
)
def test_only_all_as_a_namespace_selector_leaves_out_what_has_no_namespace(
    selector: str, outside: bool
) -> None:
    made = world()
    made.apply(
        "{apiVersion: projectcalico.org/v3, kind: GlobalNetworkSet, metadata: {name: g}, spec: {nets: [10.0.0.0/8]}}"
    )
    made.apply(
        policy(f'{{ingress: [{{action: Allow, source: {{namespaceSelector: "{selector}"}}}}]}}')
    )
    assert made.allowed(OUTSIDE, "one/web") is outside
    assert made.allowed("two/client", "one/web")


def test_kubernetes_selectors_never_mean_a_network_set() -> None:
    made = world()
    made.apply(
        "{apiVersion: projectcalico.org/v3, kind: NetworkSet, metadata: {name: n, namespace: one},"
        " spec: {nets: [10.0.0.0/8]}}"
    )
    made.apply(
        "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: k, namespace: one},"
        " spec: {podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}}"
    )
    assert made.allowed("one/client", "one/web")
    assert not made.allowed(OUTSIDE, "one/web")


@pytest.mark.parametrize(
    "spec", ["{doNotTrack: true, applyOnForward: true}", "{preDNAT: true, applyOnForward: true}"]
)
def test_what_is_for_host_endpoints_only_does_nothing_at_pods(spec: str) -> None:
    for os in ("linux", "windows"):
        made = world(os)
        made.apply(policy(spec, namespace=None))
        assert made.allowed("two/client", "one/web")


def test_policies_of_a_missing_tier_are_asked_last_and_deny_at_their_end() -> None:
    made = world()
    made.apply(
        policy(
            "{tier: gone, order: 1, ingress: [{action: Allow, source: {selector: all()}}]}",
            name="gone.p",
        )
    )
    assert made.allowed("one/client", "one/web")
    assert not made.allowed("two/client", "one/web")
    made.apply(policy("{selector: app == 'web', ingress: [{action: Allow}]}", name="q"))
    assert made.allowed("two/client", "one/web")


def test_staged_policies_do_nothing_on_either_system() -> None:
    for os in ("linux", "windows"):
        made = world(os)
        staged = policy("{ingress: [{action: Deny}]}").replace(
            "kind: NetworkPolicy", "kind: StagedNetworkPolicy"
        )
        made.apply(staged)
        assert made.allowed("two/client", "one/web")


def test_network_sets_are_peers_by_label() -> None:
    made = world()
    made.apply(
        "{apiVersion: projectcalico.org/v3, kind: GlobalNetworkSet, metadata: {name: g, labels: {kind: partner}},"
        " spec: {nets: [10.9.0.0/16, '2001:db8::/32']}}"
    )
    made.apply(
        policy(
            "{selector: all(), ingress: [{action: Allow, source: {selector: kind == 'partner'}}]}",
            "g",
            None,
        )
    )
    assert made.allowed(OUTSIDE, "one/web")
    made.apply(
        policy("{order: 1, ingress: [{action: Deny, source: {selector: kind == 'partner'}}]}")
    )
    assert made.allowed(OUTSIDE, "one/web"), (
        "a namespaced policy's selector sees its own namespace only"
    )
    made.apply(
        "{apiVersion: projectcalico.org/v3, kind: NetworkSet, metadata: {name: n, namespace: one, labels:"
        " {kind: partner}}, spec: {nets: [10.9.9.9/32]}}"
    )
    assert not made.allowed(OUTSIDE, "one/web")
    made.graph.set_network_set("NetworkSet/one/n", None)
    assert made.allowed(OUTSIDE, "one/web")


TIER = "{{apiVersion: projectcalico.org/v3, kind: Tier, metadata: {{name: {name}}}, spec: {spec}}}"


@pytest.mark.parametrize(
    ("tier", "first", "second", "allowed"),
    [
        ("{order: 1}", "[{action: Allow}]", "[{action: Deny}]", True),
        ("{order: 1}", "[{action: Deny}]", "[{action: Allow}]", False),
        ("{order: 1}", "[{action: Pass}]", "[{action: Allow}]", True),
        ("{order: 1}", "[{action: Pass}]", "[{action: Deny}]", False),
        ("{order: 1}", "[]", "[{action: Allow}]", False),
        ("{order: 1, defaultAction: Pass}", "[]", "[{action: Allow}]", True),
        ("{order: 1, defaultAction: Pass}", "[]", "[{action: Deny}]", False),
        ("{order: 2000000}", "[{action: Deny}]", "[{action: Allow}]", True),
        ("{}", "[{action: Deny}]", "[{action: Allow}]", True),
    ],
)
def test_tiers_are_asked_in_their_order(tier: str, first: str, second: str, allowed: bool) -> None:
    made = world()
    made.apply(TIER.format(name="default", spec="{order: 1000000}"))
    made.apply(TIER.format(name="other", spec=tier))
    made.apply(policy(f"{{tier: other, types: [Ingress], ingress: {first}}}", name="other.p"))
    made.apply(policy(f"{{types: [Ingress], ingress: {second}}}", name="q"))
    assert made.allowed("two/client", "one/web") is allowed


def test_a_tier_without_a_policy_for_the_endpoint_is_skipped() -> None:
    made = world()
    made.apply(TIER.format(name="other", spec="{order: 1}"))
    made.apply(policy("{tier: other, selector: app == 'client'}", name="other.p"))
    assert made.allowed("two/client", "one/web")
    assert not made.allowed("two/client", "one/client")


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            "{action: Permit}",
            "spec.ingress[0].action is 'Permit', expected Allow, Deny, Log or Pass",
        ),
        (
            "{action: Allow, destination: {ports: ['9:1']}}",
            "spec.ingress[0].destination.ports: '9:1' is not a range",
        ),
        ("{action: Allow, destination: {ports: ['1:x']}}", "'1:x' is not a range"),
        ("{action: Allow, destination: {ports: [70000]}}", "70000 is not a range"),
        (
            "{action: Allow, source: {selector: a = 1}}",
            "expected an operator after 'a' at position",
        ),
    ],
)
def test_what_cannot_be_used_is_refused(rule: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        from_calico(yaml.safe_load(policy(f"{{ingress: [{rule}]}}")))


@pytest.mark.parametrize(
    ("match", "icmp", "allowed"),
    [
        ("protocol: ICMP, notICMP: {type: 8}", 13, True),
        ("protocol: ICMP, notICMP: {type: 8}", 8, False),
        ("protocol: ICMP, icmp: {type: 8}", 8, True),
    ],
)
def test_icmp_is_matched_by_type_and_by_what_it_is_not(
    match: str, icmp: int, allowed: bool
) -> None:
    made = world()
    made.apply(policy(f"{{ingress: [{{action: Allow, {match}}}]}}"))
    assert made.allowed("two/client", "one/web", 0, "icmp", icmp=icmp) is allowed


@pytest.mark.parametrize(
    "match",
    [
        "source: {notNets: [10.0.0.0/8]}",
        "destination: {notNets: [10.0.0.0/8]}",
        "source: {notSelector: app == 'nobody'}",
        "notProtocol: UDP",
        "protocol: TCP, destination: {notPorts: [81]}",
        "protocol: TCP, source: {notPorts: [81]}",
        "protocol: TCP, destination: {notPorts: [https]}",
        "protocol: TCP, destination: {ports: [http, 81]}",
        "protocol: ICMP, icmp: {type: 8}",
        "protocol: ICMP, notICMP: {type: 13}",
    ],
)
def test_windows_skips_a_rule_that_linux_applies_and_says_so(match: str) -> None:
    icmp = (0, "icmp") if "ICMP" in match else (80, "tcp")
    made = world("linux")
    made.apply(policy(f"{{ingress: [{{action: Allow, {match}}}]}}", namespace=None))
    assert made.allowed("one/client", "one/web", *icmp)
    made = world("windows")
    made.apply(policy(f"{{ingress: [{{action: Allow, {match}}}]}}", namespace=None))
    assert not made.allowed("one/client", "one/web", *icmp)
    assert made.left_out[0].startswith("GlobalNetworkPolicy p ingress rule 0: ")
    made.apply(
        policy(f"{{ingress: [{{action: Deny, {match}}}, {{action: Allow}}]}}", namespace=None)
    )
    assert made.allowed("one/client", "one/web", *icmp), "what is skipped denies nothing either"


def test_windows_skips_log_rules_and_keeps_what_is_said_without_a_negation() -> None:
    made = world("windows")
    made.apply(
        policy("{ingress: [{action: Log}, {action: Allow, source: {selector: app != 'web'}}]}")
    )
    assert made.allowed("one/client", "one/web")
    assert made.left_out == ["NetworkPolicy one/p ingress rule 0: Log"]
    assert not made.allowed("two/client", "one/web")


@pytest.mark.parametrize(
    "beside", ["selector: all()", "namespaceSelector: all()", "serviceAccounts: {names: [robot]}"]
)
def test_windows_folds_a_not_selector_into_what_selects_beside_it(beside: str) -> None:
    made = world("windows")
    source = f"{{{beside}, notSelector: app == 'web'}}"
    made.apply(policy(f"{{ingress: [{{action: Allow, source: {source}}}]}}", namespace=None))
    assert made.allowed("one/client", "one/web")
    assert not made.allowed("two/web", "one/web")
    assert not made.left_out


@pytest.mark.parametrize(
    ("tiers", "allowed"),
    [
        ("{ingress: [{action: Pass}]}", {"linux": True, "windows": False}),
        ("{order: 1, ingress: [{action: Pass}]}", {"linux": True, "windows": False}),
    ],
)
def test_what_the_default_tier_passes_is_blocked_on_windows_only(tiers: str, allowed: Any) -> None:
    for os in ("linux", "windows"):
        made = world(os)
        made.apply(policy(tiers))
        assert made.allowed("two/client", "one/web") is allowed[os]
