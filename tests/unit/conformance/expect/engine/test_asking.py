# SPDX-License-Identifier: Apache-2.0
"""The times at which attempts begin, and the work of deciding by them. The decisions are in
test_soundness.py."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import FrameType

import pytest

from conformance.expect.engine.ask import LOOK, ask
from conformance.expect.engine.decide import Held, NotYet, Standing, Wrong, decide
from conformance.expect.engine.path import LARGE, Path, Why, link
from conformance.expect.engine.sources import BEHIND
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Workload
from conformance.model.observation import Verdict
from conformance.settings import load_timings
from tests.unit.conformance.builders import a_path, a_workload
from tests.unit.conformance.expect.network import Network, always, never, outage
from tests.unit.conformance.expect.stand_ins import BYSTANDER, target

LAB = load_timings(lab=True)
PATIENCE = LAB.linux
SERVER, OTHER = target("192.168.0.9"), target("192.168.0.8")


def path(source: Workload, host: str, *, want: bool) -> Path:
    return a_path(LAB, source, target(host), want=want)


def decided(network: Network, paths: list[Path], *, about_denial: bool = False) -> list[Standing]:
    link(paths)
    uids = {path.attempt.source.uid for path in paths}
    return ask(
        network.asking(), paths, cadence=dict.fromkeys(uids, PATIENCE.poll_every),
        agreeing=dict.fromkeys(uids, PATIENCE.agree_every), settle=1.0, clock=network.clock, about_denial=about_denial,
    )  # fmt: skip


def begins(network: Network, source: Workload) -> list[float]:
    return sorted({begun for begun, attempt in network.begun if attempt.source == source})


def gaps(network: Network, source: Workload) -> list[float]:
    return [round(later - earlier, 3) for earlier, later in pairwise(begins(network, source))]


def test_an_open_route_is_asked_again_soon_while_its_attempts_agree() -> None:
    network, source = Network(LAB), a_workload("client")
    (standing,) = decided(network, [path(source, SERVER.host, want=True)])
    assert isinstance(standing, Held)
    assert gaps(network, source) == [PATIENCE.agree_every] * (PATIENCE.agree - 1)


def test_a_route_that_does_not_connect_yet_is_asked_at_the_cadence_until_it_does() -> None:
    network, source = Network(LAB), a_workload("client")
    network.says(source, SERVER, outage((0.0, 2.0)))
    (standing,) = decided(network, [path(source, SERVER.host, want=True)])
    assert isinstance(standing, Held)
    meanwhile, spaces = int(2.0 / PATIENCE.poll_every), gaps(network, source)
    assert spaces[: meanwhile - 1] == [PATIENCE.poll_every] * (meanwhile - 1)
    assert spaces[-1] == PATIENCE.agree_every


def test_a_route_that_connects_no_more_is_asked_at_the_cadence_again() -> None:
    network, source = Network(LAB), a_workload("client")
    network.says(source, SERVER, outage((0.05, 0.8)))
    (standing,) = decided(network, [path(source, SERVER.host, want=True)])
    assert isinstance(standing, Held)
    assert gaps(network, source)[:2] == [PATIENCE.agree_every, PATIENCE.poll_every]


def test_a_source_with_one_route_that_does_not_connect_yet_is_asked_at_the_cadence() -> None:
    network, source = Network(LAB), a_workload("client")
    network.says(source, OTHER, outage((0.0, 1.0)))
    standings = decided(
        network, [path(source, host, want=True) for host in (SERVER.host, OTHER.host)]
    )
    assert all(isinstance(standing, Held) for standing in standings)
    assert gaps(network, source)[0] == PATIENCE.poll_every


def test_beside_a_closed_route_open_ones_are_asked_at_the_cadence() -> None:
    network, source, friend = Network(LAB), a_workload("client"), a_workload("friend")
    network.says(source, SERVER, never)
    paths = [
        path(source, OTHER.host, want=True),
        path(friend, SERVER.host, want=True),
        path(source, SERVER.host, want=False),
    ]
    assert all(isinstance(standing, Held) for standing in decided(network, paths))
    assert set(gaps(network, friend)) == {PATIENCE.poll_every}


def closed_by_policy(network: Network, *, after: float) -> tuple[Workload, list[Path]]:
    """A client whose way to the server is closed so many seconds after the expectation's beginning."""
    source, friend = a_workload("client"), a_workload("friend")
    network.says(source, SERVER, lambda moment: moment < after)
    paths = [
        path(source, OTHER.host, want=True),
        path(friend, SERVER.host, want=True),
        path(source, SERVER.host, want=False),
    ]
    return source, paths


