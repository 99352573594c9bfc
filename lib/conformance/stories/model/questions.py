# SPDX-License-Identifier: Apache-2.0
"""Questions of a story to all nodes but the first of their system: what they answer changes if the
node ignores an event.

Such nodes are asked at an entry of ``PORTS`` in turn, which an event may leave as it was.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import product

from conformance.policy import worlds
from conformance.policy.oracle.oracle import Decision, Verdict, of_way
from conformance.policy.worlds import PORTS, Cell, Question, Seat
from conformance.stories.model.story import Scene, Story

FORGOTTEN = Decision(Verdict.ALLOWED)
"""What a node decides that has no policies."""
Shown = tuple[str, int, Verdict]
"""A node that would ignore an event, the end of the path where it is, and the path's expectation."""


def second_node_questions(
    story: Story, seats: Sequence[Seat], spaces: Mapping[str, str]
) -> set[Question]:
    """Return the questions to ask beside those of ``worlds.ways``, as few as are enough.

    With them each event changes at least one answer of each node, in both directions of a path
    and of the change, if the event changes any; after an event of pods, the answer of a node that
    has forgotten the policies counts.
    """
    firsts = {seat.os: seat.node for seat in reversed(seats)}.values()
    every = {
        (source.place, target.place, at)
        for source, target in product(seats, repeat=2)
        for at in PORTS
    }
    found: set[Question] = set()
    before: dict[Question, Cell] = {}
    for scene in story.scenes():
        there = scene.seats(seats)
        asked = {(source.place, target.place, at) for source, target, at in worlds.ways(there)}
        cells = {cell.question: cell for cell in _cells(scene, seats, spaces, every)}
        shows: dict[Shown, list[Question]] = {}
        for question, cell in cells.items():
            past = None if scene.event and scene.event.pods else before.get(question)
            for shown in _shown(cell, past, firsts):
                shows.setdefault(shown, []).append(question)
        for questions in shows.values():
            if (asked | found).isdisjoint(questions):
                found.add(questions[0])
        before = cells
    return found


def _cells(
    scene: Scene, seats: Sequence[Seat], spaces: Mapping[str, str], every: Collection[Question]
) -> list[Cell]:
    there = scene.seats(seats)
    objects = [
        *worlds.surroundings(scene.world, there, spaces),
        *scene.world.filled(seats, spaces),
    ]
    return list(worlds.cells(objects, there, scene.world.claim, every))


def _shown(cell: Cell, past: Cell | None, firsts: Collection[str]) -> list[Shown]:
    """Return the nodes for which the cell would be otherwise, if they had ignored the event."""
    stale = past.decisions if past else (FORGOTTEN, FORGOTTEN)
    source, target = cell.decisions
    ways = (of_way((stale[0], target)), of_way((source, stale[1])))
    ends = (cell.source.node, cell.destination.node)
    return [
        (node, place, cell.expected)
        for place, node in enumerate(ends)
        if node not in firsts
        and {cell.expected, ways[place]} == {Verdict.ALLOWED, Verdict.DENIED}
    ]
