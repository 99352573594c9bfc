"""What a Felix that misreads policy has in place of what was written, for each way to misread."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hybridlab.policy.misreadings import MISREADINGS, misread, one_number
from hybridlab.policy.policy import Policy, PolicyKey, PolicyRule, from_spec
from hybridlab.policy.render import TierPolicies

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
    assert [rule.protocol for rule in read("any-protocol").policies[0].ingress] == ["tcp", "udp", None]
    assert [rule.protocol for rule in read("tcp-only").policies[0].ingress] == ["tcp", "tcp"]
    assert read("no-exceptions").policies[0].ingress[0].source.not_nets == ()
    assert read("blocks").policies[0].ingress[1].source.nets == ("10.0.0.0/26",)
    assert {rule.action for rule in read("allow-denies").policies[0].ingress} == {"deny"}


def test_of_several_policies_the_first_counts_alone() -> None:
    assert [one.key.name for one in read("first-policy", policy("a"), policy("b")).policies] == ["a"]


def test_what_no_rule_matches_is_allowed_and_the_rules_stay() -> None:
    (one,) = read("unmatched-allowed").policies
    assert (one.ingress[:-1], one.ingress[-1]) == (policy().ingress, PolicyRule(action="allow"))
    assert one.egress[-1] == PolicyRule(action="allow")


def test_a_policy_for_ingress_is_one_for_egress_too() -> None:
    assert read("egress-too").policies[0].types == {"ingress", "egress"}


@pytest.mark.parametrize("way", [way for way in MISREADINGS if way not in ("namesakes", "named-port-one-number")])
def test_each_way_changes_something_and_leaves_an_empty_tier_as_it_is(way: str) -> None:
    sound = TierPolicies("default", "deny", (policy("a"), policy("b")))
    assert read(way, *sound.policies) != sound
    assert misread((replace(sound, policies=()),), [way]) == (replace(sound, policies=()),)


def test_namesakes_are_members_of_sets_and_leave_the_rules() -> None:
    assert read("namesakes").policies == (policy(),)


def test_what_is_allowed_beside_comes_after_the_rules_both_ways() -> None:
    for way, protocols in (("icmp-allowed", ["icmp"]), ("dns-allowed", ["tcp", "udp"])):
        (one,) = read(way).policies
        assert [rule.protocol for rule in one.ingress[2:]] == [rule.protocol for rule in one.egress[1:]] == protocols
    assert ranges(read("dns-allowed").policies[0].ingress)[2:] == [((53, 53),), ((53, 53),)]


def test_a_ports_name_is_of_all_pods_the_number_of_the_first() -> None:
    assert one_number(("10.0.0.2,tcp:80", "10.0.0.1,tcp:8080", "10.0.0.3")) == (
        "10.0.0.1,tcp:8080", "10.0.0.2,tcp:8080", "10.0.0.3",
    )  # fmt: skip
