# SPDX-License-Identifier: Apache-2.0
"""For each way to misread policy: the policy that such a Felix enforces in place of the written
one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hybridlab.policy.policy import Peer, Policy, PolicyKey, PolicyRule, Ports, from_spec
from hybridlab.policy.render import TierPolicies
from tests.detection.taps.misreadings import MISREADINGS, misread, one_number

SPEC = {
    "selector": "has(app)",
    "ingress": [
        {
            "action": "Allow",
            "protocol": "TCP",
            "source": {"nets": ["10.0.0.9/32"], "notNets": ["10.0.0.8/32"]},
            "destination": {"ports": ["80:82", 443, "http"]},
        },
        {"action": "Allow", "source": {"nets": ["10.0.0.1/32"]}},
    ],
    "egress": [{"action": "Allow", "protocol": "UDP", "destination": {"ports": [53]}}],
}


def policy(name: str = "p") -> Policy:
    return from_spec(PolicyKey(name, "ns", "NetworkPolicy"), SPEC, frozenset({"ingress"}))


def read(way: str, *policies: Policy) -> TierPolicies:
    (tier,) = misread((TierPolicies("default", "deny", policies or (policy(),)),), [way])
    return tier


def ranges(rules: tuple[PolicyRule, ...]) -> list[Any]:
    return [rule.destination.ports.ranges for rule in rules]


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("first-port", ((80, 82),)),
        ("last-port", ((443, 443),)),
        ("range-start", ((80, 80), (443, 443))),
        ("range-longer", ((80, 83), (443, 443))),
        ("any-port", ()),
    ],
)
def test_which_ports_a_rule_is_read_with(way: str, expected: tuple[Any, ...]) -> None:
    assert ranges(read(way).policies[0].ingress)[0] == expected


def test_a_rule_with_a_port_by_name_is_one_for_the_others_or_none() -> None:
    assert read("named-port-any").policies[0].ingress[0].destination.ports.names == ()
    assert len(read("named-port-none").policies[0].ingress) == 1


def test_egress_rules_for_udp_lose_their_ports_or_are_none() -> None:
    assert ranges(read("egress-udp-any-port").policies[0].egress) == [()]
    assert read("no-egress-udp").policies[0].egress == ()
    assert ranges(read("egress-udp-any-port").policies[0].ingress) == ranges(policy().ingress)


def test_protocols_networks_and_actions() -> None:
    assert [rule.protocol for rule in read("any-protocol").policies[0].ingress] == [
        "tcp",
        "udp",
        None,
    ]
    assert [rule.protocol for rule in read("tcp-only").policies[0].ingress] == ["tcp", "tcp"]
    assert read("no-exceptions").policies[0].ingress[0].source.not_nets == ()
    assert read("blocks").policies[0].ingress[1].source.nets == ("10.0.0.0/26",)
    assert {rule.action for rule in read("allow-denies").policies[0].ingress} == {"deny"}


def test_of_several_policies_the_first_counts_alone() -> None:
    assert [one.key.name for one in read("first-policy", policy("a"), policy("b")).policies] == [
        "a"
    ]


def test_what_no_rule_matches_is_allowed_and_the_rules_stay() -> None:
    (one,) = read("unmatched-allowed").policies
    assert (one.ingress[:-1], one.ingress[-1]) == (policy().ingress, PolicyRule(action="allow"))
    assert one.egress[-1] == PolicyRule(action="allow")


def test_a_policy_for_ingress_is_one_for_egress_too() -> None:
    assert read("egress-too").policies[0].types == {"ingress", "egress"}


OF_SETS = ("namesakes", "last-4000-members", "named-port-one-number")
OF_WINDOWS = [
    {
        "action": "Allow",
        "protocol": "ICMP",
        "icmp": {"type": 8},
        "source": {"nets": ["10.0.0.1/32"]},
    },
    {"action": "Log"},
    {"action": "Deny", "ipVersion": 6},
    {"action": "Allow", "source": {"nets": ["10.0.0.1/32"]}, "http": {"methods": ["PUT"]}},
]
"""Rules that Windows leaves out, and that the policy above has none of."""


@pytest.mark.parametrize("way", [way for way in MISREADINGS if way not in OF_SETS])
def test_each_way_changes_something_and_leaves_an_empty_tier_as_it_is(way: str) -> None:
    more = from_spec(
        PolicyKey("c", "ns", "NetworkPolicy"), {"ingress": OF_WINDOWS}, frozenset({"ingress"})
    )
    sound = TierPolicies("default", "deny", (policy("a"), policy("b"), more))
    assert read(way, *sound.policies) != sound
    assert misread((replace(sound, policies=()),), [way]) == (replace(sound, policies=()),)


@pytest.mark.parametrize("way", OF_SETS)
def test_what_is_in_members_of_sets_leaves_the_rules(way: str) -> None:
    assert read(way).policies == (policy(),)


NEGATED = {
    "ingress": [
        {
            "action": "Allow",
            "protocol": "TCP",
            "source": {"notNets": ["10.0.0.9/32"], "nets": ["10.0.0.0/8"]},
        },
        {"action": "Deny", "source": {"notPorts": [1]}},
        {"action": "Pass", "notProtocol": "UDP"},
        {"action": "Log"},
        {"action": "Deny", "ipVersion": 6, "source": {"nets": ["2001:db8::/32"]}},
        {"action": "Allow", "source": {"nets": ["10.0.0.1/32"]}, "http": {"methods": ["PUT"]}},
        {
            "action": "Allow",
            "source": {"nets": ["10.0.0.1/32"]},
            "destination": {"ports": ["web", 81]},
        },
    ]
}


def misread_rules(way: str) -> tuple[PolicyRule, ...]:
    one = from_spec(PolicyKey("p", "ns", "NetworkPolicy"), NEGATED, frozenset({"ingress"}))
    return read(way, one).policies[0].ingress


def test_who_is_left_out_is_decided_the_other_way_before_the_rest() -> None:
    rules = misread_rules("negations-enforced")
    assert [rule.action for rule in rules[:6]] == ["deny", "allow", "allow", "deny", "deny", "pass"]
    assert rules[0].source.nets == ("10.0.0.9/32",)
    assert rules[2].source.ports.ranges == ((1, 1),)
    assert rules[4].protocol == "udp"
    assert len(rules) == 10


def test_rules_that_windows_has_no_words_for_are_misread_one_kind_at_a_time() -> None:
    plain = misread_rules("namesakes")
    assert all(
        not rule.source.not_nets and not rule.not_protocol for rule in misread_rules("no-negations")
    )
    assert [rule.source for rule in misread_rules("negations-open")[:3]] == [Peer()] * 3
    assert misread_rules("negations-open")[3:] == plain[3:]
    assert misread_rules("log-denies")[3].action == "deny"
    assert misread_rules("log-allows")[3].action == "allow"
    assert (
        misread_rules("ipv6-as-ipv4")[4].ip_version,
        misread_rules("ipv6-as-ipv4")[4].source.nets,
    ) == (
        None,
        ("0.0.0.0/0",),
    )
    opened = misread_rules("ipv6-open")
    assert (opened[4].action, opened[4].ip_version, opened[4].source) == ("allow", None, Peer())
    assert opened[:4] + opened[5:] == plain[:4] + plain[5:]
    assert len(misread_rules("http-left-out")) == len(plain) - 1
    assert [rule.source for rule in misread_rules("http-open") if rule.written.get("http")] == [
        Peer()
    ]
    opened, told = misread_rules("numbers-beside-names-open"), misread_rules("numbers-beside-names")
    assert (opened[6].source.nets, opened[6].destination.ports) == ((), Ports(ranges=((81, 81),)))
    assert (told[6].source.nets, told[6].destination.ports) == (
        ("10.0.0.1/32",),
        Ports(ranges=((81, 81),)),
    )
    assert opened[:6] == told[:6] == plain[:6]


def test_what_is_allowed_beside_comes_after_the_rules_both_ways() -> None:
    for way, protocols in (("icmp-allowed", ["icmp"]), ("dns-allowed", ["tcp", "udp"])):
        (one,) = read(way).policies
        assert (
            [rule.protocol for rule in one.ingress[2:]]
            == [rule.protocol for rule in one.egress[1:]]
            == protocols
        )
    assert ranges(read("dns-allowed").policies[0].ingress)[2:] == [((53, 53),), ((53, 53),)]


def test_a_ports_name_is_of_all_pods_the_number_of_the_first() -> None:
    assert one_number(("10.0.0.2,tcp:80", "10.0.0.1,tcp:8080", "10.0.0.3")) == (
        "10.0.0.1,tcp:8080", "10.0.0.2,tcp:8080", "10.0.0.3",
    )  # fmt: skip
