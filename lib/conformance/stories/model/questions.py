# SPDX-License-Identifier: Apache-2.0
"""Questions of a story to all nodes but the first of their system: what they answer changes if the
node ignores an event.

Such nodes are asked at an entry of ``PORTS`` in turn, which an event may leave as it was.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import product

from conformance.policy import worlds
from conformance.policy.oracle.oracle import Decision, Verdict, of_way
from conformance.policy.worlds import PORTS, Cell, Question, Seat
from conformance.stories.model.story import Story

FORGOTTEN = (Decision(Verdict.ALLOWED), Decision(Verdict.ALLOWED))
"""What ends decide that have no policies."""


def second_node_questions(
    story: Story, seats: Sequence[Seat], spaces: Mapping[str, str]
) -> set[Question]:
    """Return the questions to ask beside those of ``worlds.ways``, as few as are enough.

    With them each event changes an answer of each node, in both directions of a path and of the
    change, if the event can change any. After an event of pods, the answer of a node counts that
    has forgotten its policies.
    """
    firsts = {seat.os: seat.node for seat in reversed(seats)}.values()
    ends = product(seats, seats, PORTS)
    every = {(source.place, target.place, at) for source, target, at in ends}
    found: set[Question] = set()
    before: Mapping[Question, Cell] = {}
    for scene in story.scenes():
        there = scene.seats(seats)
        found.update((source.place, target.place, at) for source, target, at in worlds.ways(there))
        objects = worlds.objects_of(scene.world, there, spaces)
        cells = {
            cell.question: cell for cell in worlds.cells(objects, there, scene.world.claim, every)
        }
        shows = defaultdict(list)
        for question, cell in cells.items():
            past = None if scene.event and scene.event.pods else before.get(question)
            for shown in _shown(cell, past, firsts):
                shows[shown].append(question)
        found.update(asked[0] for asked in shows.values() if found.isdisjoint(asked))
        before = cells
    return found


def _shown(
    cell: Cell, past: Cell | None, firsts: Collection[str]
) -> list[tuple[str, int, Verdict]]:
    """Return the nodes for which the cell would be otherwise, if they had ignored the event; each
    with its end of the path, and the expectation."""
    stale = past.decisions if past else FORGOTTEN
    source, target = cell.decisions
    ways = (of_way((stale[0], target)), of_way((source, stale[1])))
    return [
        (end.node, place, cell.expected)
        for place, end in enumerate((cell.source, cell.destination))
        if end.node not in firsts
        and {cell.expected, ways[place]} == {Verdict.ALLOWED, Verdict.DENIED}
    ]
