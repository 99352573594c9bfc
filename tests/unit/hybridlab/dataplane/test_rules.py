# SPDX-License-Identifier: Apache-2.0
"""Rules as nft text, where the text itself is the point; that the kernel takes them: tests/lab/dataplane."""

from __future__ import annotations

from typing import Any

import pytest

from hybridlab.dataplane.acl_rules import acl_rules
from hybridlab.dataplane.model import Acl, Match, Rule
from hybridlab.dataplane.rules import Rendered, append_rule, nft_set_name, set_elements


def render(match: Any, action: Any = "allow", comment: str = "") -> Any:
    into = Rendered()
    rule = Rule(action=action, match=Match(**match), comment=comment)
    append_rule(rule, accept="return", next_tier="goto next", into=into)
    return into


@pytest.mark.parametrize(
    ("action", "text"),
    [("allow", "return"), ("deny", "goto deny"), ("pass", "goto next"), ("log", "counter")],
)
def test_actions(action: str, text: str) -> None:
    assert render({}, action).rules == [text]


def test_sets_are_named() -> None:
    made = render({"src_sets": ("s:web",), "not_dst_sets": ("bad",)})
    assert made.sets == {("addresses", "s:web"), ("addresses", "bad")}
    assert made.rules == [
        f"ip saddr @{nft_set_name('addresses', 's:web')} ip daddr != @s-bad return"
    ]


def test_a_rule_that_can_never_match_is_left_out() -> None:
    assert render({"not_dst_nets": ("0.0.0.0/0",)}).rules == []


@pytest.mark.parametrize(
    ("match", "text"),
    [
        ({"icmp_type": 8, "icmp_code": 0}, "icmp type 8 icmp code 0"),
        ({"not_icmp_type": 8}, "icmp type != 8"),
        ({"not_icmp_type": 8, "not_icmp_code": 1}, "meta l4proto icmp @th,0,16 != 0x0801"),
        ({"not_src_ip_port_sets": ("p",)}, "ip saddr . meta l4proto . th sport != @p-p"),
        ({"dst_ip_port_sets": ("p",)}, "ip daddr . meta l4proto . th dport @p-p"),
    ],
)
def test_icmp_and_named_ports_as_they_are_and_as_they_are_not(match: Any, text: str) -> None:
    assert render(match).rules == [f"{text} return"]


LIST = (
    Acl(action="Block", direction="In", priority=1001),
    Acl(
        action="Allow",
        direction="In",
        priority=1000,
        protocol=6,
        remote=("10.0.0.0/8",),
        local_ports=((80, 81),),
    ),
    Acl(
        action="Allow",
        direction="Out",
        priority=1000,
        remote=("10.0.0.1/32", "10.0.0.0/24"),
        id="policy-x-0",
    ),
    Acl(action="Allow", direction="In", priority=0, rule_type="Host"),
)


def test_a_list_becomes_a_chain_a_direction_by_priority() -> None:
    assert acl_rules(LIST, "In") == (
        "meta l4proto 6 ip saddr 10.0.0.0/8 th dport 80-81 return",
        "goto deny",
        'goto deny comment "end of list"',
    )
    assert acl_rules(LIST, "Out") == (
        'ip daddr 10.0.0.0/24 return comment "policy-x-0"',
        'goto deny comment "end of list"',
    )


def test_a_direction_without_entries_is_open() -> None:
    assert acl_rules(LIST[2:], "In") == ()


def test_ports_without_a_protocol_match_only_protocols_that_have_ports() -> None:
    assert render({"dst_ports": ((80, 80),)}).rules == [
        "meta l4proto { tcp, udp, udplite, sctp } th dport 80 return"
    ]


def test_overlapping_networks_and_ports_are_merged_because_nft_refuses_them() -> None:
    match = {
        "protocol": "tcp",
        "src_nets": ("10.0.0.0/8", "10.1.0.0/16"),
        "dst_ports": ((1, 5), (4, 9), (10, 12)),
    }
    assert render(match).rules == ["meta l4proto tcp ip saddr 10.0.0.0/8 th dport 1-12 return"]


def test_comments_cannot_break_out_of_their_quotes() -> None:
    (rule,) = render({}, comment='policy "x"\n; flush ruleset ' + "y" * 200).rules
    assert rule.startswith("return comment \"policy 'x' ; flush ruleset yyy")
    assert rule.count('"') == 2
    assert len(rule) < 150


def test_set_names_are_readable_when_they_can_be_and_never_collide() -> None:
    assert nft_set_name("addresses", "friends") == "s-friends"
    assert nft_set_name("endpoints", "friends") == "p-friends"
    assert nft_set_name("addresses", "s:a") != nft_set_name("addresses", "s/a")
    assert len(nft_set_name("addresses", "x" * 300)) < 60


def test_endpoint_members_become_concatenations() -> None:
    assert set_elements("endpoints", ["10.0.0.1,tcp,80", "10.0.0.1,tcp,80"]) == [
        "10.0.0.1 . tcp . 80"
    ]
