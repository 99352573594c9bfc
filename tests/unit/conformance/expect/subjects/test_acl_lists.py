# SPDX-License-Identifier: Apache-2.0
"""ACL lists are compared before and after a change: a different list explains a loss, the same list
does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.errors import Nonconformance, UsageProblem
from conformance.expect.subjects.witnesses import AclLists
from conformance.model.claim import ClaimVerdict
from conformance.model.host import AclRule
from tests.unit.conformance.builders import a_workload
from tests.unit.conformance.expect.stream_stand_ins import (
    BACK,
    WELL,
    WINDOWS,
    Expectations,
    ScriptedStreams,
)

RULE = AclRule(
    id="policy-demo-a-0", action="Allow", direction="In", protocol="6", local_addresses="",
    remote_addresses="192.168.0.7/32", local_ports="", remote_ports="", priority=1000,
)  # fmt: skip
OTHER = a_workload("other")
END = replace(RULE, id="", action="Block", protocol="256", remote_addresses="", priority=1001)


@pytest.mark.parametrize(
    "after",
    [
        (replace(RULE, remote_addresses="192.168.0.8/32"), END),
        (replace(RULE, id="policy-demo-b-0"), END),
        (END,),
        (END, RULE),
    ],
)
def test_a_list_with_another_rule_field_or_order_is_another_one_and_the_difference_is_told(
    after: tuple[AclRule, ...],
) -> None:
    expected = Expectations(ScriptedStreams(WELL))
    lists = AclLists(expected.expect, expected.acls)
    expected.lists = [(RULE, END), (RULE, END), after]
    lists.remember(WINDOWS)
    lists.replaced([BACK], because="policy changes")
    told = expected.attached["ACL lists"].splitlines()
    assert any(line[:2] in {"- ", "+ "} for line in told)
    assert [seen.verdict for seen in expected.kept] == [ClaimVerdict.CONFIRMED]


def test_a_list_that_was_replaced_while_no_stream_was_lost_explains_nothing() -> None:
    expected = Expectations(ScriptedStreams(WELL))
    lists = AclLists(expected.expect, expected.acls)
    expected.lists = [(RULE, END), (END,)]
    lists.remember(WINDOWS)
    lists.replaced([WELL], because="policy changes")
    assert [seen.verdict for seen in expected.kept] == [ClaimVerdict.NOT_OBSERVED]


def test_a_stream_that_was_lost_under_the_same_list_is_told_of_in_the_violation() -> None:
    expected = Expectations(ScriptedStreams(WELL))
    lists = AclLists(expected.expect, expected.acls)
    expected.lists = [(RULE, END)]
    lists.remember(WINDOWS)
    with pytest.raises(
        Nonconformance,
        match=r"observed the same 2 rules, while a stream was lost \(ns/linux .*RESET",
    ):
        lists.replaced([BACK], because="policy changes")


def test_the_same_list_is_a_violation_that_shows_it() -> None:
    expected = Expectations(ScriptedStreams(WELL))
    lists = AclLists(expected.expect, expected.acls)
    expected.lists = [(RULE, END)]
    lists.remember(WINDOWS)
    with pytest.raises(
        Nonconformance, match="expected another ACL list, observed the same 2 rules"
    ) as caught:
        lists.replaced([WELL], because="policy changes")
    assert f"  {END}" in str(caught.value).splitlines()


def test_each_direction_is_decided_by_the_streams_of_its_own() -> None:
    expected = Expectations(ScriptedStreams(WELL))
    lists = AclLists(expected.expect, expected.acls)
    expected.lists = [(RULE, END), (END,)]
    lists.remember(WINDOWS)
    out = replace(WELL, client=replace(WELL.client, workload=WINDOWS), server=WELL.client)
    elsewhere = replace(WELL, client=WELL.client, server=replace(WELL.server, workload=OTHER))
    lists.replaced([BACK, out, elsewhere], because="policy changes")
    assert {(one.part, one.verdict) for one in expected.kept} == {
        ("linux to windows", ClaimVerdict.CONFIRMED),
        ("windows to linux", ClaimVerdict.NOT_OBSERVED),
    }


TWO = replace(
    RULE,
    local_addresses="192.168.1.7/32,192.168.1.8/32",
    remote_addresses="192.168.0.7/32,192.168.0.9/32",
)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ((TWO, END), (RULE, END), "4 ACL entries before and 1 now (factor 4.0)"),
        (
            (RULE, TWO),
            (RULE, replace(RULE, id="b", priority=1001)),
            "4 ACL entries before and 1 now (factor 4.0",
        ),
    ],
)
def test_entries_are_pairs_of_addresses_of_rules_that_a_list_has_not_kept(
    before: tuple[AclRule, ...], after: tuple[AclRule, ...], told: str
) -> None:
    expected = Expectations(ScriptedStreams(WELL))
    lists = AclLists(expected.expect, expected.acls)
    expected.lists = [before, after]
    lists.remember(WINDOWS)
    lists.shorter(because="policy changes")
    assert [seen.verdict for seen in expected.kept] == [ClaimVerdict.CONFIRMED]
    assert told in expected.kept[0].reason


@pytest.mark.parametrize("after", [(TWO, END), (replace(TWO, id="b"), END), (END,)])
def test_as_many_entries_and_none_at_all_are_no_fewer(after: tuple[AclRule, ...]) -> None:
    expected = Expectations(ScriptedStreams(WELL))
    lists = AclLists(expected.expect, expected.acls)
    expected.lists = [(TWO, END), after]
    lists.remember(WINDOWS)
    with pytest.raises(
        Nonconformance, match=r"^RST-1: windows-1: expected fewer entries than before, obser"
    ):
        lists.shorter(because="policy changes")


def test_lists_that_were_not_remembered_are_a_mistake() -> None:
    expected = Expectations(ScriptedStreams(WELL))
    with pytest.raises(UsageProblem):
        AclLists(expected.expect, expected.acls).replaced([], because="policy changes")
