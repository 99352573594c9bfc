"""Rules as nft text, where the text itself is the point; that the kernel takes them: tests/lab/dataplane."""

from __future__ import annotations

import pytest

from hybridlab.dataplane.model import Match, Rule
from hybridlab.dataplane.rules import Rendered, Renderer, nft_set_name, set_elements


def render(match, action="allow", members=None, comment=""):
    into = Rendered()
    lookup = None if members is None else members.__getitem__
    rule = Rule(action=action, match=Match(**match), comment=comment)
    Renderer(lookup).rule(rule, accept="return", next_tier="goto next", into=into)
    return into


@pytest.mark.parametrize(
    ("action", "text"), [("allow", "return"), ("deny", "goto deny"), ("pass", "goto next"), ("log", "counter")]
)
def test_actions(action, text):
    assert render({}, action).rules == [text]


def test_linux_names_sets_and_windows_writes_their_members_out():
    match = {"src_sets": ("s:web",), "not_dst_sets": ("bad",)}
    linux = render(match)
    assert linux.sets == {("addresses", "s:web"), ("addresses", "bad")}
    assert linux.rules == [f"ip saddr @{nft_set_name('addresses', 's:web')} ip daddr != @s-bad return"]
    windows = render(match, members={"s:web": ("10.0.0.1", "10.0.0.0/30"), "bad": ()})
    assert windows.rules == ["ip saddr { 10.0.0.0/30 } return"]
    assert windows.sets == linux.sets


def test_a_rule_that_can_never_match_is_left_out():
    assert render({"src_sets": ("none",)}, members={"none": ()}).rules == []
    assert render({"not_dst_nets": ("0.0.0.0/0",)}).rules == []


def test_ports_without_a_protocol_match_only_protocols_that_have_ports():
    assert render({"dst_ports": ((80, 80),)}).rules == ["meta l4proto { tcp, udp, udplite, sctp } th dport 80 return"]


def test_overlapping_networks_and_ports_are_merged_because_nft_refuses_them():
    match = {"protocol": "tcp", "src_nets": ("10.0.0.0/8", "10.1.0.0/16"), "dst_ports": ((1, 5), (4, 9), (10, 12))}
    assert render(match).rules == ["meta l4proto tcp ip saddr 10.0.0.0/8 th dport 1-12 return"]


def test_comments_cannot_break_out_of_their_quotes():
    (rule,) = render({}, comment='policy "x"\n; flush ruleset ' + "y" * 200).rules
    assert rule.startswith("return comment \"policy 'x' ; flush ruleset yyy")
    assert rule.count('"') == 2
    assert len(rule) < 150


def test_set_names_are_readable_when_they_can_be_and_never_collide():
    assert nft_set_name("addresses", "friends") == "s-friends"
    assert nft_set_name("endpoints", "friends") == "p-friends"
    assert nft_set_name("addresses", "s:a") != nft_set_name("addresses", "s/a")
    assert len(nft_set_name("addresses", "x" * 300)) < 60


def test_endpoint_members_become_concatenations():
    assert set_elements("endpoints", ["10.0.0.1,tcp,80", "10.0.0.1,tcp,80"]) == ["10.0.0.1 . tcp . 80"]