def test_a_route_that_is_not_closed_yet_is_asked_again_soon_and_at_the_cadence_once_it_does_not_answer() -> (
    None
):
    network = Network(LAB)
    source, paths = closed_by_policy(network, after=0.02)
    standings = decided(network, paths)
    assert all(isinstance(standing, Held) for standing in standings)
    first, *others, _ = gaps(network, source)
    assert first == PATIENCE.agree_every
    assert set(others) == {PATIENCE.poll_every}
    closed = standings[-1]
    assert isinstance(closed, Held)
    assert closed.row[0].at < PATIENCE.poll_every, "the row began before the cadence had passed"
    assert closed.row[-1].at - closed.row[0].at >= paths[-1].rule.span, "which makes it no shorter"


def test_pauses_double_up_to_the_cadence_while_a_route_is_not_closed() -> None:
    network = Network(LAB)
    source, paths = closed_by_policy(network, after=1.5)
    assert all(isinstance(standing, Held) for standing in decided(network, paths))
    soon, cadence = PATIENCE.agree_every, PATIENCE.poll_every
    assert gaps(network, source)[:6] == [soon, 2 * soon, 4 * soon, cadence, cadence, cadence]


def test_a_route_that_a_removed_policy_still_closes_is_asked_again_soon() -> None:
    network, source = Network(LAB), a_workload("client")
    network.says(source, SERVER, outage((0.0, 0.02)))
    (standing,) = decided(network, [path(source, SERVER.host, want=True)], about_denial=True)
    assert isinstance(standing, Held)
    # The first attempt's first packet is lost, and its repetition connects: it agrees with those after it.
    assert gaps(network, source) == [PATIENCE.agree_every] * (PATIENCE.agree - 1)


@pytest.mark.parametrize("others", [0, 5])
def test_a_route_that_opens_later_is_asked_again_soon_whatever_older_attempts_wait_for(
    others: int,
) -> None:
    """An attempt that began before the path opened gets no answer until its SYN is repeated, a
    second later on most systems."""
    network, source, opens = (
        Network(replace(LAB, linux=replace(PATIENCE, syn_again=1.0))),
        a_workload("client"),
        0.3,
    )
    hosts = [SERVER.host, *(f"192.168.1.{number}" for number in range(others))]
    for host in hosts:
        network.says(source, target(host), outage((0.0, opens)))
    paths = [path(source, host, want=True) for host in hosts]
    for one in paths:
        one.attempt = replace(one.attempt, give_up_after=3.0)
    standings = decided(network, paths, about_denial=True)
    soon = PATIENCE.agree_every
    assert gaps(network, source)[:3] == [soon, 2 * soon, 4 * soon]
    for standing in standings:
        assert isinstance(standing, Held)
        assert standing.row[0].at < opens + PATIENCE.poll_every, (
            "by an attempt that was begun when it had opened"
        )
    assert network.clock.now < 1.0, "no repetition was waited for"


def test_a_source_that_more_than_a_few_answers_are_owed_to_is_not_asked_for_more() -> None:
    network, source = Network(LAB, round_trip=0.45), a_workload("client")
    opened = [path(source, f"192.168.1.{number}", want=True) for number in range(9)]
    network.says(source, SERVER, never)
    *standings, closed = decided(network, [*opened, path(source, SERVER.host, want=False)])
    assert all(isinstance(standing, Held) for standing in [*standings, closed])
    pauses = gaps(network, source)
    assert pauses[0] == PATIENCE.poll_every, "nobody has answered yet"
    assert min(pauses[2:]) > network.round_trip > PATIENCE.poll_every


def test_open_paths_that_agree_are_asked_in_turns_while_denials_are_waited_for() -> None:
    network, source = Network(LAB), a_workload("client")
    opened = [path(source, f"192.168.1.{number}", want=True) for number in range(4)]
    late, closed = path(source, "192.168.1.9", want=True), path(source, SERVER.host, want=False)
    assert late.attempt.target is not None
    network.says(source, late.attempt.target, outage((0.0, 0.9)))
    network.says(source, SERVER, never)
    standings = decided(network, [*opened, late, closed])
    assert all(isinstance(standing, Held) for standing in standings)
    denied = [attempt.asked for attempt in closed.tries]
    for one in opened:
        seldom = [
            attempt.asked
            for attempt in one.tries
            if PATIENCE.poll_every * 3 <= attempt.asked <= denied[-1]
        ]
        assert len(seldom) <= len(denied) // 2 + 1
        assert max(after - before for before, after in pairwise(seldom)) <= 3 * PATIENCE.poll_every
    for moment in denied[3:]:
        asked = [
            one
            for one in opened
            if any(abs(attempt.asked - moment) < 0.01 for attempt in one.tries)
        ]
        assert len(asked) in (2, 3), "the others were asked the last time"
    early = {attempt.asked for attempt in late.tries}
    assert {moment for moment in denied if moment < 0.9} <= early, (
        "what does not agree yet is asked each time"
    )
    assert all(one.tries[-1].asked >= denied[-1] for one in [*opened, late])


