"""What is said of all pools is said only when a pod of each was looked at."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.errors import MissingCapability
from conformance.expect.context import Context
from conformance.expect.pools import Pools
from conformance.model.decision import Decision
from conformance.model.facts import Fact
from tests.unit.conformance.expect.stand_ins import workload

PODS = [replace(workload("a"), address="192.168.0.5"), replace(workload("b"), address="10.9.0.5")]


def pools(*cidrs: str) -> dict[str, Fact[str]]:
    return {f"IPPool {number}": Fact(cidr, "-") for number, cidr in enumerate(cidrs)}


def test_pools_of_which_each_has_a_pod_are_all_used() -> None:
    kept: list[Decision] = []
    Pools(Context(keep=kept.extend)).are_all_used(pools("192.168.0.0/16", "10.9.0.0/16"), by=PODS, because="x")
    assert [seen.halves for seen in kept] == [("read",)]


@pytest.mark.parametrize(
    ("cidrs", "words"),
    [
        (("192.168.0.0/16", "172.16.0.0/16"), r"none has an address of IPPool 1 .172.16.0.0/16."),
        ((), "there is no enabled IPv4 pool"),
    ],
)
def test_a_pool_without_a_pod_leaves_it_open(cidrs: tuple[str, ...], words: str) -> None:
    kept: list[Decision] = []
    with pytest.raises(MissingCapability, match=words):
        Pools(Context(keep=kept.extend)).are_all_used(pools(*cidrs), by=PODS, because="x")
    assert kept == []
