# SPDX-License-Identifier: Apache-2.0
"""A machine that runs late excuses budgets alone: they are given once more, and little is left undecided for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePath

import pytest

from conformance.errors import ControlBroken, EnvironmentBroken, Nonconformance
from conformance.expect import machine_lag
from conformance.expect.case import Case
from conformance.expect.context import Context, Pace, Sink
from conformance.expect.engine.answered import default_kind
from conformance.expect.engine.decide import Standing, Wrong
from conformance.expect.engine.path import Path, Rule, Why
from conformance.expect.outcome import Outcome
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.endpoint import Target
from conformance.model.observation import Observation, Verdict
from conformance.probe.asking import Answered
from conformance.probe.machine import FELT, LATE, Machine, demand
from conformance.settings import load_timings
from conformance.timing import until
from tests.unit.conformance.builders import a_workload
from tests.unit.conformance.expect.network import Network, NetworkAsking, Passes, always
from tests.unit.conformance.expect.stand_ins import Clock, target

LAB = load_timings(lab=True)
BUDGET = LAB.linux.policy_effect
FRIEND, STRANGER = a_workload("friend"), a_workload("stranger")
SERVER = replace(target(), backends=(a_workload("server"),))
BEYOND = replace(target("192.168.0.200"), backends=(a_workload("beyond"),))
Behind = Callable[[float], float]
Demand = Callable[[float], tuple[float, float, float]]
BY_MUCH = 2 * FELT
PAUSE = 0.4
"""s.  In which the asker is in time."""
OVER_UDP = replace(SERVER, protocol="udp")
"""An attempt there is one packet."""


@dataclass
class LateNetwork(Network):
    """A network whose asker sleeps too long, again and again."""

    behind: Behind = lambda now: 0.0

    def asking(self) -> NetworkAsking:
        return LateAsking(self)


class LateAsking(NetworkAsking):
    woke = 0.0

    def next(self, within: float) -> Answered | None:
        answered, network = super().next(within), self.network
        assert isinstance(network, LateNetwork)
        if within > 0 and network.clock.now - self.woke >= PAUSE:
            network.clock.now += network.behind(network.clock.now)
            self.woke = network.clock.now
        return answered


def idle() -> tuple[float, float, float]:
    return 0.0, 0.0, 0.0


def unhurried(now: float) -> tuple[float, float, float]:
    """Beside eight processes that compute on two cores."""
    return 0.1 * now, 0.7 * now, 5.0


def starved(now: float) -> tuple[float, float, float]:
    """A process that gets a core for a twentieth of the time in which it wants one."""
    return 0.02 * now, 0.38 * now, 5.0


def crowded(now: float) -> tuple[float, float, float]:
    """A process that mostly sleeps, beside forty that compute."""
    return 0.02 * now, 0.02 * now, 22.0


class Story:
    """A client whose way to a server is to be closed, on a machine that is behind."""

    def __init__(
        self,
        behind: Behind,
        *,
        shared: bool = True,
        pressed: float = 1.0,
        server: Target = SERVER,
        demand: Demand = unhurried,
    ) -> None:
        self.server, self.network, self.kept = (
            server,
            LateNetwork(LAB, behind=behind),
            list[Decision](),
        )
        clock = self.network.clock
        self.machine = Machine(
            shared=shared, pressure=lambda: pressed * clock.now, demand=lambda: demand(clock.now)
        )
        context = Context(claims=("POL-1",), sink=Sink(self.kept), pace=Pace(machine=self.machine))
        self.expect = Expect(self.network, LAB, context, clock)
        self.expect.control([FRIEND, STRANGER], server, because="no policy is in force yet")
        self.kept.clear()
        self.began = clock.now

    def says(self, passes: Passes) -> None:
        self.network.says(STRANGER, SERVER, lambda moment: passes(moment - self.began))

    def closes(self) -> ClaimVerdict:
        because = "its label is missing"
        try:
            self.expect.matrix(
                Case(STRANGER, BEYOND, open=True, because=because),
                Case(FRIEND, self.server, open=True, because=because),
                Case(STRANGER, self.server, open=False, because=because),
            )
        except (Nonconformance, EnvironmentBroken, ControlBroken) as error:
            self.error = str(error)
        return next(one.verdict for one in self.kept if one.reason and "closed" in one.halves)

    def opens(self) -> ClaimVerdict:
        try:
            self.expect.reachable(STRANGER, SERVER, because="nothing closes it")
        except (Nonconformance, EnvironmentBroken) as error:
            self.error = str(error)
        return self.kept[-1].verdict

    @property
    def reason(self) -> str:
        return next(one.reason for one in self.kept if "closed" in one.halves)


def on_time(_: float) -> float:
    return 0.0


def behind(_: float) -> float:
    return BY_MUCH


def closes_after(seconds: float) -> Passes:
    return lambda moment: moment < seconds


def opens_after(seconds: float) -> Passes:
    return lambda moment: moment >= seconds


def test_a_machine_in_time_gives_no_budget_twice() -> None:
    story = Story(on_time, pressed=0.5)
    story.says(closes_after(BUDGET + 2))
    assert story.closes() is ClaimVerdict.VIOLATED
    assert story.machine.given == 0
    assert "machine" not in story.error


def test_what_is_not_closed_yet_gets_the_budget_once_more_on_a_machine_that_is_late_and_that_is_said() -> (
    None
):
    story = Story(behind)
    story.says(closes_after(BUDGET + 4))
    assert story.closes() is ClaimVerdict.CONFIRMED
    assert "more than its 10 s, since this machine was behind by up to 1.0 s" in story.reason
    assert {one.reason for one in story.kept if "open" in one.halves} == {"its label is missing"}


def test_what_is_not_open_yet_gets_the_budget_once_more_on_a_machine_that_is_late() -> None:
    story = Story(behind)
    story.says(opens_after(BUDGET + 6))
    assert story.opens() is ClaimVerdict.CONFIRMED
    assert story.machine.given == 1


def test_a_denial_in_time_says_nothing_of_the_machine() -> None:
    story = Story(behind)
    story.says(closes_after(1))
    assert story.closes() is ClaimVerdict.CONFIRMED
    assert story.reason == "its label is missing"


def test_cores_that_are_all_busy_give_the_budget_once_more_although_nothing_is_late() -> None:
    story = Story(on_time, pressed=1.0)
    story.says(closes_after(BUDGET + 4))
    assert story.closes() is ClaimVerdict.CONFIRMED
    assert "this machine's cores were all busy" in story.reason


def test_the_second_budget_ends_too() -> None:
    story = Story(on_time, pressed=1.0)
    story.says(closes_after(2 * BUDGET + 4))
    assert story.closes() is ClaimVerdict.VIOLATED
    assert "  machine   the path was given 10 s more than its 10 s" in story.error


def test_a_route_that_stays_open_is_violated_where_the_machine_was_late_but_not_all_the_while() -> (
    None
):
    story = Story(lambda now: BY_MUCH if now < BUDGET else 0.0)
    story.says(always)
    assert story.closes() is ClaimVerdict.VIOLATED
    assert story.machine.given == 1


def test_a_route_that_stays_open_is_violated_beside_processes_that_compute_and_let_the_suite_be_in_time() -> (
    None
):
    story = Story(lambda now: 0.02, pressed=1.0)
    story.says(always)
    assert story.closes() is ClaimVerdict.VIOLATED


def test_a_route_that_stays_open_is_violated_where_the_cluster_runs_elsewhere_however_late_the_suite_is() -> (
    None
):
    story = Story(behind, shared=False)
    story.says(always)
    assert story.closes() is ClaimVerdict.VIOLATED


@pytest.mark.parametrize("way", ["closed", "open"])
def test_of_a_route_that_stays_wrong_on_an_overwhelmed_machine_of_the_lab_nothing_is_said(
    way: str,
) -> None:
    story = Story(behind)
    story.says(always if way == "closed" else closes_after(0))
    found = story.closes() if way == "closed" else story.opens()
    assert found is ClaimVerdict.INCONCLUSIVE
    first, *rest = story.error.splitlines()
    assert first.startswith(
        "POL-1  the machine of the lab was overwhelmed throughout; the path was given"
    )
    assert any(line.startswith("  do  run again when this machine is less busy") for line in rest)
    assert story.machine.excused == 1


@pytest.mark.parametrize("demand", [starved, crowded])
def test_nothing_is_said_of_a_policy_that_is_late_in_a_starved_lab(
    demand: Demand,
) -> None:
    story = Story(on_time, demand=demand)
    story.says(always)
    assert story.closes() is ClaimVerdict.INCONCLUSIVE
    assert story.error.startswith("POL-1  the machine of the lab was overwhelmed throughout")


@pytest.mark.parametrize("demand", [starved, crowded])
def test_a_route_that_no_policy_closes_is_violated_where_the_lab_is_starved(demand: Demand) -> None:
    story = Story(on_time, demand=demand)
    story.says(closes_after(0))
    assert story.opens() is ClaimVerdict.VIOLATED


@pytest.mark.parametrize("demand", [starved, crowded])
def test_no_packet_after_an_agreed_denial_is_excused_by_a_starved_lab(demand: Demand) -> None:
    story = Story(on_time, server=OVER_UDP, demand=demand)
    story.says(lambda moment: moment < 0.2 or moment > 1.2)
    assert story.closes() is ClaimVerdict.VIOLATED


def test_another_pods_answer_is_never_excused() -> None:
    story = Story(behind)
    story.network.servers[SERVER.host] = "ns/another"
    assert story.opens() is ClaimVerdict.VIOLATED
    assert "ns/another" in story.error


def test_another_source_is_never_excused() -> None:
    story = Story(behind)

    class Telling(LateAsking):
        def next(self, within: float) -> Answered | None:
            answered = super().next(within)
            seen = answered.observation if answered else None
            return (
                Answered(answered.ticket, replace(seen, seen_client="10.9.9.9"))
                if answered and seen
                else answered
            )

    story.network.asking = lambda: Telling(story.network)  # type: ignore[method-assign]
    with pytest.raises(Nonconformance, match=r"10\.9\.9\.9"):
        story.expect.sources(
            Case(STRANGER, SERVER, open=True, because="nothing translates it"),
            are=lambda pod: [pod.address],
        )
    assert story.kept[-1].verdict is ClaimVerdict.VIOLATED


def test_a_packet_after_an_agreed_denial_is_never_excused() -> None:
    story = Story(lambda now: BY_MUCH if now > 2.0 else 0.0, server=OVER_UDP)
    story.says(lambda moment: moment < 0.2 or moment > 1.2)
    assert story.closes() is ClaimVerdict.VIOLATED
    assert "a packet arrived after the path had been closed" in story.error
    assert story.machine.given == 0


def outcome(why: Why, *, want: bool) -> Outcome:
    attempt = Attempt(
        source=STRANGER, target=SERVER, kind=default_kind(SERVER, want=want), give_up_after=1.0
    )
    path = Path(attempt, want, Rule.of(LAB.linux, [LAB.linux], 2 * BUDGET), given=BUDGET)
    seen = Observation(attempt=attempt, verdict=Verdict.CONNECTED, at=0.0, seconds=0.1)
    path.answer(path.ask(0.0), seen, at=0.0, error=0.0, came=0.1)
    return Outcome(path, Wrong(why), is_control=False)


def left_of(why: Why) -> Standing:
    story = Story(on_time)
    began = story.network.clock.now
    for _ in range(30):
        story.network.clock.sleep(1.0)
        story.machine.record_lateness(BY_MUCH, story.network.clock.now)
    one = outcome(why, want=why is Why.CLOSED)
    machine_lag.excuse(story.expect, [one], began)
    return one.standing


@pytest.mark.parametrize("why", [why for why in Why if why not in (Why.OPEN, Why.CLOSED)])
def test_nothing_but_a_budget_is_ever_excused(why: Why) -> None:
    assert left_of(why) == Wrong(why)


@pytest.mark.parametrize("why", [Why.OPEN, Why.CLOSED])
def test_a_budget_is(why: Why) -> None:
    assert left_of(why) != Wrong(why)


# --- what is measured -------------------------------------------------------------------------------------------------


def test_a_budget_has_room_for_a_little_lateness() -> None:
    machine = Machine(pressure=lambda: None)
    machine.record_lateness(LATE * BUDGET - 0.01, 1.0)
    assert machine.more(BUDGET, 0.0) == 0.0
    machine.record_lateness(LATE * BUDGET, 2.0)
    assert machine.more(BUDGET, 0.0) == pytest.approx(BUDGET + LATE * BUDGET)
    assert machine.more(BUDGET, 3.0) == 0.0, "it was late before, and is not now"


def test_a_kernel_that_tells_of_no_pressure_excuses_nothing() -> None:
    machine = Machine(shared=True, pressure=lambda: None, demand=idle)
    for moment in range(30):
        machine.record_lateness(BY_MUCH, moment)
    assert not machine.overwhelmed(0.0, 29.0)


def test_one_rest_of_two_seconds_is_enough() -> None:
    clock = Clock()
    machine = Machine(shared=True, pressure=clock.monotonic, demand=idle)
    for moment in [*range(10), *range(13, 30)]:
        clock.now = moment
        machine.record_lateness(BY_MUCH, moment)
    assert not machine.overwhelmed(0.0, 29.0)
    assert machine.overwhelmed(13.0, 29.0)


def test_a_wait_gets_the_time_that_a_late_machine_takes_once() -> None:
    clock, given = Clock(), list[tuple[float, float]]()

    def more(within: float, began: float) -> float:
        given.append((within, began))
        return 7.0

    settled = until(
        clock.monotonic, lambda now: now >= 15, within=10, description="it is late", clock=clock, more=more
    )  # fmt: skip
    assert settled.converged
    assert given == [(10, 0.0)]
    never = until(
        clock.monotonic,
        lambda _: False,
        within=10,
        description="it never comes",
        clock=clock,
        more=more,
    )
    assert not never.converged
    assert never.seconds == pytest.approx(17, abs=1.1)


def test_the_kernel_tells_how_long_this_process_ran_and_waited_and_how_many_want_a_core() -> None:
    before = demand()
    assert sum(number * number for number in range(100_000))
    after = demand()
    assert after[0] > before[0] > 0.0
    assert after[1] >= before[1]
    assert after[2] > 0.0


def test_a_kernel_that_tells_nothing_of_it_excuses_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: PurePath
) -> None:
    monkeypatch.setattr("conformance.probe.machine.SCHEDULED", tmp_path / "none")
    assert demand() == (0.0, 0.0, 0.0)
