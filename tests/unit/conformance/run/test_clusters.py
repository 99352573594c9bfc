"""What the plugin itself makes of a cluster: room for workers, the version to judge by, the kind of evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from conformance.kube.refused import ApiRefused
from conformance.model.facts import Facts
from conformance.run.clusters import EMULATED, _judged
from conformance.run.limits import free_windows_addresses
from conformance.run.provider import Connection
from conformance.settings import Settings
from tests.plugin.stand_in_cluster import facts, node


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


def node_object(name: str, pods: int) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"allocatable": {"pods": str(pods)}}}


def pod(where: str, phase: str = "Running") -> dict[str, Any]:
    return {"spec": {"nodeName": where}, "status": {"phase": phase}}


def block(where: str, free: int) -> dict[str, Any]:
    return {"spec": {"affinity": f"host:{where}", "unallocated": list(range(free))}}


def room(told: Facts | None = None, **given: Any) -> int | None:
    return free_windows_addresses(StandInKube(**given), told or facts())  # type: ignore[arg-type]


NODES = [node_object("win-0", 110), node_object("win-1", 30), node_object("linux-1", 110)]


def test_room_is_what_blocks_and_kubelets_leave_on_windows_nodes() -> None:
    pods = [pod("win-0"), pod("win-1"), pod("win-1", "Succeeded"), pod("linux-1")]
    blocks = [block("win-0", 50), block("win-1", 60), block("linux-1", 60)]
    assert room(Node=NODES, Pod=pods, IPAMBlock=blocks) == 50 + 29


def test_a_full_node_has_no_negative_room() -> None:
    assert room(Node=NODES, Pod=[pod("win-1")] * 40, IPAMBlock=[block("win-0", 5), block("win-1", 3)]) == 5


@pytest.mark.parametrize("forbidden", [(), ("IPAMBlock",)])
def test_blocks_that_cannot_be_read_count_as_fresh_ones(forbidden: tuple[str, ...]) -> None:
    assert room(Node=NODES, Pod=[], forbidden=forbidden) == 60 + 30


def test_room_is_unknown_where_pods_may_not_be_listed() -> None:
    assert room(Node=NODES, forbidden=("Pod",)) is None


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
