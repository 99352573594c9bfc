# SPDX-License-Identifier: Apache-2.0
"""The lists in HNS compared with the lists that Felix may give it: two reads, and the list that
fits best."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.errors import Nonconformance
from conformance.expect.subjects.rendered_lists import RenderedLists
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.endpoint import Workload
from conformance.model.host import AclRule
from conformance.pods.groups import Group
from conformance.policy.acl_list import HnsRule
from conformance.settings import load_timings
from tests.unit.conformance.builders import a_workload, an_expect
from tests.unit.conformance.expect.network import Network

POD = a_workload("server", "windows")
ALLOW = HnsRule(
    "Allow", "In", 6, local_ports=((80, 80),), policy="NetworkPolicy ns/p", where="ingress rule 1"
)
END = HnsRule("Block", "In", policy="the end of tier default")
HELD = AclRule(
    id="policy-ns/default.p-0123456789abcdef-0", action="Allow", direction="In", protocol="6",
    local_addresses="", remote_addresses="", local_ports="80", remote_ports="", priority=1000,
)  # fmt: skip
HELD_END = replace(HELD, id="", action="Block", protocol="256", local_ports="", priority=1001)
HOST = replace(HELD_END, action="Allow", priority=0, rule_type="Host")
FROM_HOST = replace(HELD, id="allow-host-to-endpoint", priority=900)
RIGHT = (FROM_HOST, HELD, HELD_END, HOST)


def decided(*looks: tuple[AclRule, ...], expected: list[tuple[HnsRule, ...]]) -> list[Decision]:
    """Compare what HNS shows look by look; return the decisions."""
    kept: list[Decision] = []
    expect = an_expect(Network(load_timings()), "XHNS-3", kept=kept)
    left = list(looks)

    def acls(node: str, pod: Workload) -> tuple[AclRule, ...]:
        return left.pop(0)

    RenderedLists(expect, acls, lambda pod: expected).held(Group([POD]), because="Felix renders")
    assert left == []
    return kept


def test_a_list_with_the_rules_is_right_at_the_first_look() -> None:
    found = decided(RIGHT, expected=[(ALLOW, END)])
    assert [one.verdict for one in found] == [ClaimVerdict.CONFIRMED]


def test_a_difference_of_a_single_look_does_not_count() -> None:
    found = decided((HELD_END,), RIGHT, expected=[(ALLOW, END)])
    assert [one.verdict for one in found] == [ClaimVerdict.CONFIRMED]


def test_a_rule_that_two_looks_lack_is_named_with_its_policy() -> None:
    with pytest.raises(
        Nonconformance,
        match="observed HNS lacks Allow In tcp local any:80 of NetworkPolicy ns/p, ingress rule 1, "
        "in two readings 30 s apart",
    ):
        decided((HELD_END,), (HELD_END,), expected=[(ALLOW, END)])


def test_a_list_without_the_releases_defects_is_right_too() -> None:
    found = decided(RIGHT, expected=[(END,), (ALLOW, END)])
    assert [one.verdict for one in found] == [ClaimVerdict.CONFIRMED]
