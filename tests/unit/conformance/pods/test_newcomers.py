"""Newcomers come together, one with the guests' label and one without it, and go as they came."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from conformance.pods.deploy import Wish
from conformance.pods.groups import Group
from conformance.pods.newcomers import Newcomers
from tests.unit.conformance.expect.stand_ins import workload


def test_a_guest_and_a_stranger_come_to_each_clients_node_and_go_again(make: Any) -> None:
    asked: list[Wish] = []
    deleted: list[str] = []

    def deploy(wishes: list[Wish]) -> dict[str, Any]:
        asked.extend(wishes)
        return {wish.called: workload(wish.called) for wish in wishes}

    changes = SimpleNamespace(delete=lambda target, why: deleted.append(target.name))
    deployer: Any = SimpleNamespace(namespace="ns", deploy=deploy, changes=changes)
    placement: Any = SimpleNamespace(covered=lambda os: [make.node("linux-0"), make.node("linux-1")], number=len)
    newcomers = Newcomers(deployer, placement)
    guests, strangers = newcomers.beside(Group([workload("client")]))
    assert [(wish.called, wish.node.name, dict(wish.labels)) for wish in asked] == [
        ("client-guest-7", "linux-1", {"conformance/guest": "welcome"}),
        ("client-stranger-7", "linux-1", {}),
    ]
    assert [pod.pod for pod in guests + strangers] == [wish.called for wish in asked]
    newcomers.remove()
    newcomers.remove()
    assert deleted == ["client-guest-7", "client-stranger-7"]
