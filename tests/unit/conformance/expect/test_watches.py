# SPDX-License-Identifier: Apache-2.0
"""One denial per node and direction is watched: a denial that ends, or that drops only first
SYNs, is no denial."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from conformance.errors import Nonconformance
from conformance.expect.case import Case
from conformance.expect.context import Context, Pace
from conformance.expect.engine.ask import ask
from conformance.expect.engine.decide import Held, Standing, Wrong
from conformance.expect.engine.path import Why, link
from conformance.expect.figures import PolicyChange
from conformance.expect.traffic import Expect
from conformance.expect.watches import choose, watching
from conformance.model.decision import Side
from conformance.model.endpoint import OS, Target
from conformance.settings import Timings, load_timings
from tests.unit.conformance.builders import a_path, a_workload
from tests.unit.conformance.expect.network import Network, Passes, always, never, outage
from tests.unit.conformance.expect.stand_in_world import StandInWorld
from tests.unit.conformance.expect.stand_ins import target

FIELD, LAB = load_timings(), load_timings(lab=True)
SYSTEMS: list[OS] = ["linux", "windows"]


@dataclass
class Turns:
    """The turns that a run has taken, in one process."""

    taken: set[str] = field(default_factory=set)

    def take(self, name: str) -> bool:
        if name in self.taken:
            return False
        self.taken.add(name)
        return True

    def give_back(self, name: str) -> None:
        self.taken.discard(name)


def server(os: OS, name: str = "server", host: str = "192.168.0.9") -> Target:
    return replace(target(host), backends=(a_workload(name, os),))


def watched(
    timings: Timings, os: OS, passes: Passes, control: Passes = always, seed: int = 0
) -> Standing:
    """How a watched path is decided that is to be closed, beside one of the same source and one to the same target."""
    chance = random.Random(seed)
    network = Network(timings, late=lambda: chance.uniform(0.0, 0.02))
    source, goal, other = a_workload("stranger", os), server(os), server(os, "other", "192.168.0.8")
    network.says(source, goal, passes)
    network.says(source, other, control)
    paths = [
        a_path(timings, source, other, want=True),
        a_path(timings, a_workload("friend"), goal, want=True),
        a_path(timings, source, goal, want=False),
    ]
    assert list(choose(paths, Turns(), timings, "target")) == paths[2:]
    link(paths)
    cadence = {
        item.attempt.source.uid: timings.of(item.attempt.source.os).poll_every for item in paths
    }
    return ask(network.asking(), paths, cadence=cadence, settle=1.0, clock=network.clock)[-1]


@pytest.mark.parametrize("timings", [FIELD, LAB], ids=["field", "lab"])
@pytest.mark.parametrize("os", SYSTEMS)
def test_a_denial_that_wears_off_while_it_is_watched_is_none(timings: Timings, os: OS) -> None:
    for number in range(40):
        ends = timings.run.denial_watch * number / 40
        standing = watched(timings, os, lambda moment, ends=ends: moment >= ends, seed=number)  # type: ignore[misc]
        assert standing in (Wrong(Why.LEAK), Wrong(Why.OPEN)), f"closed for {ends} s"


@pytest.mark.parametrize("timings", [FIELD, LAB], ids=["field", "lab"])
@pytest.mark.parametrize("os", SYSTEMS)
def test_a_denial_that_is_open_for_a_moment_while_it_is_watched_is_none(
    timings: Timings, os: OS
) -> None:
    for begins in (
        8.0,
        9.5,
        11.0,
        12.5,
    ):  # s.  Denied long enough before to be agreed, repeated SYNs included
        closed = outage((0.0, begins), (begins + 2.0, 1000.0))
        assert watched(timings, os, closed, seed=int(begins)) == Wrong(Why.LEAK), (
            f"open from {begins} s on"
        )


@pytest.mark.parametrize("os", SYSTEMS)
def test_a_drop_of_first_syns_alone_is_no_denial_whatever_ordinary_attempts_are_given(
    os: OS,
) -> None:
    kernel = (
        replace(LAB.linux, syn_again=1.0),
        replace(LAB.windows, syn_again=1.0),
    )  # as a lab's kernel sends it
    slow = replace(LAB, linux=kernel[0], windows=kernel[1])
    assert LAB.of(os).tcp_give_up < 1.0

    def repeated(moment: float) -> bool:
        return any(abs(moment - begun - 1.0) < 1e-9 for begun in first)

    first: list[float] = []
    network = Network(slow)
    source, goal, other = a_workload("stranger", os), server(os), server(os, "other", "192.168.0.8")
    network.says(source, other, always)

    def passes(moment: float) -> bool:
        if not repeated(moment):
            first.append(moment)
            return False
        return True

    network.says(source, goal, passes)
    paths = [a_path(slow, source, other, want=True), a_path(slow, source, goal, want=False)]
    choose(paths, Turns(), slow, "target")
    link(paths)
    cadence = {source.uid: slow.of(os).poll_every}
    assert ask(network.asking(), paths, cadence=cadence, settle=1.0, clock=network.clock)[
        -1
    ] == Wrong(Why.OPEN)


@pytest.mark.parametrize("os", SYSTEMS)
def test_a_denial_that_lasts_is_watched_to_the_end(os: OS) -> None:
    standing = watched(FIELD, os, never)
    assert isinstance(standing, Held)
    assert standing.watched


@pytest.mark.parametrize("os", SYSTEMS)
def test_a_control_that_is_lost_during_the_watch_takes_no_denial_back(os: OS) -> None:
    decided = FIELD.of(os).agree_span + FIELD.of(os).hold + 2 * FIELD.of(os).poll_every
    standing = watched(FIELD, os, never, control=outage((decided, 1000.0)))
    assert isinstance(standing, Held)
    assert not standing.watched, "another one has to be"


@pytest.mark.parametrize(
    ("side", "turns"),
    [
        ("target", {"denial-target-windows-1"}),
        ("source", {"denial-source-linux-1"}),
        ("both", set()),
    ],
)
def test_one_denial_is_watched_for_each_node_that_enforces_it(side: Side, turns: set[str]) -> None:
    run, goal = Turns(), server("windows")
    paths = [a_path(FIELD, a_workload(name), goal, want=False) for name in ("one", "another")]
    assert len(choose(paths, run, FIELD, side)) == len(turns)
    assert run.taken == turns
    assert not choose(paths, run, FIELD, side), "once"


def test_who_finds_a_leak_leaves_the_watch_to_the_next() -> None:
    run = Turns()
    paths = [a_path(FIELD, a_workload("one"), server("linux"), want=False)]
    for standing, kept in (
        (Wrong(Why.LEAK), False),
        (Held(()), False),
        (Held((), watched=True), True),
    ):
        with watching(paths, run, FIELD, "target") as standings:
            standings.append(standing)
        assert bool(run.taken) is kept


def test_who_is_interrupted_leaves_the_watch_to_the_next() -> None:
    run = Turns()
    paths = [a_path(FIELD, a_workload("one"), server("linux"), want=False)]
    with pytest.raises(KeyboardInterrupt), watching(paths, run, FIELD, "target"):
        raise KeyboardInterrupt
    assert not run.taken


def expecting(wears_off: Callable[[float], float], turns: Turns) -> tuple[Expect, Network]:
    """An expectation about a policy whose denials last so long after the moment at which it was applied."""
    network = Network(FIELD)
    change = PolicyChange(what="policy", at=0.0, enforced_at="target")
    in_force: list[float] = []
    context = Context(
        claims=("POL-1",),
        world=StandInWorld(change=lambda: change if in_force else None),
        pace=Pace(watches=turns),
    )
    expect = Expect(network, FIELD, context, network.clock)

    class Policies:
        def apply(self) -> None:
            began, ends = network.clock.now, wears_off(network.clock.now)
            in_force.append(began)
            network.says(a_workload("client"), server("windows"), lambda moment: moment >= ends)

    other = server("linux", "other", "192.168.0.8")
    expect.change(
        Policies(),
        Case(a_workload("client"), other, open=True, because="no policy selects it"),
        Case(a_workload("client"), server("windows"), open=False, because="nobody enters"),
    )
    return expect, network


def test_an_expectation_says_that_a_denial_wore_off() -> None:
    turns = Turns()
    with pytest.raises(Nonconformance) as raised:
        expecting(lambda now: now + 12.0, turns)
    text = str(raised.value)
    assert "expected TIMED_OUT, observed TIMED_OUT" in text.partition("\n")[0]
    assert "a packet arrived after the path had been closed" in text
    assert turns.taken == set()


def test_an_expectation_watches_once() -> None:
    turns = Turns()
    _, first = expecting(lambda now: 10_000.0, turns)
    _, second = expecting(lambda now: 10_000.0, turns)
    assert first.clock.now >= FIELD.run.denial_watch > second.clock.now
