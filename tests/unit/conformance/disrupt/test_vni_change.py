# SPDX-License-Identifier: Apache-2.0
"""The story of a VNI: kept and cut off is CONFIRMED, taken with traffic is LIFTED, all else VIOLATED; then put back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.disrupt.demo_pods import DemoPods
from conformance.disrupt.procedure import NetworkStays
from conformance.disrupt.vni import Delivery
from conformance.disrupt.vni_change import VniChange
from conformance.errors import (
    ControlBroken,
    EnvironmentBroken,
    MissingCapability,
    Nonconformance,
    SuiteError,
)
from conformance.expect.context import Sink
from conformance.journal import Outcome
from conformance.model.attempt import Attempt, Kind
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.endpoint import OS, Addressing, Workload
from conformance.model.observation import Observation, Verdict
from conformance.pods.groups import Group
from tests.unit.conformance.builders import a_workload, an_expect
from tests.unit.conformance.expect.stand_ins import Clock, ImmediateAsking, observation

OLD, NEW = 4096, 4097


@dataclass
class World:
    """Nodes with a VNI each: packets between nodes pass when both have one, in a node always."""

    nodes: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(["l1", "l2", "w1", "w2"], OLD)
    )
    configured: int = OLD
    follows: Sequence[str] = ("l1", "l2")
    """Nodes that take a VNI as soon as it is delivered."""
    heals: bool = True
    dead: bool = False
    log: list[str] = field(default_factory=list)
    restored: Outcome = Outcome.RESTORED
    stays_broken: bool = False
    refuses: bool = False
    budget: bool = False
    services_dead: int = 0
    """So many times kube-proxy has to be started anew before Services work, once a network was made anew."""
    renewed: bool = False
    stolen: bool = False
    """Another pod answers at the addresses of Windows pods on other Windows nodes."""

    # as Vni
    def possible(self, node: str = "") -> None:
        if self.refuses:
            raise MissingCapability("no", "yes")

    def refuse_budgets(self, node: str) -> None:
        if self.budget:
            raise MissingCapability(f"a budget of {node}", "yes")

    def vsid(self, node: str) -> int:
        return self.nodes[node]

    def deliver(self, vni: int, *, linux: Sequence[str], windows: Sequence[str]) -> Delivery:
        self.log.append(f"deliver {vni} to {','.join([*linux, *windows])}")
        before, self.configured = self.configured, vni
        self.nodes |= dict.fromkeys(self.follows, vni)
        return Delivery(vni=vni, before=before, seconds=1.5)

    def delivered(self, vni: int, *, linux: Sequence[str], windows: Sequence[str]) -> float:
        self.log.append(f"await {vni}")
        return 0.0

    refuses_late: dict[str, SuiteError] = field(default_factory=dict)
    """Node to why it is given no new network."""

    # as Procedure
    def new_network(self, node: str) -> None:
        if node in self.refuses_late:
            raise self.refuses_late[node]
        self.log.append(f"procedure on {node}")
        self.renewed = True
        self.nodes[node] = self.configured if self.heals else OLD

    # as the journal
    def procedure(self, name: str, arguments: Any, why: str) -> None:
        self.log.append(f"note {name} {arguments['node']}")

    def restore(self) -> list[Any]:
        self.log.append("restore")
        if not self.stays_broken:
            self.nodes = dict.fromkeys(self.nodes, OLD)
        self.configured = OLD
        return [SimpleNamespace(outcome=self.restored)]

    def revive(self, node: str) -> None:
        self.log.append(f"kube-proxy of {node} starts anew")
        self.services_dead -= 1

    # as a prober
    clock: Clock = field(default_factory=Clock)

    def asking(self) -> ImmediateAsking:
        return ImmediateAsking(self)

    def observe(self, batch: Sequence[Attempt]) -> list[Observation]:
        return [self._one(attempt) for attempt in batch]

    def unchanged(self, workloads: object) -> None:
        pass

    def _one(self, attempt: Attempt) -> Observation:
        assert attempt.target
        if attempt.target.path is Addressing.CLUSTER_IP:
            dead = self.renewed and self.services_dead > 0
            return observation(attempt, Verdict.TIMED_OUT if dead else Verdict.CONNECTED)
        source, target = attempt.source.node, attempt.target.backends[0].node
        passes = source == target or (self.nodes[source] == self.nodes[target] and not self.dead)
        if (
            self.stolen
            and source[0] == target[0] == "w"
            and source != target
            and attempt.kind is Kind.HTTP
        ):
            return observation(attempt, Verdict.CONNECTED, served_by="ns/another")
        return observation(attempt, Verdict.CONNECTED if passes else Verdict.TIMED_OUT)


@dataclass
class Story:
    """One story, and what it told the report."""

    change: VniChange
    lifted: list[str] = field(default_factory=list)
    recorded: dict[str, float | str] = field(default_factory=dict)
    seen: list[Decision] = field(default_factory=list)


def party(name: str, os: OS, node: str, address: str) -> Workload:
    return a_workload(name, os, node=node, address=address)


def story(world: World, *, second: bool = True) -> Story:
    others = [party("wp", "windows", "w2", "10.2.2.1")] if second else []
    demo_pods = DemoPods(
        linux_clients=Group([party("lc", "linux", "l1", "10.1.1.1")]),
        linux_servers=Group(
            [party("ls", "linux", "l1", "10.1.1.2"), party("lp", "linux", "l2", "10.1.2.1")]
        ),
        windows_clients=Group([party("wc", "windows", "w1", "10.2.1.1")]),
        windows_servers=Group([party("ws", "windows", "w1", "10.2.1.2"), *others]),
    )
    server = demo_pods.linux_servers[0]
    service = replace(server.tcp(8080), host="10.96.0.9", path=Addressing.CLUSTER_IP)
    told = Story(change=None)  # type: ignore[arg-type]
    vni = SimpleNamespace(
        possible=world.possible, configured=lambda: world.configured, vsid=world.vsid, deliver=world.deliver,
        delivered=world.delivered,
    )  # fmt: skip
    sink = Sink(told.seen, recorded=told.recorded)
    told.change = VniChange(
        vni=vni, procedure=world, journal=world, expect=an_expect(world, "VXLAN-9", sink=sink),  # type: ignore[arg-type]
        demo_pods=lambda: demo_pods, new_pods=lambda: world.log.append("new pods"),
        windows=["w1", "w2"] if second else ["w1"], lifted=told.lifted.append,
        services=lambda now: [(now.windows_clients[0], service)], revive=world.revive,
    )  # fmt: skip
    return told


def delivered(world: World, **more: Any) -> Story:
    told = story(world, **more)
    told.change.prepare(because="one VNI")
    told.change.deliver(because="told")
    return told


def test_the_healers_are_noted_before_anything_is_changed_and_new_pods_come_after_it() -> None:
    world = World()
    delivered(world)
    assert world.log == [
        "note hns-network w1", "note hns-network w2", f"deliver {NEW} to l1,l2,w1,w2", "new pods",
    ]  # fmt: skip


def test_a_vsid_that_stays_with_linux_and_windows_apart_is_what_is_documented() -> None:
    told = delivered(World())
    told.change.stays_behind(because="it keeps its VNI")
    assert told.lifted == []
    assert told.recorded["windows to windows across nodes"] == "CONNECTED"
    assert told.recorded["seconds to deliver a VNI"] == 1.5


def test_an_answer_of_another_pod_across_windows_nodes_is_recorded_as_that() -> None:
    world = World()
    told = delivered(world)
    world.stolen = True
    told.change.stays_behind(because="it keeps its VNI")
    assert told.recorded["windows to windows across nodes"] == "an answer of ns/another"


def test_one_windows_node_is_enough() -> None:
    told = delivered(World(), second=False)
    told.change.stays_behind(because="it keeps its VNI")
    assert "windows to windows across nodes" not in told.recorded


def test_windows_that_follows_live_with_traffic_is_lifted() -> None:
    told = delivered(World(follows=["l1", "l2", "w1", "w2"]))
    told.change.stays_behind(because="it keeps its VNI")
    assert told.lifted == [
        "VNI 4097 was taken by every Windows node without the procedure, and traffic passes"
    ]


def test_windows_that_follows_without_traffic_is_violated_and_never_lifted() -> None:
    world = World(follows=["l1", "l2", "w1", "w2"])
    told = delivered(world)
    world.dead = True
    with pytest.raises(Nonconformance, match="expected CONNECTED, observed TIMED_OUT"):
        told.change.stays_behind(because="it keeps its VNI")
    assert told.lifted == []


def test_windows_nodes_that_part_company_are_violated() -> None:
    told = delivered(World(follows=["l1", "l2", "w2"]))
    with pytest.raises(
        Nonconformance, match="HNS network of pods of node w2  expected VSID 4096, observed 4097"
    ):
        told.change.stays_behind(because="it keeps its VNI")
    assert [(decided.target, decided.verdict) for decided in told.seen] == [
        ("w1", ClaimVerdict.CONFIRMED),
        ("w2", ClaimVerdict.VIOLATED),
    ]


def test_traffic_that_goes_on_across_different_vnis_is_violated() -> None:
    world = World(follows=())  # nobody took it, though everyone was told
    with pytest.raises(Nonconformance, match="expected TIMED_OUT, observed CONNECTED"):
        delivered(world).change.stays_behind(because="it keeps its VNI")


def test_the_procedure_on_every_node_heals() -> None:
    world = World()
    told = delivered(world)
    told.change.follow_the_procedure(because="as documented")
    told.change.heals(because="the VNI of now")
    assert world.log[-2:] == ["procedure on w1", "procedure on w2"]


@pytest.mark.parametrize(
    "refusal",
    [
        NetworkStays("shop/web is still there"),
        MissingCapability("shop/web is still there", "move it"),
    ],
)
def test_a_node_that_refuses_after_another_was_renewed_is_named_with_its_vsid(
    refusal: SuiteError,
) -> None:
    told = delivered(world := World(refuses_late={"w2": refusal}))
    words = r"shop/web is still there.*; the HNS network of node w2 keeps VSID 4096, although the VNI is 4097; .*--restore"
    with pytest.raises(EnvironmentBroken, match=words):
        told.change.follow_the_procedure(because="as documented")
    assert world.log[-1] == "procedure on w1"


def test_nodes_are_looked_at_once_more_right_before_the_vni_is_changed() -> None:
    told = story(world := World())
    told.change.prepare(because="one VNI")
    world.refuses = True
    with pytest.raises(MissingCapability):
        told.change.deliver(because="told")
    assert world.log == []


def test_a_procedure_that_leaves_the_old_vsid_is_violated() -> None:
    told = delivered(World(heals=False))
    told.change.follow_the_procedure(because="as documented")
    with pytest.raises(Nonconformance, match="node w1  expected VSID 4097, observed 4096"):
        told.change.heals(because="the VNI of now")


def test_a_procedure_after_which_traffic_does_not_pass_is_violated() -> None:
    world = World()
    told = delivered(world)
    told.change.follow_the_procedure(because="as documented")
    world.dead = True
    with pytest.raises(Nonconformance, match="expected CONNECTED, observed TIMED_OUT"):
        told.change.heals(because="the VNI of now")


def test_a_cluster_that_is_not_whole_before_is_left_alone() -> None:
    world = World(dead=True)
    with pytest.raises(ControlBroken):
        story(world).change.prepare(because="one VNI")
    different = World(nodes={"l1": OLD, "l2": OLD, "w1": NEW, "w2": OLD})
    with pytest.raises(
        EnvironmentBroken,
        match="the configured VNI is 4096, but Windows nodes use w1: 4097, w2: 4096",
    ):
        story(different).change.prepare(because="one VNI")
    with pytest.raises(MissingCapability):
        story(World(refuses=True)).change.prepare(because="one VNI")
    budgeted = World(budget=True)
    with pytest.raises(MissingCapability, match="a budget of w1"):
        story(budgeted).change.prepare(because="one VNI")
    assert budgeted.log == []
    assert world.log == different.log == []


def test_nothing_is_put_back_where_nothing_was_changed() -> None:
    world = World()
    told = story(world)
    told.change.prepare(because="one VNI")
    told.change.put_back()
    assert world.log == []


def test_putting_back_restores_awaits_the_old_vni_and_sees_all_paths_open_once() -> None:
    world = World()
    told = delivered(world)
    told.change.put_back()
    told.change.put_back()
    assert world.log[4:] == ["restore", f"await {OLD}"]


def test_a_cluster_that_is_not_whole_afterwards_is_told() -> None:
    told = delivered(World(stays_broken=True))
    with pytest.raises(ControlBroken, match="expected CONNECTED, observed TIMED_OUT"):
        told.change.put_back()


@pytest.mark.parametrize("outcome", [Outcome.CONFLICT, Outcome.FAILED])
def test_what_could_not_be_restored_is_told(outcome: Outcome) -> None:
    told = delivered(World(restored=outcome))
    with pytest.raises(EnvironmentBroken, match="after the test: "):
        told.change.put_back()


def test_services_that_stay_dead_after_the_procedure_are_revived_and_the_report_says_so() -> None:
    told = delivered(world := World(services_dead=1))
    told.change.follow_the_procedure(because="documented")
    told.change.heals(because="new networks")
    assert "kube-proxy of w1 starts anew" in world.log
    assert told.recorded["kube-proxy restarted, since Services stayed dead"] == "w1"


def test_services_that_nothing_revives_are_told() -> None:
    told = delivered(World(services_dead=2))
    told.change.follow_the_procedure(because="documented")
    with pytest.raises(ControlBroken, match=r"10\.96\.0\.9"):
        told.change.heals(because="new networks")


def test_nothing_is_changed_where_the_cluster_is_not_fit_for_it() -> None:
    told = story(world := World())

    def unfit() -> None:
        raise MissingCapability("Calico is not well", "wait")

    told.change.fit = unfit
    with pytest.raises(MissingCapability, match="not well"):
        told.change.prepare(because="one VNI")
    assert world.log == []
