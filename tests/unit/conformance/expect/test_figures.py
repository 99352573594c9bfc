# SPDX-License-Identifier: Apache-2.0
"""Figures that are recorded while expectations are decided: tries by direction, and the time until
a policy change was visible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from conformance.expect.context import Context, Sink
from conformance.expect.engine.path import Path, Rule, Try
from conformance.expect.engine.sources import SOON
from conformance.expect.figures import FigureLog, PolicyChange
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt, Kind
from conformance.model.figures import Effect, Tries
from conformance.model.observation import Verdict
from conformance.settings import load_timings
from tests.unit.conformance.builders import a_path, a_workload
from tests.unit.conformance.expect.denial import blocked
from tests.unit.conformance.expect.stand_in_world import StandInWorld
from tests.unit.conformance.expect.stand_ins import (
    BYSTANDER,
    Answer,
    ScriptedProber,
    observation,
    target,
)

UP, DROPPED = Verdict.CONNECTED, Verdict.TIMED_OUT
FRIEND, STRANGER = a_workload("friend"), a_workload("stranger", "windows")
SERVER = a_workload("server", "windows").tcp(8080)
POLL = load_timings().windows.poll_every


class Story:
    """A test that sees paths open, changes a policy, and sees what comes of it."""

    def __init__(self, side: str = "target") -> None:
        self.log = FigureLog()
        self.change: PolicyChange | None = None
        self.side = side
        self.prober = ScriptedProber({"friend": [UP], "stranger": [UP]})
        self.clock = self.prober.clock
        context = Context(
            claims=("POL-1",),
            sink=Sink(figures=self.log),
            world=StandInWorld(change=lambda: self.change),
        )
        self.expect = Expect(self.prober, load_timings(), context, self.clock)

    def begins(self) -> None:
        self.expect.control([FRIEND, STRANGER], SERVER, because="nothing is in force")
        self.log.tries.clear()

    def changes(self, **answers: list[Answer]) -> None:
        self.change = PolicyChange(
            what=f"policy at {self.clock.now}",
            at=self.clock.now,
            enforced_at=self.side,  # type: ignore[arg-type]
        )
        self.prober.answers, self.prober.rounds = answers, 0

    def closes(self) -> None:
        blocked(
            self.expect,
            STRANGER,
            SERVER,
            because="its label is missing",
            beside=[FRIEND, (STRANGER, BYSTANDER)],
        )

    def opens(self) -> None:
        self.expect.reachable([FRIEND, STRANGER], SERVER, because="the policy is gone")


@pytest.fixture
def story() -> Story:
    return Story()


def tries(story: Story) -> Sequence[tuple[str, int, int]]:
    return [(item.direction, item.tries, item.attempts) for item in story.log.figures().tries]


def test_an_attempt_that_is_right_at_once_needs_one_try(story: Story) -> None:
    story.begins()
    story.opens()
    assert tries(story) == [("linux->windows", 1, 1), ("windows->windows", 1, 1)]


def test_tries_count_up_to_the_last_wrong_round(story: Story) -> None:
    story.begins()
    story.changes(friend=[UP], stranger=[DROPPED, UP, DROPPED])
    story.closes()
    assert tries(story) == [
        ("linux->windows", 1, 1),
        ("windows->-", 1, 1),
        ("windows->windows", 3, 1),
    ]


def test_a_denial_that_wavers_is_first_right_stable_and_open_at_different_times(
    story: Story,
) -> None:
    story.begins()
    story.changes(friend=[UP], stranger=[UP, DROPPED, UP, DROPPED])
    story.closes()
    [effect] = story.log.figures().effects
    second, third = (
        SOON,
        SOON + POLL,
    )  # asked again soon while it is open, then at the cadence, and soon again
    assert (effect.first_correct, effect.exposure, effect.stable) == pytest.approx(
        (second, third, third + 4 * SOON)
    )
    assert (effect.os, effect.wanted) == ("windows", "closed")


def test_what_fails_after_its_route_was_decided_is_part_of_no_figure() -> None:
    path = a_path(load_timings(), STRANGER, SERVER, want=True)
    attempt = path.attempt
    answers = [UP, UP, UP, DROPPED]  # the last was under way already when the third was heard
    path.tries += [
        Try(number, observation(attempt, seen), at=number) for number, seen in enumerate(answers)
    ]
    row, log = path.tries[:3], FigureLog()
    log.decided([path], [row])
    log.took_effect(
        PolicyChange(what="a policy goes", at=0.0, enforced_at="target"), [(path, row)], began=0.0
    )
    assert [(item.tries, item.attempts) for item in log.figures().tries] == [(1, 1)]
    assert [effect.stable for effect in log.effects] == [observation(attempt, UP).seconds]


def test_an_opening_is_timed_by_the_first_answer_and_not_by_what_left_before_it() -> None:
    attempt = Attempt(source=FRIEND, target=SERVER, kind=Kind.TCP, give_up_after=5.0)
    path, log = (
        Path(attempt, True, Rule(agree=2, agree_span=1.0, hold=1.0, near=1.0, within=30.0)),
        FigureLog(),
    )
    for asked, seconds in (
        (0.0, 1.02),
        (0.1, 0.92),
        (0.3, 0.002),
        (0.7, 0.002),
    ):  # two SYNs that are sent again after 1 s
        seen = replace(observation(attempt, UP), seconds=seconds)
        path.answer(path.ask(asked), seen, at=asked, error=0.0, came=asked + seconds)
    log.took_effect(
        PolicyChange(what="x", at=10.0, enforced_at="target"), [(path, path.tries[-2:])], began=10.0
    )
    (effect,) = log.figures().effects
    assert (effect.first_correct, effect.stable) == (0.302, 0.302)


def test_what_left_before_an_opening_and_failed_after_it_is_part_of_no_figure() -> None:
    attempt = Attempt(source=FRIEND, target=SERVER, kind=Kind.TCP, give_up_after=0.8)
    path, log = (
        Path(attempt, True, Rule(agree=2, agree_span=0.5, hold=1.0, near=1.0, within=30.0)),
        FigureLog(),
    )
    for asked, seen, seconds in ((0.0, DROPPED, 0.8), (0.1, UP, 0.002), (0.7, UP, 0.002)):
        answer = replace(observation(attempt, seen), seconds=seconds)
        path.answer(path.ask(asked), answer, at=asked, error=0.0, came=asked + seconds)
    log.took_effect(
        PolicyChange(what="x", at=10.0, enforced_at="target"), [(path, path.tries[-2:])], began=10.0
    )
    (effect,) = log.figures().effects
    assert (effect.first_correct, effect.stable) == (0.102, 0.102)


def test_a_denial_that_is_there_at_once_was_never_exposed(story: Story) -> None:
    story.begins()
    story.changes(friend=[UP], stranger=[DROPPED])
    story.closes()
    assert [effect.exposure for effect in story.log.figures().effects] == [0.0]


def test_egress_is_enforced_at_the_source() -> None:
    story = Story("source")
    story.begins()
    story.changes(friend=[DROPPED], stranger=[UP])
    blocked(story.expect, FRIEND, SERVER, because="it may not leave", beside=STRANGER)
    assert [effect.os for effect in story.log.figures().effects] == ["linux"]


def test_a_change_is_timed_once_and_by_the_paths_that_it_turned(story: Story) -> None:
    story.begins()
    story.changes(friend=[UP], stranger=[DROPPED])
    story.closes()
    story.closes()
    story.changes(friend=[UP], stranger=[DROPPED, UP])
    story.opens()
    found = [(effect.wanted, effect.os) for effect in story.log.figures().effects]
    assert found == [
        ("closed", "windows"),
        ("open", "windows"),
    ]  # the friend's path was open all the time


def test_without_a_change_of_policy_there_is_no_effect(story: Story) -> None:
    story.begins()
    story.opens()
    assert story.log.figures().effects == ()


def test_what_fails_is_not_taken_down(story: Story) -> None:
    story.begins()
    story.changes(friend=[UP], stranger=[UP])
    with pytest.raises(AssertionError):
        story.closes()
    assert story.log.figures().effects == ()
    assert tries(story) == []


def test_a_target_that_is_no_pod_has_no_operating_system(story: Story) -> None:
    story.expect.reachable(FRIEND, target(), because="it is there")
    assert story.log.figures().tries == (Tries(direction="linux->-", tries=1, attempts=1),)


def test_an_effect_is_told_in_seconds_since_the_change() -> None:
    effect = Effect(change="x", os="linux", wanted="open", first_correct=0.1, stable=0.2)
    assert effect.exposure is None
