# SPDX-License-Identifier: Apache-2.0
"""A node that is not the first of its system is probed for the effect of an event, whether the
event opens or closes a path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from conformance.policy import worlds
from conformance.policy.oracle.oracle import Oracle, Verdict, of_way
from conformance.policy.oracle.policies import Direction
from conformance.policy.oracle.world import Pod, World
from conformance.policy.worlds import Seat
from conformance.stories.model import story
from conformance.stories.model.story import Scene, Story
from tests.worlds.seats import MANY, NAMESPACES

Port = tuple[str, int]
Asked = tuple[Seat, Seat, Port]
NODES = ("linux-1", "linux-2", "windows-1", "windows-2")
MEMBERS = tuple(
    Seat("a", seat.os, seat.node, f"member-{seat.node}", seat.address[:-2] + "30", member=True)
    for seat in MANY
    if seat.space == "a"
)
TWO = tuple(seat for seat in (*MANY, *MEMBERS) if seat.node in NODES)
RULE = {"action": "Allow", "protocol": "TCP", "source": {"selector": "role == 'friend'"}}


def obj(kind: str, name: str, spec: dict[str, Any], **meta: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "${a}", **meta}
    return {
        "apiVersion": "projectcalico.org/v3",
        "kind": kind,
        "metadata": metadata,
        "spec": spec,
    }


def friends(*nets: str) -> dict[str, Any]:
    return obj("NetworkSet", "friends", {"nets": [*nets]}, labels={"role": "friend"})


def members(*rules: dict[str, Any]) -> dict[str, Any]:
    spec = {"selector": "role == 'member'", "types": ["Ingress"], "ingress": [*rules]}
    return obj("NetworkPolicy", "members", spec)


def told(first: list[dict[str, Any]], *events: dict[str, Any]) -> Story:
    return story.read("s", {"claim": "POL-1", "objects": first, "events": [*events]})


LINUX, WINDOWS = "${b.linux}/32", "${b.windows}/32"
PAGE = {**RULE, "destination": {"ports": [80]}}
STORIES = {
    "networks of a set": told([friends(LINUX), members(PAGE)], {"put": friends(WINDOWS)}),
    "a rule": told([friends(LINUX, WINDOWS), members(PAGE)], {"put": members(RULE)}),
    "the end of a rule": told([friends(LINUX, WINDOWS), members(RULE)], {"put": members(PAGE)}),
    "labels of pods": told([members(PAGE)], {"labels": {"a.linux": {"role": "friend"}}}),
    "a deleted set": told([friends(WINDOWS), members(PAGE)], {"gone": "NetworkSet ${a}/friends"}),
}  # fmt: skip


def answers(scene: Scene, asked: Sequence[Asked]) -> dict[tuple[str, str, Port], Verdict]:
    """What the oracle expects of these pairs and ports."""
    objects = [
        *worlds.surroundings(scene.world, TWO, NAMESPACES),
        *scene.world.filled(TWO, NAMESPACES),
    ]
    oracle = Oracle(World(objects), objects)
    found = {}
    for source, target, at in asked:
        sent = worlds.packet(source, target, *at)
        ends: list[tuple[int, Direction]] = [
            (sent.source, "egress"),
            (sent.destination, "ingress"),
        ]
        found[source.pod, target.pod, at] = of_way(
            oracle.explain(one, way, sent)
            for address, way in ends
            for one in oracle.world.at(address)
            if isinstance(one, Pod)
        )
    return found


def changes(one: Story, asked: Sequence[Asked]) -> set[tuple[str, Verdict]]:
    """The further nodes whose pods have a path that the event changes, with what it becomes."""
    before, after = (answers(scene, asked) for scene in one.scenes())
    nodes = {seat.pod: seat.node for seat in TWO}
    return {
        (nodes[way[1]], verdict)
        for way, verdict in after.items()
        if verdict is not before[way] and nodes[way[1]].endswith("-2")
    }


@pytest.mark.parametrize("node", ["linux-2", "windows-2"])
@pytest.mark.parametrize("name", STORIES)
def test_a_further_node_is_asked_what_an_event_changes_there(name: str, node: str) -> None:
    one = STORIES[name]
    every = [(a, b, at) for a in TWO for b in TWO if a is not b for at in worlds.PORTS]
    could = {(there, verdict) for there, verdict in changes(one, every) if there == node}
    assert could
    assert could <= changes(one, list(worlds.ways(TWO)))


def test_without_members_a_further_windows_node_is_asked_at_a_port_in_turn() -> None:
    seats = [seat for seat in TWO if not seat.member]
    further = [way[:2] for way in worlds.ways(seats) if way[1].node == "windows-2"]
    assert len(further) == len(set(further))
