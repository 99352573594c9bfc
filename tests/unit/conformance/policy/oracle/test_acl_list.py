# SPDX-License-Identifier: Apache-2.0
"""The judge's renderer gives the lists that Calico's own code gives, in both sets of tables, and
the comparison names what HNS lacks.

``make check-oracle`` takes every case.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.errors import ProbeBroken, UsageProblem
from conformance.model.host import AclRule
from conformance.policy.acl_differences import Difference, compare, observed_list
from conformance.policy.acl_list import FelixPanics, HnsRule, acl_list, selecting
from conformance.policy.oracle.oracle import Oracle
from conformance.policy.oracle.switches import WINDOWS, Minor
from conformance.policy.oracle.world import World
from conformance.probe import hns
from hybridlab.policy.release import Release
from hybridlab.profiles.model import CalicoDefects
from tests.golden.policy_objects import Objects
from tests.golden.policy_tables import listed

Obj = dict[str, Any]
GOLDEN = Path(__file__).parents[4] / "golden"
TABLES: dict[str, tuple[str, Minor, int]] = {
    "windows-policy/windows_acls.jsonl.gz": ("windows-policy/world.json", (3, 31), 1000),
    "windows-policy/windows_acls_v3.32.1.jsonl.gz": ("windows-policy/world.json", (3, 32), 992),
    "windows-policy-2/windows_acls_v3.31.7.jsonl.gz": (
        "windows-policy-2/world-v3.31.json.gz",
        (3, 31),
        2070,
    ),
    "windows-policy-2/windows_acls_v3.32.1.jsonl.gz": (
        "windows-policy-2/world-v3.32.json.gz",
        (3, 32),
        2075,
    ),
    "windows-policy-2/windows_acls_v3.33.jsonl.gz": (
        "windows-policy-2/world-v3.32.json.gz",
        (3, 33),
        2070,
    ),
}
"""Table to its world, its release, and how many lists it has."""


def text(name: str) -> str:
    """A file's text, unpacked."""
    raw = (GOLDEN / name).read_bytes()
    return (gzip.decompress(raw) if name.endswith(".gz") else raw).decode()


def cases(table: str, chosen: slice) -> Iterator[tuple[Obj, Oracle]]:
    """The chosen cases of a table that Calico takes, each with the judge's oracle."""
    document = json.loads(text(TABLES[table][0]))
    worlds: dict[bool, tuple[list[Obj], World]] = {}
    for line in text(table).splitlines()[chosen]:
        case = json.loads(line)
        if "acls" in case or "panic" in case:
            sets = bool(case["network_sets"])
            if sets not in worlds:
                objects = [*document["objects"], *(document["network_sets"] if sets else ())]
                worlds[sets] = (objects, World(objects))
            objects, world = worlds[sets]
            tiers = [obj for obj in objects if obj["kind"] == "Tier"]
            yield case, Oracle(world, [*tiers, *case["objects"]])


def read(entries: list[Obj]) -> tuple[HnsRule, ...]:
    """A list of the table as it comes from HNS."""
    found = {"ID": "e", "Policies": [{"Type": "ACL", **entry} for entry in entries]}
    return observed_list(hns.endpoint(found).acls)


@pytest.mark.parametrize("table", TABLES)
def test_the_lists_are_those_of_calicos_own_code(table: str, chosen: slice) -> None:
    release = TABLES[table][1]
    lists = 0
    for case, oracle in cases(table, chosen):
        if "panic" in case:
            with pytest.raises(FelixPanics, match="highest common port"):
                _ = [
                    acl_list(oracle, oracle.world.pods[pod], release) for pod in on_windows(oracle)
                ]
            continue
        for pod, entries in case["acls"].items():
            expected = acl_list(oracle, oracle.world.pods[pod], release)
            found = [str(one) for one in compare(expected, read(entries))]
            assert found == [], f"{case['id']} {pod}"
            lists += 1
    assert lists == TABLES[table][2] if chosen == slice(None) else lists > 100


def on_windows(oracle: Oracle) -> list[str]:
    """Pods of the tables' Windows node."""
    return [name for name, pod in oracle.world.pods.items() if pod.node == "win-1"]


def test_each_rule_that_is_lost_added_or_moved_is_named() -> None:
    """On all lists of every fortieth case: the comparison notices each single change that
    matters."""
    table = "windows-policy/windows_acls.jsonl.gz"
    changed = 0
    for case, oracle in cases(table, slice(0, None, 40)):
        for pod in case.get("acls", ()):
            expected = acl_list(oracle, oracle.world.pods[pod], (3, 31))
            for place, rule in enumerate(expected):
                without = [*expected[:place], *expected[place + 1 :]]
                assert compare(expected, without)[0].is_missing
                assert compare(expected, [*expected, rule]) == (Difference(rule, False),)
                other = replace(rule, action="Block" if rule.action == "Allow" else "Allow")
                assert len(compare(expected, [*without, other])) == 2
                changed += 1
    assert changed > 50


BLOCK = HnsRule("Block", "In", policy="the end of tier default")
WEB = HnsRule(
    "Allow",
    "In",
    6,
    remote=((0x0A000001, 0x0A000001),),
    local_ports=((80, 80), (8000, 8010)),
    policy="NetworkPolicy shop/web",
    where="ingress rule 2",
)


