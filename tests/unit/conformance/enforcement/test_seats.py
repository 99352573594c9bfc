# SPDX-License-Identifier: Apache-2.0
"""Seats of worlds: one per covered node and space, made once; a node without them makes no other node's undecided."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.enforcement.seats import BYSTANDERS, NEWEST, Seats
from conformance.errors import EnvironmentBroken
from conformance.model.claim import ClaimVerdict
from conformance.model.endpoint import Workload
from conformance.model.facts import Facts
from conformance.pods.deploy import Wish
from conformance.pods.placement import Placement
from conformance.policy import worlds
from tests.plugin.stand_in_cluster import facts
from tests.unit.conformance.builders import a_workload

NODES = ("linux-1", "linux-2", "win-0", "win-1")


@dataclass
class Deployer:
    """Makes pods of wishes; nodes in ``broken`` take none, and pods in ``gone`` are no longer there."""

    broken: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    dry_run: bool = False
    namespace: str = "demo"
    deployed: list[Wish] = field(default_factory=list)
    prepared: dict[str, Any] = field(default_factory=dict)
    applied: list[tuple[str, str, Any]] = field(default_factory=list)
    made: dict[str, Workload] = field(default_factory=dict)
    replaced: list[str] = field(default_factory=list)

    @property
    def changes(self) -> Any:
        return SimpleNamespace(apply=self._apply, dry_run=self.dry_run)

    @property
    def kube(self) -> Any:
        return SimpleNamespace(objects=self._objects)

    def prepare(self, namespace: str, labels: Any = None) -> None:
        self.prepared[namespace] = labels

    def deploy(self, wishes: list[Wish]) -> dict[str, Workload]:
        self.deployed += wishes
        if wishes[0].node.name in self.broken:
            raise EnvironmentBroken(f"image cannot be pulled on {wishes[0].node.name}")
        there = {wish.called: self._workload(wish) for wish in wishes}
        self.made |= {workload.uid: workload for workload in there.values()}
        return there

    def again(self, wish: Wish, why: str) -> Workload:
        self.replaced.append(why)
        self.gone.clear()
        there = replace(self._workload(wish), uid=f"new-{wish.called}")
        self.made[there.uid] = there
        return there

    def _apply(self, obj: Any, why: str, *, namespace: str) -> None:
        self.applied.append((namespace, obj["kind"], obj["metadata"]))

    def _objects(self, *kind: object) -> list[Any]:
        return [
            {
                "metadata": {"name": pod.pod, "namespace": pod.namespace, "uid": pod.uid},
                "spec": {},
                "status": {"phase": "Running", "podIP": pod.address},
            }
            for pod in self.made.values()
            if pod.namespace == kind[-1] and pod.uid not in self.gone
        ]

    @staticmethod
    def _workload(wish: Wish) -> Workload:
        return a_workload(
            wish.called,
            wish.node.os,
            namespace=wish.namespace,
            role=wish.role,
            node=wish.node.name,
            node_address=wish.node.address,
        )


def seats_of(deployer: Deployer, cluster: Facts | None = None) -> Seats:
    return Seats(deployer, Placement(cluster or facts()))  # type: ignore[arg-type]


def test_each_covered_node_has_a_seat_in_each_space_and_a_bystander() -> None:
    seats = seats_of(Deployer())
    assert seats.taken() == []
    assert [(seat.space, seat.node) for seat in seats.seats] == [
        (space, node) for space in ("a", "b") for node in NODES
    ]
    assert tuple(seats.bystanders) == NODES


def test_bystanders_are_in_a_namespace_of_their_own_without_labels_of_worlds() -> None:
    deployer = Deployer()
    seats_of(deployer).taken()
    assert deployer.prepared == {
        "demo-world-a": worlds.NAMESPACE_LABELS["a"],
        "demo-world-b": worlds.NAMESPACE_LABELS["b"],
        "demo-world-c": None,
    }
    standing_by = [wish for wish in deployer.deployed if wish.namespace == "demo-world-c"]
    assert len(standing_by) == len(NODES)
    assert {(tuple(wish.labels), wish.account) for wish in standing_by} == {((), "")}


def test_seats_carry_the_labels_and_the_account_of_their_space_and_system() -> None:
    deployer = Deployer()
    seats_of(deployer).taken()
    found = {
        (wish.namespace[-1], wish.node.os): wish
        for wish in deployer.deployed
        if wish.namespace[-1] != BYSTANDERS
    }
    assert {key: dict(wish.labels) for key, wish in found.items()} == {
        key: {**worlds.SEAT, **labels}
        for key, labels in worlds.SEAT_LABELS.items()
        if key[0] in worlds.SPACES
    }
    assert {key for key, wish in found.items() if wish.account == worlds.ACCOUNT} == {
        key for key in worlds.SEATS_OF_ACCOUNT if key[0] in worlds.SPACES
    }
    assert [(namespace, kind) for namespace, kind, _ in deployer.applied] == [
        ("demo-world-a", "ServiceAccount"),
        ("demo-world-b", "ServiceAccount"),
    ]


def test_twins_are_made_for_stories_alone_and_are_like_the_members() -> None:
    deployer = Deployer(broken={"win-1"})
    seats = seats_of(deployer)
    seats.taken()
    assert not any(seat.twin for seat in seats.seats)
    for _ in range(2):
        seats.meet_twins()
    there = [wish for wish in deployer.deployed if wish.name.startswith("t-")]
    assert [wish.node.name for wish in there] == ["linux-1", "linux-2", "win-0"]
    assert {(wish.namespace, wish.account) for wish in there} == {("demo-world-a", worlds.ACCOUNT)}
    for wish in there:
        labels = worlds.SEAT_LABELS[worlds.MEMBER, wish.node.os]
        assert (
            wish.labels
            == worlds.SEAT | labels
            == worlds.SEAT | worlds.SEAT_LABELS["t", wish.node.os]
        )
    twins = [seat for seat in seats.seats if seat.twin]
    assert [(seat.space, seats.pod(seat).node) for seat in twins] == [
        ("a", "linux-1"), ("a", "linux-2"), ("a", "win-0"),
    ]  # fmt: skip
    seats.with_twins = False
    assert not any(seat.twin for seat in seats.seats)


def test_pods_are_made_once() -> None:
    deployer = Deployer()
    seats = seats_of(deployer)
    seats.taken()
    count = len(deployer.deployed)
    seats.taken()
    assert len(deployer.deployed) == count == 3 * len(NODES)


def test_a_node_without_seats_is_inconclusive_and_leaves_the_others() -> None:
    seats = seats_of(Deployer(broken={"win-1"}))
    (decision,) = seats.taken()
    assert (decision.verdict, decision.reason) == (
        ClaimVerdict.INCONCLUSIVE,
        "image cannot be pulled on win-1",
    )
    assert "win-1" in {decision.source, decision.target}
    assert {seat.node for seat in seats.seats} == {"linux-1", "linux-2", "win-0"}
    assert "win-1" not in seats.bystanders


@pytest.mark.parametrize("system", ["linux", "win"])
def test_a_system_without_any_seat_raises_what_its_node_raised(system: str) -> None:
    broken = {node for node in NODES if node.startswith(system)}
    with pytest.raises(EnvironmentBroken, match=f"image cannot be pulled on {system}"):
        seats_of(Deployer(broken=broken)).taken()


@pytest.mark.parametrize(("dry_run", "replaced"), [(False, 1), (True, 0)])
def test_a_pod_that_is_gone_is_replaced_and_the_seats_are_no_longer_at_rest(
    dry_run: bool, replaced: int
) -> None:
    deployer = Deployer(dry_run=dry_run)
    seats = seats_of(deployer)
    seats.taken()
    seats.at_rest = True
    lost = seats.pod(seats.seats[0])
    deployer.gone.add(lost.uid)
    seats.taken()
    assert len(deployer.replaced) == replaced
    assert all("is gone" in why for why in deployer.replaced)
    assert seats.at_rest is dry_run
    assert (seats.pod(seats.seats[0]).uid != lost.uid) is not dry_run


def test_seats_that_are_there_stay_at_rest() -> None:
    seats = seats_of(Deployer())
    seats.taken()
    seats.at_rest = True
    seats.taken()
    assert seats.at_rest


@pytest.mark.parametrize(
    ("measured", "longest"),
    [
        pytest.param([], 0.0, id="no world yet"),
        pytest.param([0.2, 0.9, 0.4], 0.9, id="the longest"),
        pytest.param([9.0, *[0.1] * NEWEST], 0.1, id="one slow moment is forgotten"),
    ],
)
def test_the_latency_is_the_longest_of_the_newest_worlds(
    measured: list[float], longest: float
) -> None:
    seats = seats_of(Deployer())
    seats.latencies.extend(measured)
    assert seats.latency == longest
