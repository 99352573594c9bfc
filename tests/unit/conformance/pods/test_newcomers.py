# SPDX-License-Identifier: Apache-2.0
"""New pods are created together, one with the guests' label and one without it, and are removed
together."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken
from conformance.pods.deploy import Wish
from conformance.pods.groups import Group
from conformance.pods.newcomers import Newcomers
from tests.unit.conformance.builders import a_node, a_workload


def test_a_guest_and_a_stranger_come_to_each_clients_node_and_go_again() -> None:
    asked: list[Wish] = []
    deleted: list[str] = []

    def deploy(wishes: list[Wish]) -> dict[str, Any]:
        asked.extend(wishes)
        return {wish.called: a_workload(wish.called) for wish in wishes}

    changes = SimpleNamespace(delete=lambda target, why: deleted.append(target.name))
    deployer: Any = SimpleNamespace(namespace="ns", deploy=deploy, changes=changes)
    placement: Any = SimpleNamespace(
        covered=lambda os: [a_node("linux-0"), a_node("linux-1")], number=len
    )
    newcomers = Newcomers(deployer, placement)
    guests, strangers = newcomers.beside(Group([a_workload("client")]))
    assert [(wish.called, wish.node.name, dict(wish.labels)) for wish in asked] == [
        ("client-guest-7", "linux-1", {"conformance/guest": "welcome"}),
        ("client-stranger-7", "linux-1", {}),
    ]
    assert [pod.pod for pod in guests + strangers] == [wish.called for wish in asked]
    newcomers.remove()
    newcomers.remove()
    assert deleted == ["client-guest-7", "client-stranger-7"]
    server = a_workload("server", role="linux-server")
    guests, strangers = newcomers.beside(Group([a_workload("client"), server]))
    assert (len(guests), len(strangers)) == (1, 2)  # a server's newcomer is a stranger alone


class Cluster:
    """A deployer that gives pods the addresses that they ask for, or others, and remembers what was done in order."""

    def __init__(self, taken: str = "") -> None:
        self.done: list[str] = []
        self.taken = taken
        self.changes = SimpleNamespace(
            dry_run=False,
            delete=lambda target, why: self.done.append(f"delete {target.kind} {target.name}"),
            waits=SimpleNamespace(
                gone=lambda target, within: self.done.append(f"{target.name} is gone")
            ),
        )
        timings: Callable[[str], Any] = lambda os: SimpleNamespace(delete=1.0)  # noqa: E731
        self.settings, self.namespace = SimpleNamespace(timings=SimpleNamespace(of=timings)), "ns"
        self.placement: Any = SimpleNamespace(
            covered=lambda os: [a_node("linux-1")], number=lambda node: 1
        )

    def deploy(self, wishes: list[Wish]) -> dict[str, Any]:
        self.done += [f"deploy {wish.called} {dict(wish.annotations)}" for wish in wishes]
        return {
            wish.called: a_workload(wish.called, address=self.taken or "192.168.0.5")
            for wish in wishes
        }

    def again(self, wish: Wish, why: str) -> Any:
        return a_workload(wish.called, uid=f"another-{wish.called}")

    @property
    def newcomers(self) -> Newcomers:
        return Newcomers(self, self.placement)  # type: ignore[arg-type]


def test_an_heir_asks_for_the_address_of_a_guest_once_that_is_gone() -> None:
    cluster = Cluster()
    newcomers = cluster.newcomers
    guests, _ = newcomers.beside(Group([a_workload("client")]))
    cluster.done.clear()
    (heir,) = newcomers.heirs(guests)
    assert heir.pod == "client-heir-1"
    asked = {"cni.projectcalico.org/ipAddrs": '["192.168.0.5"]'}
    gone = ["delete Deployment client-guest-1", "client-guest-1 is gone"]
    assert cluster.done == [*gone, f"deploy client-heir-1 {asked}"]


def test_an_heir_with_another_address_shows_nothing() -> None:
    cluster = Cluster()
    newcomers = cluster.newcomers
    guests, _ = newcomers.beside(Group([a_workload("client")]))
    cluster.taken = "192.168.0.99"
    with pytest.raises(
        EnvironmentBroken, match=r"has the address 192\.168\.0\.99, but requested 192\.168\.0\.5"
    ):
        newcomers.heirs(guests)


def test_a_twin_is_replaced_by_its_deployment_and_goes_with_it() -> None:
    cluster = Cluster()
    newcomers = cluster.newcomers
    twins = newcomers.twins(Group([a_workload("server")]))
    (new,) = newcomers.replaced(twins)
    assert new.uid != twins.first.uid
    assert "delete Pod client-twin-1" in cluster.done
    newcomers.remove()
    assert cluster.done[-1] == "delete Deployment client-twin-1"