def test_a_difference_says_rule_and_policy() -> None:
    (lost,) = compare([WEB, BLOCK], [BLOCK])
    assert str(lost) == (
        "HNS lacks Allow In tcp local any:80,8000-8010 remote 10.0.0.1 of "
        "NetworkPolicy shop/web, ingress rule 2"
    )
    assert lost.origin == "NetworkPolicy shop/web, ingress rule 2"
    (strange,) = compare([BLOCK], [replace(WEB, policy="shop/default.old", where=""), BLOCK])
    assert str(strange).endswith("of shop/default.old, which no policy requires")


def test_an_order_counts_where_a_packet_meets_it() -> None:
    (moved,) = compare([WEB, BLOCK], [BLOCK, WEB])
    assert moved.misplaced
    assert str(moved).endswith("of the end of tier default at another place in the list")
    udp = replace(WEB, action="Block", protocol=17)
    assert compare([WEB, udp, BLOCK], [udp, WEB, BLOCK]) == ()
    allowed = replace(WEB, protocol=17)
    assert compare([WEB, allowed, BLOCK], [allowed, WEB, BLOCK]) == ()


def entry(number: int, *addresses: str, priority: int = 1000) -> AclRule:
    """A part of a rule with many addresses."""
    return AclRule(
        id=f"policy-shop/default.web-0123456789abcdef-{number}",
        action="Allow",
        direction="In",
        protocol="TCP",
        local_addresses="",
        remote_addresses=",".join(addresses),
        local_ports="80",
        remote_ports="",
        priority=priority,
    )


def test_parts_of_a_rule_with_many_addresses_are_one() -> None:
    (rule,) = observed_list(
        [entry(1, "10.0.0.2/32", priority=1001), entry(0, "10.0.0.1/32", "10.0.1.0/24")]
    )
    assert rule.remote == ((0x0A000001, 0x0A000002), (0x0A000100, 0x0A0001FF))
    assert rule.policy == "shop/default.web"
    assert len(observed_list([entry(0, "10.0.0.1"), entry(0, "10.0.0.2")])) == 2


@pytest.mark.parametrize(
    ("changed", "kept"),
    [
        ({"priority": 65500, "action": "Allow"}, False),
        ({"priority": 65500, "action": "Block", "direction": "Out"}, False),
        ({"priority": 200, "action": "Block", "direction": "Out"}, False),
        ({"priority": 200, "action": "Block", "remote_addresses": "169.254.169.254"}, True),
        # a policy may deny the same
        ({"priority": 1000, "direction": "Out", "remote_addresses": "169.254.169.254/32"}, True),
        ({"priority": 200, "action": "Allow", "direction": "Out"}, True),
        ({"priority": 200, "direction": "Out", "remote_addresses": ""}, True),
        ({"priority": 65000, "action": "Allow", "remote_addresses": ""}, True),
    ],
)
def test_what_the_cni_plugin_gives_every_pod_is_no_rule_of_a_policy(
    changed: dict[str, Any], kept: bool
) -> None:
    wire_server = replace(entry(0, "168.63.129.16/32"), id="", direction="In", action="Block")
    assert bool(observed_list([replace(wire_server, **changed)])) is kept


def test_a_rule_that_cannot_be_read_is_a_broken_probe() -> None:
    with pytest.raises(ProbeBroken, match="cannot be read"):
        observed_list([entry(0, "10.0.0.300")])


def test_releases_that_nobody_has_read_are_refused() -> None:
    world = World([])
    pod = next(iter(pods()))
    with pytest.raises(
        UsageProblem, match=r"v3\.28: the suite knows the lists of v3\.29 to v3\.33"
    ):
        acl_list(Oracle(world, []), pod, (3, 28))


def pods() -> Iterator[Any]:
    """Pods of the first world."""
    _, oracle = next(cases("windows-policy/windows_acls.jsonl.gz", slice(1, 2)))
    yield from oracle.world.pods.values()


def test_the_policies_of_a_pod_are_named() -> None:
    case, oracle = next(cases("windows-policy/windows_acls.jsonl.gz", slice(4, 5)))
    names = [obj["metadata"]["name"] for obj in case["objects"]]
    assert selecting(oracle, oracle.world.pods["alpha/w1"], (3, 31)) == [
        f"NetworkPolicy alpha/{name}" for name in names
    ]


def test_without_defects_the_lists_are_those_of_a_lab_without_them(chosen: slice) -> None:
    """No table has them: the lab is the second opinion."""
    table = "windows-policy/windows_acls.jsonl.gz"
    document = json.loads(text(TABLES[table][0]))
    lists = 0
    for case, oracle in cases(table, chosen):
        objects = Objects(Release("v3.31.7", CalicoDefects()), tuple(document["host_addresses"]))
        sets = document["network_sets"] if case["network_sets"] else []
        objects.take([*document["objects"], *sets, *case["objects"]])
        for pod in on_windows(oracle):
            expected = acl_list(oracle, oracle.world.pods[pod], (3, 31), WINDOWS)
            observed = read(listed(objects.windows(objects.endpoints[pod]).acls))
            found = [str(one) for one in compare(expected, observed)]
            assert found == [], f"{case['id']} {pod}"
            lists += 1
    assert lists > 100
