# SPDX-License-Identifier: Apache-2.0
"""A path that another test observed as open, and that now loses connections, is probed again at
the end of the run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.errors import Nonconformance, Wavered
from conformance.expect.context import Context, Pace, Sink
from conformance.expect.figures import PolicyChange
from conformance.expect.open_paths import IN_A_ROW, OpenPaths
from conformance.expect.traffic import Expect
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.settings import load_timings
from tests.unit.conformance.builders import a_workload
from tests.unit.conformance.expect.network import Network, Passes, always, lossy
from tests.unit.conformance.expect.stand_in_world import StandInWorld
from tests.unit.conformance.expect.stand_ins import target

LAB = load_timings(lab=True)
CLIENT, OTHER = a_workload("client"), a_workload("other")
SERVER = replace(target(), backends=(a_workload("server"),))
MOST = 0.8
"""Of the packets; of the connections, whose first packets are sent three times, one half."""


class Story:
    """Tests of one process, one after the other, in one network."""

    def __init__(self) -> None:
        self.network, self.paths, self.kept = Network(LAB), OpenPaths(), list[Decision]()

    def test(
        self, name: str, *, may_wait: bool = True, again: bool = False, changed: bool = False
    ) -> Expect:
        self.kept.clear()
        change = PolicyChange(what="deny", at=0.0, enforced_at="both") if changed else None
        self.paths.test, self.paths.may_wait, self.paths.again = name, may_wait, again
        context = Context(
            claims=("CONN-3",),
            sink=Sink(self.kept),
            world=StandInWorld(change=lambda: change),
            pace=Pace(open_paths=self.paths),
        )
        return Expect(self.network, LAB, context, self.network.clock)

    def goes_by(self, passes: Passes) -> None:
        self.network.says(CLIENT, SERVER, passes)

    def has_seen_it_open(self) -> None:
        self.goes_by(always)
        self.test("the first").reachable(CLIENT, SERVER, because="it is open")
        self.network.clock.now += 180.0

    @property
    def verdicts(self) -> list[ClaimVerdict]:
        return [decision.verdict for decision in self.kept]


@pytest.fixture
def story() -> Story:
    return Story()


def wavers(story: Story) -> None:
    story.has_seen_it_open()
    story.goes_by(lossy(MOST, 7))
    with pytest.raises(
        Wavered, match=r"the first found it open 19\d s earlier: the path is tried again at the end"
    ):
        story.test("the second").reachable([CLIENT, OTHER], SERVER, because="it is open")


def test_what_wavers_is_put_off_and_the_others_are_decided(story: Story) -> None:
    wavers(story)
    assert story.verdicts == [ClaimVerdict.INCONCLUSIVE, ClaimVerdict.CONFIRMED]


def test_what_wavers_again_is_violated_and_both_observations_are_said(story: Story) -> None:
    wavers(story)
    with pytest.raises(
        Nonconformance,
        match=r"earlier .*TIMED_OUT.*, and at the run's end the path is again open only at times",
    ) as told:
        story.test("the second", again=True).reachable(
            [CLIENT, OTHER], SERVER, because="it is open"
        )
    assert not isinstance(told.value, Wavered)
    assert story.verdicts == [ClaimVerdict.VIOLATED, ClaimVerdict.CONFIRMED]
    assert "earlier in the run" in story.kept[0].reason


def test_what_is_well_again_is_inconclusive_and_both_observations_are_said(story: Story) -> None:
    wavers(story)
    story.goes_by(always)
    story.test("the second", again=True).reachable([CLIENT, OTHER], SERVER, because="it is open")
    assert story.verdicts == [ClaimVerdict.INCONCLUSIVE, ClaimVerdict.CONFIRMED]
    assert "TIMED_OUT" in story.kept[0].reason
    assert (
        f"earlier in the run, and {IN_A_ROW} connections in a row at its end"
        in story.kept[0].reason
    )


def test_a_few_connections_do_not_show_that_it_is_well_again(story: Story) -> None:
    wavers(story)
    story.network.begun.clear()
    story.goes_by(always)
    story.test("the second", again=True).reachable(CLIENT, SERVER, because="it is open")
    assert len(story.network.begun) >= IN_A_ROW


def test_what_no_other_test_saw_open_is_violated_at_once(story: Story) -> None:
    story.goes_by(lossy(MOST, 7))
    with pytest.raises(Nonconformance):
        story.test("the first").reachable(CLIENT, SERVER, because="it is open")


def test_what_the_test_itself_saw_open_is_violated_at_once(story: Story) -> None:
    story.goes_by(always)
    expect = story.test("the first")
    expect.reachable(CLIENT, SERVER, because="it is open")
    story.goes_by(lossy(MOST, 7))
    with pytest.raises(Nonconformance):
        expect.reachable(CLIENT, SERVER, because="it is open")


@pytest.mark.parametrize("test", [{"may_wait": False}, {"changed": True}])
def test_a_test_that_changed_something_itself_is_not_put_off(
    story: Story, test: dict[str, bool]
) -> None:
    story.has_seen_it_open()
    story.goes_by(lossy(MOST, 7))
    with pytest.raises(Nonconformance):
        story.test("the second", **test).reachable(CLIENT, SERVER, because="it is open")


def test_a_path_on_which_nothing_passes_is_violated_at_once(story: Story) -> None:
    story.has_seen_it_open()
    story.goes_by(lambda _: False)
    with pytest.raises(Nonconformance):
        story.test("the second").reachable(CLIENT, SERVER, because="it is open")


def test_what_is_wrong_beside_it_is_violated_at_once(story: Story) -> None:
    story.has_seen_it_open()
    story.goes_by(lossy(MOST, 7))
    story.network.says(OTHER, SERVER, lambda _: False)
    with pytest.raises(Nonconformance):
        story.test("the second").reachable([CLIENT, OTHER], SERVER, because="it is open")
    assert set(story.verdicts) == {ClaimVerdict.VIOLATED}


def test_a_path_is_the_same_at_another_port(story: Story) -> None:
    story.has_seen_it_open()
    story.goes_by(lossy(MOST, 7))
    with pytest.raises(Wavered):
        story.test("the second").reachable(CLIENT, replace(SERVER, port=8081), because="it is open")
