# SPDX-License-Identifier: Apache-2.0
"""After a restore, Services are probed from the disrupted nodes, and repaired on nodes whose
network is new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import ControlBroken, EnvironmentBroken
from conformance.journal import Entry, Outcome, Restored
from conformance.kube.changes import Changes
from conformance.kube.ownership import Ownership
from conformance.model.change import ObjectRef
from conformance.settings import Settings, load_timings
from conformance.undo import dead_runs
from conformance.undo.verify_connectivity import Disrupted, services_problem

DEAD = "after restore  client -> Service web  expected CONNECTED, observed TIMED_OUT"


@dataclass
class World:
    """Nodes whose Services are dead, and what starting kube-proxy anew does about it."""

    dead: set[str] = field(default_factory=set)
    restart_heals: bool = True
    told: list[str] = field(default_factory=list)
    revived: list[str] = field(default_factory=list)

    def control(self, pairs: Sequence[Any], *, because: str) -> None:
        if {source.node for source, _ in pairs} & self.dead:
            raise ControlBroken(f"{DEAD}\n  more", "a control")

    def revive(self, node: str) -> None:
        self.revived.append(node)
        if self.restart_heals:
            self.dead.discard(node)

    def problem(
        self, nodes: Sequence[str], renewed: Sequence[str] = (), *, without_pods: Sequence[str] = ()
    ) -> str:
        revive = {node: partial(self.revive, node) for node in renewed}

        def pairs(node: str) -> list[Any]:
            return [] if node in without_pods else [(SimpleNamespace(node=node), "Service web")]

        expect: Any = self
        return services_problem(
            expect, Disrupted(nodes=nodes, revive=revive), pairs, self.told.append
        )


def test_services_that_work_are_told_by_node() -> None:
    world = World()
    assert world.problem(["w1", "w2"], ["w1"]) == ""
    assert (world.told, world.revived) == (
        ["Services work by ClusterIP and by name from w1, w2"],
        [],
    )


def test_kube_proxy_starts_anew_where_services_stayed_dead_and_the_network_is_new() -> None:
    world = World(dead={"w1"})
    assert world.problem(["w1", "w2"], ["w1", "w2"]) == ""
    assert world.revived == ["w1"]
    assert world.told == [
        f"kube-proxy on node w1 was restarted, since Services did not work there: {DEAD}",
        "Services work by ClusterIP and by name from w1, w2",
    ]


@pytest.mark.parametrize("renewed", [[], ["w1"]], ids=["no-new-network", "a-restart-does-not-help"])
def test_services_that_stay_dead_are_a_problem(renewed: list[str]) -> None:
    world = World(dead={"w1"}, restart_heals=False)
    assert world.problem(["w1", "w2"], renewed) == f"Services do not work from node w1: {DEAD}"
    assert world.revived == renewed
    assert world.told[-1] == "Services work by ClusterIP and by name from w2"


def test_a_node_that_takes_no_pods_is_named() -> None:
    world = World()
    assert world.problem(["w1"], without_pods=["w1"]) == ""
    assert world.told == ["node w1 takes no pods, so Services were not checked from this node"]


def test_a_kube_proxy_that_does_not_come_back_is_no_dead_service() -> None:
    world = World(dead={"w1"})

    def broken() -> None:
        raise EnvironmentBroken("kube-proxy on node w1 is not back")

    expect: Any = world
    pair: Any = (SimpleNamespace(node="w1"), "web")
    disrupted = Disrupted(nodes=["w1"], revive={"w1": broken})
    with pytest.raises(EnvironmentBroken):
        services_problem(expect, disrupted, lambda node: [pair], world.told.append)


def test_disrupted_nodes_are_those_that_the_journal_speaks_of() -> None:
    felix = ObjectRef(api_version="projectcalico.org/v3", kind="FelixConfiguration", name="default")
    node = ObjectRef(api_version="v1", kind="Node", name="w2")
    entries = [
        Entry(key="1", act="procedure", why="", procedure="hns-network", arguments={"node": "w1"}),
        Entry(key="2", act="patch", why="", target=felix),
        Entry(key="3", act="patch", why="", target=node),
        Entry(
            key="4", act="procedure", why="", procedure="felix-restart", arguments={"node": "l1"}
        ),
    ]
    done = [Restored(entry=entry, outcome=Outcome.RESTORED, text="") for entry in entries]
    kube: Any = None
    changes = Changes(kube, Ownership("r"))
    found = dead_runs._disrupted(done, changes, Settings(timings=load_timings()))
    assert list(found.nodes) == ["w2", "w1", "l1"]
    assert list(found.revive) == ["w1"]