def test_an_open_path_that_anothers_closed_path_needs_beside_it_is_asked_each_time() -> None:
    network, source, other = Network(LAB), a_workload("client"), a_workload("other")
    opened = [path(source, f"192.168.1.{number}", want=True) for number in range(4)]
    beside = [path(other, host, want=True) for host in ("192.168.1.7", "192.168.1.8", SERVER.host)]
    closed = path(source, SERVER.host, want=False)
    network.says(source, SERVER, never)
    decided(network, [*opened, *beside, closed])
    until = closed.tries[-1].asked
    *others, needed = (
        [attempt.asked for attempt in one.tries if attempt.asked <= until] for one in beside
    )
    assert max(after - before for before, after in pairwise(needed)) <= PATIENCE.poll_every + 0.01
    assert all(len(asked) < len(needed) for asked in others)


def test_a_few_answers_may_be_owed() -> None:
    network, source = Network(LAB, round_trip=0.45), a_workload("client")
    network.says(source, SERVER, never)
    standings = decided(
        network, [path(source, OTHER.host, want=True), path(source, SERVER.host, want=False)]
    )
    assert all(isinstance(standing, Held) for standing in standings)
    assert max(gaps(network, source)) <= PATIENCE.poll_every


def test_what_is_not_answered_for_a_second_is_taken_for_lost() -> None:
    network, source = Network(LAB), a_workload("client")
    opened = [path(source, f"192.168.1.{number}", want=True) for number in range(5)]
    for one in opened:
        one.attempt = replace(one.attempt, give_up_after=3.0)
        assert one.attempt.target is not None
        network.says(source, one.attempt.target, outage((0.02, 60.0)))
    decided(network, opened, about_denial=True)
    assert all(BEHIND <= pause <= BEHIND + 2 * LOOK for pause in gaps(network, source)[2:5])


def test_with_a_real_clusters_timings_open_paths_agree_as_fast_from_windows_as_from_linux() -> None:
    timings = load_timings()
    assert timings.windows.open_every == timings.linux.open_every == timings.linux.poll_every
    assert timings.windows.open_every < timings.windows.poll_every


def test_rounds_that_change_a_cluster_keep_the_cadence_of_their_system() -> None:
    for patience in (load_timings().linux, load_timings().windows):
        assert patience.agree_every == patience.poll_every


@pytest.mark.parametrize(("late", "pause"), [(0.1, 0.25), (0.3, 0.6), (0.8, 1.0)])
def test_an_agent_that_answers_late_is_asked_less_often(late: float, pause: float) -> None:
    timings = load_timings()
    patience, source = timings.windows, a_workload("client", "windows")
    network = Network(timings, late=lambda: late)
    one = a_path(timings, source, target(SERVER.host), want=True)
    (standing,) = ask(
        network.asking(), [one], cadence={source.uid: patience.poll_every}, settle=1.0,
        clock=network.clock, agreeing={source.uid: patience.open_every},
    )  # fmt: skip
    assert isinstance(standing, Held)
    asked = [attempt.asked for attempt in one.tries]
    assert [later - sooner for sooner, later in pairwise(asked)] == pytest.approx(
        [pause] * 2, abs=0.02
    )


def crossed(count: int) -> tuple[Network, list[Path]]:
    """Every pod to every server, half of the paths closed, with answers that come one by one."""
    chance = random.Random(count)
    network = Network(LAB, late=lambda: chance.uniform(0.0, 0.02))
    paths = []
    for number in range(count):
        source = a_workload(f"pod-{number}")
        for other in range(count):
            host, want = f"192.168.1.{other}", (number + other) % 2 == 0
            network.says(source, target(host), always if want else never)
            paths.append(path(source, host, want=want))
    return network, paths


def test_a_route_is_judged_anew_for_its_own_answers_and_not_for_each_of_its_controls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged = Counter[int]()

    def judge(judged_path: Path) -> Standing:
        judged[id(judged_path)] += 1
        return decide(judged_path)

    monkeypatch.setattr("conformance.expect.engine.ask.decide", judge)
    network, paths = crossed(12)
    assert all(isinstance(standing, Held) for standing in decided(network, paths))
    for judged_path in paths:
        assert judged[id(judged_path)] <= len(judged_path.tries) + 2, (
            "once at the beginning, and once for each answer"
        )


