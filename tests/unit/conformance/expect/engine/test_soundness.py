# SPDX-License-Identifier: Apache-2.0
"""Whatever a network does to packets for a while: an open path is never decided as closed, and a closed one is.

The network is a script: every packet is sent at 0 and again at ``syn_again``, and time is the script's.  What is done
to the path under test is not done to its controls, which is the harder case, except where a test says so.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import pairwise

import pytest

from conformance.expect.engine.ask import ask
from conformance.expect.engine.decide import BrokenControl, Held, Standing, Wrong
from conformance.expect.engine.path import Path, Why, link
from conformance.model.attempt import Kind
from conformance.model.endpoint import OS, Target, Workload
from conformance.settings import Timings, load_timings
from tests.unit.conformance.builders import a_path, a_workload
from tests.unit.conformance.expect.network import Network, Passes, always, lossy, never, outage
from tests.unit.conformance.expect.stand_ins import target

FIELD, LAB = load_timings(), load_timings(lab=True)
SYSTEMS: list[OS] = ["linux", "windows"]
SEEDS = range(20)
SERVER, OTHER = target("192.168.0.9"), target("192.168.0.8")


def path(
    timings: Timings, source: Workload, goal: Target, *, want: bool, kind: Kind = Kind.TCP
) -> Path:
    made = a_path(timings, source, goal, want=want, kind=kind)
    if kind is Kind.UDP:
        made.rule = made.rule.for_single_packets(made.attempt.give_up_after)
    return made


def decided(network: Network, paths: list[Path]) -> list[Standing]:
    link(paths)
    sources = {item.attempt.source for item in paths}
    cadence = {source.uid: network.timings.of(source.os).poll_every for source in sources}
    return ask(network.asking(), paths, cadence=cadence, settle=1.0, clock=network.clock)


def jitter(seed: int, most: float = 0.02) -> Network:
    chance = random.Random(seed)
    return Network(FIELD, late=lambda: chance.uniform(0.0, most))


def closed(
    network: Network, os: OS, passes: Passes, control: Passes = always, kind: Kind = Kind.TCP
) -> Standing:
    """How a path is decided that is to be closed, beside one of the same source and one to the same target."""
    source, friend = a_workload("stranger", os), a_workload("friend")
    network.says(source, SERVER, passes)
    network.says(source, OTHER, control)
    paths = [
        path(network.timings, source, OTHER, want=True),
        path(network.timings, friend, SERVER, want=True),
        path(network.timings, source, SERVER, want=False, kind=kind),
    ]
    return decided(network, paths)[-1]


def phases(os: OS) -> Iterable[float]:
    """Moments over a whole give-up time and a cadence, closer together than attempts are."""
    patience = FIELD.of(os)
    step = patience.poll_every / 4
    return [
        number * step
        for number in range(int((patience.tcp_give_up + 2 * patience.poll_every) / step))
    ]


@pytest.mark.parametrize("os", SYSTEMS)
@pytest.mark.parametrize("give_ups", [0.5, 1.0, 2.0])
def test_an_outage_of_at_most_two_give_ups_is_no_denial_at_any_phase(
    os: OS, give_ups: float
) -> None:
    for number, begin in enumerate(phases(os)):
        length = give_ups * FIELD.of(os).tcp_give_up
        standing = closed(jitter(number), os, outage((begin, begin + length)))
        assert not isinstance(standing, Held), f"an outage from {begin} s for {length} s"


@pytest.mark.parametrize("os", SYSTEMS)
def test_an_outage_of_two_give_ups_is_no_denial_of_datagrams_which_are_sent_once(os: OS) -> None:
    for number, begin in enumerate(list(phases(os))[::3]):
        lost = outage((begin, begin + 2 * FIELD.of(os).udp_give_up))
        assert not isinstance(closed(jitter(number), os, lost, kind=Kind.UDP), Held), (
            f"from {begin} s on"
        )
    assert isinstance(closed(jitter(0), os, never, kind=Kind.UDP), Held)


def test_a_windows_denial_of_datagrams_waits_for_no_repetition() -> None:
    patience = FIELD.windows
    for seed in SEEDS:
        network = jitter(seed)
        assert isinstance(closed(network, "windows", never, kind=Kind.UDP), Held)
        assert network.clock.now <= patience.agree_span + patience.hold + 2.0 + 0.2, (
            "no system sends a datagram again, so that 2 s show what 5 s would"
        )


@pytest.mark.parametrize("os", SYSTEMS)
def test_outages_of_two_give_ups_that_come_again_and_again_are_no_denial(os: OS) -> None:
    length = 2 * FIELD.of(os).tcp_give_up
    for seed in SEEDS:
        gaps = random.Random(seed)
        moment, spans = 0.0, []
        while moment < 2 * FIELD.of(os).policy_effect:
            spans.append((moment, moment + length))
            moment += length + gaps.uniform(1.1, 3.0) * FIELD.of(os).poll_every
        assert not isinstance(closed(jitter(seed), os, outage(*spans)), Held), f"seed {seed}"


@pytest.mark.parametrize("os", SYSTEMS)
def test_one_packet_lost_in_five_is_no_denial(os: OS) -> None:
    for seed in SEEDS:
        assert not isinstance(closed(jitter(seed), os, lossy(0.2, seed)), Held), f"seed {seed}"


@pytest.mark.parametrize("os", SYSTEMS)
def test_a_path_that_is_open_one_second_in_five_is_no_denial(os: OS) -> None:
    for seed in SEEDS:
        begin = random.Random(seed).uniform(0.0, 5.0)
        standing = closed(
            jitter(seed),
            os,
            lambda moment, begin=begin: (moment - begin) % 5.0 < 1.0,  # type: ignore[misc]
        )
        assert not isinstance(standing, Held), f"open from {begin} s on"


@pytest.mark.parametrize("os", SYSTEMS)
def test_a_policy_that_wears_off_within_span_and_hold_is_no_denial(os: OS) -> None:
    span = FIELD.of(os).agree_span + FIELD.of(os).hold
    for number in range(40):
        ends = span * number / 40
        standing = closed(jitter(number), os, lambda moment, ends=ends: moment >= ends)  # type: ignore[misc]
        assert standing in (Wrong(Why.LEAK), Wrong(Why.OPEN)), f"closed for {ends} s"


@pytest.mark.parametrize("os", SYSTEMS)
def test_a_first_packet_that_is_dropped_while_its_repetition_passes_is_no_denial(os: OS) -> None:
    network = jitter(1)
    first = network.late

    def passes(moment: float) -> bool:
        return not any(abs(moment - begun) < 1e-9 for begun, _ in network.begun)

    assert first is network.late
    assert closed(network, os, passes) == Wrong(Why.OPEN)


@pytest.mark.parametrize("os", SYSTEMS)
@pytest.mark.parametrize("give_ups", [1, 2, 4, 20])
def test_what_takes_the_source_s_network_too_is_no_denial(os: OS, give_ups: int) -> None:
    for number, begin in enumerate(list(phases(os))[::8]):
        lost = outage((begin, begin + give_ups * FIELD.of(os).tcp_give_up))
        assert not isinstance(closed(jitter(number), os, lost, control=lost), Held), (
            f"from {begin} s on"
        )


@pytest.mark.parametrize("os", SYSTEMS)
@pytest.mark.parametrize("give_ups", [0.5, 1, 2])
def test_a_server_that_is_away_is_no_denial(os: OS, give_ups: float) -> None:
    for number, begin in enumerate(list(phases(os))[::3]):
        network = jitter(number)
        away = outage((begin, begin + give_ups * FIELD.of(os).tcp_give_up))
        network.says(a_workload("friend"), SERVER, away)
        assert not isinstance(closed(network, os, away), Held), f"from {begin} s on"


@pytest.mark.parametrize("os", SYSTEMS)
def test_a_source_without_any_network_has_a_broken_control(os: OS) -> None:
    assert closed(jitter(0), os, never, control=never) == BrokenControl(Why.CONTROL)


@pytest.mark.parametrize("os", SYSTEMS)
def test_a_server_that_is_dead_is_a_broken_control(os: OS) -> None:
    network = jitter(0)
    network.says(a_workload("friend"), SERVER, never)
    assert closed(network, os, never) == BrokenControl(Why.CONTROL)


@pytest.mark.parametrize("timings", [FIELD, LAB], ids=["field", "lab"])
@pytest.mark.parametrize("os", SYSTEMS)
def test_a_closed_route_is_decided_and_held_soon(timings: Timings, os: OS) -> None:
    patience = timings.of(os)
    for seed in SEEDS:
        network = jitter(seed)
        network.timings = timings
        standing = closed(network, os, never)
        assert isinstance(standing, Held)
        began = [
            attempt.observation.began
            for attempt in standing.row
            if attempt.observation is not None and attempt.observation.began is not None
        ]
        assert began[-1] - began[0] >= patience.agree_span + patience.hold
        assert len(began) >= patience.agree
        soon = patience.agree_span + patience.hold + patience.tcp_give_up + 0.2
        assert network.clock.now <= soon


def test_a_windows_denial_is_decided_and_held_within_2_6_give_ups() -> None:
    for seed in SEEDS:
        network = jitter(seed)
        assert isinstance(closed(network, "windows", never), Held)
        assert network.clock.now <= 2.6 * FIELD.windows.tcp_give_up


@pytest.mark.parametrize("os", SYSTEMS)
def test_a_closed_route_is_decided_while_one_packet_in_five_of_its_controls_is_lost(os: OS) -> None:
    for seed in SEEDS:
        assert isinstance(closed(jitter(seed), os, never, control=lossy(0.2, seed)), Held), (
            f"seed {seed}"
        )


@pytest.mark.parametrize("os", SYSTEMS)
def test_a_policy_that_takes_effect_late_but_in_time_is_a_denial(os: OS) -> None:
    for number in range(10):
        late = FIELD.of(os).policy_effect * number / 11
        standing = closed(jitter(number), os, lambda moment, late=late: moment < late)  # type: ignore[misc]
        assert isinstance(standing, Held), f"after {late} s"


@pytest.mark.parametrize("os", SYSTEMS)
def test_a_policy_that_takes_effect_too_late_is_none(os: OS) -> None:
    late = FIELD.of(os).policy_effect + FIELD.of(os).tcp_give_up
    assert closed(jitter(0), os, lambda moment: moment < late) == Wrong(Why.OPEN)


def test_agents_begin_at_the_cadence_of_their_own_system() -> None:
    network = jitter(0, most=0.0)
    assert isinstance(closed(network, "windows", never), Held)
    begun = {
        name: [at for at, attempt in network.begun if attempt.source.pod == name]
        for name in ("friend", "stranger")
    }
    for name, os in (("friend", "linux"), ("stranger", "windows")):
        gaps = [later - at for at, later in pairwise(sorted(set(begun[name])))]
        assert max(gaps) == pytest.approx(FIELD.of(os).poll_every)  # type: ignore[arg-type]
    assert network.cancelled == 0 or network.cancelled <= len(network.begun)


@pytest.mark.parametrize("os", SYSTEMS)
@pytest.mark.parametrize("starts", [0.9, 4.3, 20.0])
def test_a_source_whose_attempts_have_not_left_is_asked_no_more_until_they_have(
    os: OS, starts: float
) -> None:
    network = jitter(0, most=0.0)
    network.cold["stranger"] = starts
    assert isinstance(closed(network, os, never), Held)
    early = [
        attempt
        for begun, attempt in network.begun
        if attempt.source.pod == "stranger" and begun <= starts
    ]
    assert len(early) == 2, "one for each of its paths"
    patience = FIELD.of(os)
    assert (
        network.clock.now
        <= starts + patience.agree_span + patience.hold + patience.tcp_give_up + 0.4
    )


@pytest.mark.parametrize("os", SYSTEMS)
def test_a_route_that_opens_is_decided_without_waiting_for_packets_that_left_before(os: OS) -> None:
    network, source, opens = jitter(0, most=0.0), a_workload("client", os), 0.1
    network.says(source, SERVER, lambda moment: moment > opens)
    (standing,) = decided(network, [path(FIELD, source, SERVER, want=True)])
    assert isinstance(standing, Held)
    patience = FIELD.of(os)
    assert network.clock.now <= opens + patience.agree * patience.poll_every + 0.1


@pytest.mark.parametrize("os", SYSTEMS)
def test_a_change_that_opens_is_asked_again_after_100_ms_whatever_waits(os: OS) -> None:
    network, source, opens = jitter(0, most=0.0), a_workload("client", os), 0.05
    network.says(source, SERVER, lambda moment: moment > opens)
    one = path(FIELD, source, SERVER, want=True)
    patience = FIELD.of(os)
    (standing,) = ask(
        network.asking(), [one], cadence={source.uid: patience.poll_every}, settle=1.0, clock=network.clock,
        about_denial=True, agreeing={source.uid: patience.agree_every},
    )  # fmt: skip
    assert isinstance(standing, Held)
    assert one.tries[1].asked == pytest.approx(0.1, abs=0.01)
    assert one.first_right <= 0.11, "the first attempt's SYN is sent again much later"


@pytest.mark.parametrize("os", SYSTEMS)
def test_a_route_that_closes_again_before_it_was_seen_open_often_enough_is_not_open(os: OS) -> None:
    network, source = jitter(0, most=0.0), a_workload("client", os)
    begins = FIELD.of(os).poll_every / 2
    ends = begins + (FIELD.of(os).agree - 1) * FIELD.of(os).poll_every
    network.says(source, SERVER, lambda moment: begins < moment < ends)
    assert decided(network, [path(FIELD, source, SERVER, want=True)]) == [Wrong(Why.CLOSED)]


def test_an_open_route_that_is_decided_stays_so_whatever_becomes_of_what_was_begun_meanwhile() -> (
    None
):
    network, early, slow = jitter(0, most=0.0), a_workload("stranger"), a_workload("friend")

    def repetitions_of_the_first_three(moment: float) -> bool:
        return 0.9 < moment < 1.6 and not any(
            abs(moment - begun) < 1e-9
            for begun, attempt in network.begun[-1:]
            if attempt.source == early
        )

    network.says(early, SERVER, repetitions_of_the_first_three)
    network.says(slow, SERVER, lambda moment: moment > 8.0)
    paths = [path(FIELD, slow, SERVER, want=True), path(FIELD, early, SERVER, want=True)]
    assert all(isinstance(item, Held) for item in decided(network, paths))


@pytest.mark.parametrize("os", SYSTEMS)
@pytest.mark.parametrize("budgets", [1.5, 3.0])
def test_an_agent_that_starts_after_the_budget_leaves_it_whole(os: OS, budgets: float) -> None:
    network, source = jitter(0), a_workload("stranger", os)
    network.cold["stranger"] = budgets * FIELD.of(os).policy_effect
    (standing,) = decided(network, [path(FIELD, source, SERVER, want=True)])
    assert isinstance(standing, Held)
    assert isinstance(closed(network, os, never), Held)
    assert not isinstance(closed(network, os, always), Held)
