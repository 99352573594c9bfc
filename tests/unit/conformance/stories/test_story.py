# SPDX-License-Identifier: Apache-2.0
"""A story is read from YAML and gives the open paths after each event; committed stories close
paths."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from conformance.errors import UsageProblem
from conformance.policy import worlds
from conformance.policy.oracle.oracle import Oracle, Verdict
from conformance.policy.oracle.panics import panics
from conformance.policy.oracle.world import World
from conformance.policy.worlds import Cell, Seat
from conformance.stories.files import FOLDER, StoryFile, stories_in
from conformance.stories.model import story
from conformance.stories.model.lives import ANSWER, TURNS, after
from conformance.stories.model.story import Scene
from tests.worlds.seats import NAMESPACES, SEATS

MEMBERS = tuple(
    Seat("a", system, f"{system}-1", f"member-{system}", f"10.0.{number}.30", member=True)
    for number, system in enumerate(worlds.SYSTEMS)
)
ALL = (*SEATS, *MEMBERS)
POLICY = {
    "apiVersion": "projectcalico.org/v3",
    "kind": "NetworkPolicy",
    "metadata": {"name": "p", "namespace": "${a}"},
    "spec": {"selector": "role == 'member'", "types": ["Ingress"]},
}
SHIPPED = [*stories_in(FOLDER), *stories_in(FOLDER / "all")]


def told(*events: dict[str, Any]) -> dict[str, Any]:
    return {"claim": "POL-1", "objects": [POLICY], "events": list(events)}


def cells(scene: Scene) -> list[Cell]:
    seats = scene.seats(ALL)
    objects = [
        *worlds.surroundings(scene.world, seats, NAMESPACES),
        *scene.world.filled(ALL, NAMESPACES),
    ]
    return list(worlds.cells(objects, seats, scene.world.claim))


def closed(scene: Scene) -> set[tuple[str, str, str, int]]:
    return {
        (cell.source.pod, cell.destination.pod, cell.protocol, cell.port)
        for cell in cells(scene)
        if cell.expected is Verdict.DENIED
    }


def test_each_event_has_its_world_and_the_state_of_its_members() -> None:
    scenes = list(
        story.read(
            "x",
            told(
                {"pods": "ending"},
                {"labels": {"a.teller": {"may": "look"}}},
                {"labels": {"m.linux": {"x": "9"}}},
                {"pods": "gone"},
                {"gone": "NetworkPolicy ${a}/p"},
                {"pods": "begin"},
            ),
        ).scenes()
    )
    assert [scene.members for scene in scenes] == [
        "there", "ending", "ending", "ending", "gone", "gone", "beginning",
    ]  # fmt: skip
    assert scenes[3].world.relabelled.keys() == {"a.teller", "m.linux"}
    assert [len(scene.world.objects) for scene in scenes] == [1, 1, 1, 1, 1, 0, 0]
    assert [len(scene.seats(ALL)) for scene in scenes] == [6, 6, 6, 6, 4, 4, 4]
    assert str(scenes[5]) == "event 5, NetworkPolicy ${a}/p deleted"
    assert {seat.ready for seat in scenes[1].seats(ALL) if seat.member} == {False}


@pytest.mark.parametrize(
    ("events", "says"),
    [
        ([{"pods": "ready"}], "event 1, pods ready: at that time the pods are there"),
        (
            [{"pods": "gone"}, {"pods": "again"}],
            "event 2, pods again: at that time the pods are gone",
        ),
        ([{"pods": "explode"}], "event 1 must be one of"),
        ([{"pods": "again", "gone": "Tier x"}], "event 1 must be one of"),
        ([{"happens": "again"}], "event 1"),
        (
            [{"pods": "restarted"}, {"pods": "failed"}],
            "pods must be either failed or restarted, not both",
        ),
        ([{"labels": {"m.linux": None}}], "m.linux: only an account's labels may be null"),
        ([], "1 to 8 events"),
        ([{"pods": "again"}] * 9, "1 to 8 events"),
    ],
)
def test_a_story_that_cannot_happen_is_refused_in_a_line(
    events: list[dict[str, Any]], says: str
) -> None:
    with pytest.raises(UsageProblem, match=says) as refused:
        story.read("x", told(*events))
    assert "\n" not in str(refused.value)


def test_every_state_of_members_is_left_again() -> None:
    reached = {"there", *(turn.to for turn in TURNS.values())}
    assert {state for turn in TURNS.values() for state in turn.after} == reached
    assert set(ANSWER) < reached
    assert after("there", "again") == "there"
    assert after("gone", "ready") is None


WITHOUT_EFFECT = {
    ("pods-that-come-back-as-somebody-else", 2),
    ("pods-that-come-back-as-somebody-else", 5),
    ("shared-networks-and-a-policy-written-again", 2),
    ("shared-networks-and-a-policy-written-again", 5),
    ("staged-namesakes-and-the-last-policy-of-a-tier", 1),
    ("staged-namesakes-and-the-last-policy-of-a-tier", 2),
}
"""Story and number of the edits after which the same paths are open: a data plane that acts upon
them is wrong."""


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.world.name)
def test_a_committed_story_closes_a_path_to_members_after_each_event_that_leaves_them(
    file: StoryFile,
) -> None:
    for scene in file.story.scenes():
        names = {name for way in closed(scene) for name in way[:2]}
        members = {seat.pod for seat in scene.seats(ALL) if seat.member}
        assert members <= names, str(scene)
        assert {cell.claim for cell in cells(scene)} <= {file.world.claim, ""}, str(scene)


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.world.name)
def test_each_edit_of_a_committed_story_changes_what_is_open_or_is_known_to_change_nothing(
    file: StoryFile,
) -> None:
    for before, now in pairwise(file.story.scenes()):
        if now.event and not now.event.pods:
            is_same = (file.world.name, now.number) in WITHOUT_EFFECT
            assert (closed(before) == closed(now)) is is_same, str(now)


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.world.name)
def test_no_windows_felix_ends_by_a_committed_story(file: StoryFile) -> None:
    assert list(_panics(file)) == []


def _panics(file: StoryFile) -> Iterator[str]:
    for scene in file.story.scenes():
        objects = [
            *worlds.surroundings(scene.world, ALL, NAMESPACES),
            *scene.world.filled(ALL, NAMESPACES),
        ]
        oracle = Oracle(World(objects), objects)
        for pod in oracle.world.pods.values():
            yield from map(str, panics(oracle, pod))
