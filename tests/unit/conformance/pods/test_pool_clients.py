# SPDX-License-Identifier: Apache-2.0
"""A Linux pod requests each pool of which no other pod has an address; with a single pool there
is no such request."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken, MissingCapability, NotAboutThisCluster
from conformance.model.facts import Fact
from conformance.pods.deploy import Wish
from conformance.pods.groups import Group
from conformance.pods.pool_clients import PoolClients
from tests.unit.conformance.builders import a_node, a_workload


def pools(**cidrs: str) -> dict[str, Fact[str]]:
    return {f"IPPool {name}": Fact(cidr, "spec") for name, cidr in cidrs.items()}


class Cluster:
    """Pods of the demo in one pool; whoever asks gets ``given``."""

    def __init__(self, given: str) -> None:
        self.asked: list[Wish] = []
        self.deleted: list[str] = []
        self.given, self.namespace = given, "ns"
        self.changes = SimpleNamespace(
            dry_run=False, delete=lambda target, why: self.deleted.append(target.name)
        )
        demo = a_workload("demo", address="192.168.0.5")
        pods: Any = SimpleNamespace(
            clients=lambda os: Group([demo]), servers=lambda os: Group([demo])
        )
        placement: Any = SimpleNamespace(covered=lambda os: [a_node("linux-1")])
        self.clients = PoolClients(self, placement, pods)  # type: ignore[arg-type]

    def deploy(self, wishes: list[Wish]) -> dict[str, Any]:
        self.asked += wishes
        return {wish.called: a_workload(wish.called, address=self.given) for wish in wishes}


BOTH = pools(first="192.168.0.0/16", second="172.30.0.0/16")


def test_a_pod_asks_for_the_pool_that_nobody_has_an_address_of() -> None:
    cluster = Cluster("172.30.0.7")
    found = cluster.clients.of(BOTH, anywhere=BOTH)
    assert [pod.address for pod in found] == ["172.30.0.7"]
    assert [(wish.role, wish.node.name, dict(wish.annotations)) for wish in cluster.asked] == [
        ("linux-client", "linux-1", {"cni.projectcalico.org/ipv4pools": '["second"]'})
    ]
    cluster.clients.remove()
    assert cluster.deleted == ["linux-client-of-pool-1"]


def test_where_the_pods_are_of_every_pool_by_themselves_nothing_is_asked() -> None:
    cluster = Cluster("")
    halves = pools(first="192.168.0.0/17", second="192.168.0.0/16")
    assert [pod.address for pod in cluster.clients.of(halves, anywhere={})] == ["192.168.0.5"]
    assert cluster.asked == []


def test_one_pool_is_no_cluster_that_it_is_about() -> None:
    with pytest.raises(
        NotAboutThisCluster, match="several enabled pools; this cluster has: IPPool first"
    ):
        Cluster("").clients.of(pools(first="192.168.0.0/16"), anywhere={})


def test_a_pool_for_other_nodes_is_not_asked_for() -> None:
    cluster = Cluster("172.30.0.7")
    with pytest.raises(
        MissingCapability, match=r"no pod has an address of IPPool second \(172.30.0.0/16\)"
    ):
        cluster.clients.of(BOTH, anywhere=pools(first="192.168.0.0/16"))
    assert cluster.asked == []


def test_an_address_of_another_pool_breaks_the_surroundings() -> None:
    with pytest.raises(
        EnvironmentBroken,
        match=r"has the address 192.168.9.9, but requested an address of IPPool second",
    ):
        Cluster("192.168.9.9").clients.of(BOTH, anywhere=BOTH)
