# SPDX-License-Identifier: Apache-2.0
"""A story is decided event by event: a difference is reported with the event, the node and the
rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from conformance.errors import ControlBroken, EnvironmentBroken, Nonconformance
from conformance.expect.context import Context, Sink
from conformance.policy import worlds
from conformance.policy.oracle.oracle import Verdict
from conformance.policy.worlds import Seat, World
from conformance.stories.in_story import InStory
from conformance.stories.model import story
from conformance.stories.model.lives import ANSWER, State, after
from conformance.stories.model.story import Story
from tests.unit.conformance.stories.test_story import MEMBERS, POLICY
from tests.unit.conformance.worlds.test_in_world import TIMINGS, Chairs, Rig, Way, verdicts
from tests.worlds.seats import NAMESPACES, SEATS

TWINS = tuple(
    replace(seat, member=False, twin=True, pod=f"twin-{seat.os}", address=f"{seat.address[:-2]}40")
    for seat in MEMBERS
)
SELECTS = {"selector": "role == 'member'", "types": ["Ingress"]}
ALLOWED = {**POLICY, "spec": {**SELECTS, "ingress": [{"action": "Allow"}]}}


@dataclass
class Actors:
    """Stands in for members: pods that are there at once."""

    chairs: StoryChairs
    breaks: str = ""
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    last: bool = False
    fail: bool = False
    acted: list[str] = field(default_factory=list)
    state: State = "gone"
    came_with: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def come(self) -> None:
        self.state = "there"
        self.came_with = self.labels
        self._sit()

    def act(self, event: str) -> None:
        if event == self.breaks:
            raise EnvironmentBroken(f"the pods are not {event} in time")
        self.acted.append(event)
        self.state = after(self.state, event) or self.state
        self._sit()

    def remove(self) -> None:
        self.state = "gone"
        self._sit()

    def _sit(self) -> None:
        ready = self.state == "there"
        there = MEMBERS if self.state in ANSWER else ()
        twins = TWINS if self.chairs.with_twins else ()
        self.chairs.seats = (*SEATS, *twins, *(replace(seat, ready=ready) for seat in there))


@dataclass
class StoryChairs(Chairs):
    """The seats of the least cluster, and its members."""

    seats: tuple[Seat, ...] = SEATS
    with_twins: bool = False

    def meet_twins(self) -> None:
        self.with_twins = True
        self.seats = (*self.seats, *TWINS)


@dataclass
class Stage(Rig):
    """A cluster with members; ``reads``: the world in force there."""

    seats: StoryChairs = field(default_factory=StoryChairs)
    members: Actors = field(init=False)

    def __post_init__(self) -> None:
        self.members = Actors(self.seats)

    def expected(self, world: World) -> dict[Way, Verdict]:
        seats = self.seats.seats
        objects = [*worlds.surroundings(world, seats, NAMESPACES), *world.filled(seats, NAMESPACES)]
        return {
            (cell.source.address, cell.destination.address, cell.protocol, cell.port): cell.expected
            for cell in worlds.cells(objects, seats, world.claim)
        }


def told(*events: dict[str, Any]) -> Story:
    return story.read("s", {"claim": "POL-1", "objects": [POLICY], "events": list(events)})


def judged(
    told_story: Story,
    reads: Callable[[Rig], World | None] = lambda rig: rig.now,
    breaks: str = "",
    labels: Mapping[str, Mapping[str, str]] | None = None,
) -> Stage:
    """The stage once the story was told on it; raises what the story says.

    ``labels``: what the story before has left the members.
    """
    stage = Stage(TIMINGS, reads=reads)
    stage.members.breaks = breaks
    stage.members.labels = labels or {}
    ground: Any = stage
    members: Any = stage.members
    context = Context(claims=("POL-1",), sink=Sink(stage.kept))
    try:
        InStory(
            stage, TIMINGS, context, stage.clock, ground=ground, world=told_story.world,
            replay="pytest --story=x.yaml", story=told_story, members=members,
        ).holds(because="so it is")  # fmt: skip
    except Exception as error:
        error.stage = stage  # type: ignore[attr-defined]
        raise
    finally:
        left = (stage.now, stage.members.state, stage.seats.with_twins)
        assert left == (None, "gone", False), "nothing is left of it"
    return stage


def open_since(event: str) -> Callable[[Rig], World | None]:
    """A data plane that forgets all policies when this happens to pods."""
    return lambda rig: None if event in rig.members.acted else rig.now  # type: ignore[attr-defined]


def test_what_is_as_the_oracle_says_after_each_event_is_confirmed() -> None:
    events = ({"pods": "again"}, {"pods": "ending"}, {"pods": "gone"}, {"put": ALLOWED})
    stage = judged(told(*events))
    assert verdicts(stage) == {("POL-1", "CONFIRMED")}
    assert stage.members.acted == ["again", "ending", "gone"]
    assert (stage.members.last, stage.members.fail) == (True, False)
    assert any(one.reason.startswith("so it is after event 4") for one in stage.kept)


def test_a_policy_that_an_event_takes_is_told_with_the_event_and_its_rule() -> None:
    events = ({"pods": "unready"}, {"pods": "again"}, {"put": ALLOWED})
    with pytest.raises(Nonconformance) as caught:
        judged(told(*events), open_since("again"))
    first, *rest = str(caught.value).splitlines()
    stage = caught.value.stage  # type: ignore[attr-defined]
    assert stage.members.acted == ["unready", "again"], "it ends with what is different"
    assert "POL-1: linux-1 and windows-1 do not enforce the policy: expected TIMED_OUT" in first
    assert ": after event 2, pods again: denied by" in first
    assert f"NetworkPolicy {NAMESPACES['a']}/p" in first
    assert any("pytest --story=x.yaml" in line for line in rest)
    assert ("POL-1", "VIOLATED") in verdicts(stage)


def test_an_edit_that_is_not_heard_of_is_told_with_its_event() -> None:
    old = told({"put": ALLOWED}).world

    def deaf(rig: Rig) -> World | None:
        return old if rig.now is not None and rig.clears == 0 else rig.now

    with pytest.raises(Nonconformance) as caught:
        judged(told({"pods": "again"}, {"put": ALLOWED}), deaf)
    first = str(caught.value).splitlines()[0]
    assert ": after event 2, NetworkPolicy ${a}/p written: the edit is not honoured" in first


def test_an_event_that_does_not_take_effect_decides_nothing_and_leaves_nothing() -> None:
    with pytest.raises(EnvironmentBroken, match="the pods are not evicted in time") as caught:
        judged(told({"pods": "evicted"}), breaks="evicted")
    assert caught.value.stage.kept == []  # type: ignore[attr-defined]


def test_members_are_given_the_labels_that_the_story_has_given_them() -> None:
    stage = judged(told({"labels": {"m.linux": {"role": "member", "x": "9"}}}, {"pods": "failed"}))
    assert stage.members.labels == {"m.linux": {"role": "member", "x": "9"}}
    assert stage.members.fail


def test_members_come_without_the_labels_that_an_earlier_story_has_given_them() -> None:
    stage = judged(told({"put": ALLOWED}), labels={"m.windows": {"role": "friend"}})
    assert stage.members.came_with == {}


def test_a_story_that_finds_closed_paths_before_it_begins_leaves_no_members_and_twins() -> None:
    one = told({"pods": "again"})
    with pytest.raises(ControlBroken, match="before the story"):
        judged(one, lambda rig: one.world)
