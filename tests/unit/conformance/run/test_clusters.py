# SPDX-License-Identifier: Apache-2.0
"""The plugin's own conclusions about a cluster: the number of workers, the version to judge by, the
kind of evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from conformance.facts.room import Room, room_on_windows
from conformance.kube.refused import ApiRefused
from conformance.model.facts import Facts
from conformance.plugin.options import LAB_WORKERS
from conformance.pods.coverage import Covered
from conformance.run.choice import Choice
from conformance.run.clusters import EMULATED, _judged
from conformance.run.provider import Connection, Inspection
from conformance.run.run import Run
from conformance.schedule.workers import workers_for
from conformance.settings import Settings, Workers
from tests.plugin.stand_in_cluster import facts, node
from tests.unit.conformance.builders import a_pod


class StandInKube:
    """Objects by kind; kinds that are not there are not served, kinds in ``forbidden`` may not be read."""

    def __init__(self, forbidden: tuple[str, ...] = (), **objects: list[dict[str, Any]]) -> None:
        self.given, self.forbidden = objects, forbidden
        self.discovery = self

    def serves(self, api_version: str, kind: str) -> bool:
        return kind in self.given or kind in self.forbidden

    def objects(self, api_version: str, kind: str) -> list[dict[str, Any]]:
        if kind in self.forbidden:
            raise ApiRefused(403, "Forbidden", "may not", f"GET {kind}")
        return self.given[kind]


def node_object(name: str, pods: int, memory: str = "4Gi") -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "status": {"allocatable": {"pods": str(pods), "memory": memory}},
    }


def pod(where: str, phase: str = "Running", memory: str = "256Mi") -> dict[str, Any]:
    containers = [{"resources": {"requests": {"memory": memory}}}]
    return a_pod("p", where, spec={"containers": containers}, status={"phase": phase})


def block(where: str, free: int) -> dict[str, Any]:
    return {"spec": {"affinity": f"host:{where}", "unallocated": list(range(free))}}


def room(told: Facts | None = None, **given: Any) -> dict[str, Room]:
    return room_on_windows(StandInKube(**given), told or facts())  # type: ignore[arg-type]


def addresses(**given: Any) -> dict[str, int]:
    return {name: one.addresses for name, one in room(**given).items()}


NODES = [node_object("win-0", 110), node_object("win-1", 30), node_object("linux-1", 110)]


def test_room_is_what_blocks_and_kubelets_leave_on_each_windows_node() -> None:
    pods = [pod("win-0"), pod("win-1"), pod("win-1", "Succeeded"), pod("linux-1")]
    blocks = [block("win-0", 50), block("win-1", 60), block("linux-1", 60)]
    assert addresses(Node=NODES, Pod=pods, IPAMBlock=blocks) == {"win-0": 50, "win-1": 29}


def test_room_is_memory_that_no_pod_requests() -> None:
    pods = [
        pod("win-0"),
        pod("win-0", memory="1Gi"),
        pod("win-0", "Failed"),
        pod("win-1", memory=""),
    ]
    found = room(Node=NODES, Pod=pods, IPAMBlock=[])
    assert {name: one.memory for name, one in found.items()} == {
        "win-0": 4096 - 256 - 1024,
        "win-1": 4096,
    }


def test_room_on_eks_is_what_its_vpc_leaves() -> None:
    name = "vpc.amazonaws.com/PrivateIPv4Address"
    node = node_object("win-0", 110)
    node["status"]["allocatable"][name] = "11"
    taken = pod("win-0")
    taken["spec"]["containers"][0]["resources"]["requests"][name] = "1"
    assert addresses(Node=[node], Pod=[taken] * 3, IPAMBlock=[]) == {"win-0": 8}


def test_a_full_node_has_no_negative_room() -> None:
    blocks = [block("win-0", 5), block("win-1", 3)]
    assert addresses(Node=NODES, Pod=[pod("win-1")] * 40, IPAMBlock=blocks) == {
        "win-0": 5,
        "win-1": 0,
    }


@pytest.mark.parametrize("forbidden", [(), ("IPAMBlock",)])
def test_blocks_that_cannot_be_read_count_as_fresh_ones(forbidden: tuple[str, ...]) -> None:
    assert addresses(Node=NODES, Pod=[], forbidden=forbidden) == {"win-0": 60, "win-1": 30}


def test_room_is_unknown_where_pods_may_not_be_listed() -> None:
    assert room(Node=NODES, forbidden=("Pod",)) == {}


COVERAGE = [Covered(item, "x") for item in facts().nodes]


@pytest.mark.parametrize(
    ("bounds", "left", "number", "why"),
    [
        (Workers(), {}, 2, "a Windows node can start 2 PowerShells at once"),
        (Workers(per_windows_node=9, at_most=3), {}, 3, "this is the maximum of -n auto"),
        (Workers(agents=24), {}, 1, "16 agents may run, 16 per worker"),
        (Workers(agents=5, watch=0), {}, 1, "5 agents may run, 16 per worker"),
        (
            Workers(),
            {"win-1": Room(addresses=13, memory=None)},
            1,
            "win-1 has 11 free addresses, 9 per worker",
        ),
        (
            Workers(),
            {"win-0": Room(addresses=90, memory=3512)},
            1,
            "win-0 has 3000 MiB free, 2304 per worker",
        ),
    ],
)
def test_the_scarcest_thing_that_the_watch_leaves_decides_how_many_workers_there_are_and_is_named(
    bounds: Workers, left: dict[str, Room], number: int, why: str
) -> None:
    found, told = workers_for(bounds, COVERAGE, left)
    assert (found, told) == (number, f"{number}, because {why}; 4 nodes are tested")


@pytest.mark.parametrize(("files", "number"), [(1280, 1), (1600, 2), (4300, 8), (20_000, 8)])
def test_a_low_hard_limit_of_open_files_bounds_the_workers_on_a_lab(
    files: int, number: int
) -> None:
    found, told = workers_for(
        Workers(per_windows_node=20, agents=1000), COVERAGE, {}, "", files=files
    )
    assert found == number
    assert ("files (ulimit" in told) == (number < 8)


def test_a_busy_machine_that_the_lab_shares_gets_three_workers() -> None:
    number, told = workers_for(LAB_WORKERS, COVERAGE, {}, "a load of 9.3 on 2 cores")
    assert (number, told) == (
        3,
        "3, because the machine, which the lab shares, is busy (a load of 9.3 on 2 cores); "
        "4 nodes are tested",
    )


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_one_number_of_workers_for_a_windows_node_sets_everything_that_bounds_them(
    number: int,
) -> None:
    bounds = Workers().on_windows_nodes(number)
    assert workers_for(bounds, COVERAGE, {})[0] == number
    each = bounds.agents_per_node + bounds.watch
    assert bounds.agents_per_windows_node >= number * each, "agents of its pods, and for streams"
    assert bounds.powershell_starts == number


def test_memory_of_a_windows_node_still_bounds_the_workers_that_a_user_asks_for() -> None:
    left = {"win-0": Room(addresses=90, memory=5500)}
    found, told = workers_for(Workers().on_windows_nodes(4), COVERAGE, left)
    assert (found, told.partition(";")[0]) == (
        2,
        "2, because win-0 has 4988 MiB free, 2304 per worker",
    )


@pytest.mark.parametrize(
    ("evidence", "label", "shares"),
    [
        ("lab", "lab default, https://127.0.0.1:6443, kubeconfig x", True),
        ("lab", "https://localhost:6443, kubeconfig x", True),
        ("lab", "https://10.1.2.3:6443, kubeconfig x", False),
        ("field", "https://127.0.0.1:6443, kubeconfig x", False),
    ],
)
def test_a_lab_at_a_loopback_address_shares_the_machine(
    evidence: str, label: str, shares: bool
) -> None:
    told = Inspection(facts=replace(facts(), evidence=evidence))  # type: ignore[arg-type]
    connection = Connection(how="kubeconfig", label=label)
    choice = Choice(how="kubeconfig", why="")
    run = Run(
        choice=choice, settings=Settings(), directory=None, connection=connection, inspection=told
    )
    assert run.shares_machine is shares


def judged(told: Facts, how: str = "kubeconfig", version: str | None = None) -> Facts:
    connection = Connection(how=how, label="")  # type: ignore[arg-type]
    return _judged(told, connection, Settings(calico_version=version))


def test_the_named_version_wins_and_is_named_as_the_source() -> None:
    fact = judged(facts(), version="v3.19").calico_version
    assert (fact.value, fact.source) == ("v3.19", "--calico-version")


def test_a_lab_is_told_from_the_field_even_when_it_is_named_by_its_kubeconfig() -> None:
    field = replace(facts(), evidence="field")
    lab = replace(field, nodes=(replace(node("linux-1", "linux"), labels={EMULATED: "true"}),))
    assert judged(field).evidence == "field"
    assert judged(field, how="lab").evidence == "lab"
    assert judged(lab).evidence == "lab"