def test_the_work_for_an_attempt_does_not_grow_with_the_routes_that_are_open_times_those_that_are_closed() -> (
    None
):
    assert calls_per_attempt(16) < 2 * calls_per_attempt(8), "four times as many paths"


def calls_per_attempt(count: int) -> float:
    """Functions that the engine calls, which do not depend on the machine as seconds do."""
    network, paths = crossed(count)
    calls = 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and "/conformance/expect/" in frame.f_code.co_filename

    sys.setprofile(profile)
    try:
        standings = decided(network, paths)
    finally:
        sys.setprofile(None)
    assert all(isinstance(standing, Held) for standing in standings)
    return calls / len(network.begun)


def test_a_time_out_without_a_control_is_judged_anew_when_one_is_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network, source, friend = Network(LAB), a_workload("client"), a_workload("friend")
    network.says(source, SERVER, never)
    network.says(friend, SERVER, outage((0.0, 0.84)))
    closed = path(source, SERVER.host, want=False)
    paths = [path(source, BYSTANDER.host, want=True), path(friend, SERVER.host, want=True), closed]
    judged: list[tuple[float, Standing]] = []

    def judge(judged_path: Path) -> Standing:
        standing = decide(judged_path)
        if judged_path is closed:
            judged.append((round(network.clock.now, 3), standing))
        return standing

    monkeypatch.setattr("conformance.expect.engine.ask.decide", judge)
    assert all(isinstance(standing, Held) for standing in decided(network, paths))
    alone = {moment: standing.alone for moment, standing in judged if isinstance(standing, NotYet)}
    assert (alone[0.802], alone[0.854]) == (True, False), (
        "its time-out, and the answer of the control begun at 0.752"
    )


def test_nothing_is_waited_for_once_an_end_is_lost_and_other_paths_go_on() -> None:
    network, source = Network(LAB), a_workload("client")
    network.says(source, SERVER, never)
    network.says(source, OTHER, outage((0.0, 12.0)))
    gone, other = (path(source, host, want=True) for host in (SERVER.host, OTHER.host))
    for one in (gone, other):
        one.rule = replace(one.rule, within=60.0)
    link([gone, other])
    asked: list[tuple[float, int]] = []

    def lost(paths: Sequence[Path]) -> list[Path]:
        asked.append((round(network.clock.now), len(paths)))
        return [gone]

    found = ask(
        network.asking(), [gone, other], cadence={source.uid: PATIENCE.poll_every}, settle=1.0, clock=network.clock,
        lost=lost,
    )  # fmt: skip
    assert found[0] == Wrong(Why.CLOSED)
    assert isinstance(found[1], Held)
    assert network.clock.now < 15.0
    assert asked == [(10, 2)]


@dataclass
class SmallAlone(Network):
    """A network in which a denial holds for small datagrams, or for large ones, alone."""

    denied: tuple[bool, ...] = (True, False)
    """Whether datagrams of each of these sizes vanish on the way to the server: small ones, and large ones."""

    def outcome(self, attempt: Attempt, begun: float) -> tuple[float, Verdict]:
        ends, verdict = super().outcome(attempt, begun)
        if (
            attempt.target == SERVER
            and attempt.source.pod == "client"
            and self.denied[attempt.request == LARGE]
        ):
            return begun + attempt.give_up_after, Verdict.TIMED_OUT
        return ends, verdict


@pytest.mark.parametrize(
    ("denied", "holds"), [((True, True), True), ((True, False), False), ((False, True), False)]
)
def test_a_denial_holds_for_large_datagrams_as_for_small_ones(
    denied: tuple[bool, ...], holds: bool
) -> None:
    network = SmallAlone(LAB, denied=denied)
    source, friend = a_workload("client"), a_workload("friend")

    def over_udp(source: Workload, host: str, *, want: bool) -> Path:
        made = path(source, host, want=want)
        made.attempt = replace(made.attempt, kind=Kind.UDP)
        made.rule = made.rule.for_single_packets(made.attempt.give_up_after)
        return made

    paths = [
        over_udp(source, OTHER.host, want=True),
        over_udp(friend, SERVER.host, want=True),
        over_udp(source, SERVER.host, want=False),
    ]
    *_, standing = decided(network, paths)
    assert isinstance(standing, Held) if holds else standing == Wrong(Why.OPEN)
    sizes = {
        attempt.request
        for _, attempt in network.begun
        if attempt.target == SERVER and attempt.source == source
    }
    assert len(sizes) == 2
    assert {attempt.request for _, attempt in network.begun if attempt.source == friend} == {"/"}
