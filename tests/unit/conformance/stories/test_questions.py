# SPDX-License-Identifier: Apache-2.0
"""A node that is not its system's first is asked what an event changes there, in both directions of
the change."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.policy import worlds
from conformance.policy.oracle.oracle import Verdict
from conformance.policy.worlds import Seat
from conformance.stories.model import story
from conformance.stories.model.questions import second_node_questions
from conformance.stories.model.story import Scene, Story
from tests.worlds.seats import MANY, NAMESPACES, SEATS

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
    "labels of pods": told([members(PAGE)], {"labels": {"b.linux": {}, "a.linux": {"role": "friend"}}}),
    "a deleted set": told([friends(WINDOWS), members(PAGE)], {"gone": "NetworkSet ${a}/friends"}),
}  # fmt: skip


def answers(scene: Scene, more: Any) -> dict[worlds.Question, Verdict]:
    seats = scene.seats(TWO)
    objects = worlds.objects_of(scene.world, seats, NAMESPACES)
    return {cell.question: cell.expected for cell in worlds.cells(objects, seats, "POL-1", more)}


def changes(one: Story, more: Any) -> set[tuple[str, Verdict]]:
    """The further nodes whose pods have a path that the event changes, with what it becomes."""
    before, after = (answers(scene, more) for scene in one.scenes())
    return {
        (target[1], verdict)
        for (source, target, at), verdict in after.items()
        if verdict is not before[source, target, at] and target[1].endswith("-2")
    }


@pytest.mark.parametrize("name", STORIES)
def test_each_further_node_is_asked_what_the_event_changes_there(name: str) -> None:
    one = STORIES[name]
    every = {(a.place, b.place, at) for a in TWO for b in TWO for at in worlds.PORTS}
    could = changes(one, every)
    assert {node for node, _ in could} == {"linux-2", "windows-2"}
    assert changes(one, second_node_questions(one, TWO, NAMESPACES)) == could


def test_without_these_questions_an_ignored_edit_would_not_be_seen() -> None:
    assert any(changes(one, ()) == set() for one in STORIES.values())


def test_few_questions_are_added_and_none_where_each_system_has_a_single_node() -> None:
    usual = {(a.place, b.place, at) for a, b, at in worlds.ways(TWO)}
    for one in STORIES.values():
        assert len(second_node_questions(one, TWO, NAMESPACES) - usual) <= 8
    least = (*SEATS, *(seat for seat in MEMBERS if seat.node.endswith("-1")))
    usual = {(a.place, b.place, at) for a, b, at in worlds.ways(least)}
    assert second_node_questions(STORIES["a rule"], least, NAMESPACES) == usual
