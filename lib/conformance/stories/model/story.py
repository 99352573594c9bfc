# SPDX-License-Identifier: Apache-2.0
"""Stories: a story is a world (a set of policies) and events. After each event, the oracle computes
which paths are open.

An event is an edit of the world in the form of world files (``put``, ``gone``, ``labels``), or it
happens to the members, which are pods (``pods: again``). Pure: reads parsed YAML.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from conformance.errors import UsageProblem
from conformance.policy import worlds
from conformance.policy.oracle import fields
from conformance.policy.placeholders import Obj
from conformance.policy.worlds import Seat, World
from conformance.stories.model.lives import ANSWER, ONE_OF, TURNS, State, after

EVENTS = ("put", "gone", "labels", "pods")
"""The keys of events in a story's file; each event has one of them."""
SHORTEST = 1
LONGEST = 8


@dataclass(frozen=True)
class Event:
    """An event of a story."""

    told: Obj
    """The event in the form of the story's file."""

    @property
    def pods(self) -> str:
        """Return the event of the members; empty: nothing happens to them."""
        return str(self.told.get("pods") or "")

    def __str__(self) -> str:
        if self.pods:
            return f"pods {self.pods}"
        if "gone" in self.told:
            return f"{self.told['gone']} deleted"
        if "labels" in self.told:
            return ", ".join(
                f"{name} deleted" if labels is None else f"other labels of {name}"
                for name, labels in self.told["labels"].items()
            )
        return f"{', '.join(map(fields.label, World('', '', (), self.told).puts))} written"


@dataclass(frozen=True)
class Scene:
    """A story after one more event."""

    number: int
    """The number of the event; 0: before the first event."""
    event: Event | None
    world: World
    members: State

    def __str__(self) -> str:
        return f"event {self.number}, {self.event}" if self.event else "before the first event"

    def seats(self, seats: Sequence[Seat]) -> list[Seat]:
        """Return the seats that exist: members that do not answer are left out."""
        return [
            replace(seat, ready=seat.ready and self.members == "there") if seat.member else seat
            for seat in seats
            if not seat.member or self.members in ANSWER
        ]


@dataclass(frozen=True)
class Story:
    """A story: a world and the events that follow."""

    world: World
    events: tuple[Event, ...]

    def scenes(self) -> Iterator[Scene]:
        """Yield the state before the first event and after each event. Raise UsageProblem for an
        event that is impossible in the state before it."""
        members: State = "there"
        world = self.world
        yield Scene(0, None, world, members)
        for number, event in enumerate(self.events, start=1):
            if event.pods:
                then = after(members, event.pods)
                if then is None:
                    raise UsageProblem(
                        f"story {world.name}: event {number}, {event}: at that time the pods "
                        f"are {members}"
                    )
                members = then
            else:
                world = replace(world, then=event.told).edited()
            yield Scene(number, event, world, members)


NOTHING = Story(World("", "", ()), ())
"""A story without policies and events."""


def read(name: str, given: Any) -> Story:
    """Return a story from its file's parsed YAML.  Raise UsageProblem."""
    keys = {"claim", "beside", "shows", "objects", "events"}
    said = fields.mapping(given, f"story {name}", keys)
    told = [dict(one) for one in fields.sequence(said.get("events"), f"story {name} events")]
    if not SHORTEST <= len(told) <= LONGEST:
        raise UsageProblem(f"story {name}: {SHORTEST} to {LONGEST} events are required")
    for number, one in enumerate(told, start=1):
        fields.mapping(one, f"story {name} event {number}", set(EVENTS))
        worlds.check_labels(one, f"story {name} event {number}")
        if len(one) != 1 or ("pods" in one and one["pods"] not in TURNS):
            raise UsageProblem(
                f"story {name}: event {number} must be one of {', '.join(EVENTS)}; pods must be "
                "one of "
                f"{', '.join(TURNS)}"
            )
    if {one.get("pods") for one in told} >= ONE_OF:
        raise UsageProblem(
            f"story {name}: pods must be either {' or '.join(sorted(ONE_OF))}, not both"
        )
    rest = {key: value for key, value in said.items() if key != "events"}
    story = Story(worlds.read(name, rest), tuple(map(Event, told)))
    for _ in story.scenes():
        pass  # raises if an event cannot happen at its place
    return story
