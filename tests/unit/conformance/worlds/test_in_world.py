# SPDX-License-Identifier: Apache-2.0
"""A world is decided cell by cell: a difference from the oracle is reported with the rule, if it
occurs again."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from conformance.errors import ControlBroken, Nonconformance
from conformance.expect.context import Context, Sink
from conformance.expect.engine.decide import Held
from conformance.expect.engine.path import Path, Rule, Try
from conformance.expect.outcome import Outcome
from conformance.model.attempt import Attempt, Kind
from conformance.model.decision import Decision
from conformance.model.endpoint import Workload
from conformance.model.observation import Verdict as Seen
from conformance.policy import worlds
from conformance.policy.oracle.oracle import Verdict
from conformance.policy.worlds import Seat, World
from conformance.settings import Timings, load_timings
from conformance.worlds.cell_result import CellResult
from conformance.worlds.in_world import NOT_HONOURED, InWorld
from tests.unit.conformance.builders import a_workload
from tests.unit.conformance.expect.network import ROUND_TRIP, Network
from tests.worlds.seats import NAMESPACES, SEATS

TIMINGS = load_timings(lab=True)
SLOW = 0.5
"""s.  A path that takes as long to open is an open one (issue 26)."""
Way = tuple[str, str, str, int]
DENY: dict[str, Any] = {
    "apiVersion": "projectcalico.org/v3",
    "kind": "NetworkPolicy",
    "metadata": {"name": "p0", "namespace": "${a}"},
    "spec": {"types": ["Egress"]},
}
ALLOW = {**DENY, "spec": {"types": ["Egress"], "egress": [{"action": "Allow"}]}}
CLOSED = World("closed", "POL-1", (DENY,))
OPENED = World("opened", "XPOL-12", (DENY,), {"put": ALLOW})


def pod(seat: Seat) -> Workload:
    return a_workload(seat.pod, seat.os, node=seat.node, address=seat.address)  # type: ignore[arg-type]


@dataclass
class Chairs:
    """The pods of the least cluster."""

    at_rest: bool = False
    latencies: list[float] = field(default_factory=list)
    namespaces: dict[str, str] = field(default_factory=lambda: NAMESPACES)
    seats: tuple[Seat, ...] = SEATS

    @property
    def latency(self) -> float:
        return max(self.latencies, default=0.0)

    @property
    def bystanders(self) -> dict[str, Workload]:
        several = (
            Seat("c", os, f"{os}-1", f"c-{os}", f"10.9.0.{len(os)}") for os in worlds.SYSTEMS
        )
        return {seat.node: pod(seat) for seat in several}

    def pod(self, seat: Seat) -> Workload:
        return pod(seat)

    def taken(self) -> list[Decision]:
        return []


@dataclass
class Rig(Network):
    """A cluster in which the world is in force that ``reads`` makes of what is shown."""

    reads: Callable[[Rig], World | None] = lambda rig: rig.now
    dead: Sequence[str] = ()
    """Pods that reach nobody."""
    now: World | None = None
    shown: list[World] = field(default_factory=list)
    """Since it was at rest."""
    clears: int = 0
    at_rest: int = 0
    """Attempts between seats while no world was there."""
    at: float = 0.0
    seats: Chairs = field(default_factory=Chairs)
    kept: list[Decision] = field(default_factory=list)
    asked_in_world: list[tuple[float, Way]] = field(default_factory=list)
    """When pairs of seats were asked while a world was in force."""
    given: dict[tuple[Seen, int], set[float]] = field(default_factory=dict)
    """s.  How long they were given, by what they saw, and how often it was at rest before."""
    _expected: dict[int, dict[Way, Verdict]] = field(default_factory=dict)

    def show(self, world: World) -> str:
        self.now, self.at = world, self.clock.now
        self.shown.append(world)
        return world.name

    def clear(self) -> None:
        self.clears += self.now is not None
        self.now, self.shown = None, []

    def outcome(self, attempt: Attempt, begun: float) -> tuple[float, Seen]:
        assert attempt.target is not None
        passes, world = attempt.source.pod not in self.dead, self.reads(self)
        self.at_rest += self.now is None
        if world is not None and not attempt.source.pod.startswith("c-"):
            protocol = "UDP" if attempt.kind is Kind.UDP else "TCP"
            way = (attempt.source.address, attempt.target.host, protocol, attempt.target.port)
            passes = passes and self.expected(world)[way] is Verdict.ALLOWED
            self.asked_in_world.append((begun, way))
            seen = Seen.CONNECTED if passes else Seen.TIMED_OUT
            self.given.setdefault((seen, self.clears), set()).add(attempt.give_up_after)
        return (
            (begun + ROUND_TRIP, Seen.CONNECTED)
            if passes
            else (begun + attempt.give_up_after, Seen.TIMED_OUT)
        )

    def expected(self, world: World) -> dict[Way, Verdict]:
        if id(world) not in self._expected:
            objects = [
                *worlds.surroundings(world, SEATS, NAMESPACES),
                *world.filled(SEATS, NAMESPACES),
            ]
            self._expected[id(world)] = {
                (
                    cell.source.address,
                    cell.destination.address,
                    cell.protocol,
                    cell.port,
                ): cell.expected
                for cell in worlds.cells(objects, SEATS, world.claim)
            }
        return self._expected[id(world)]


def judged(world: World, timings: Timings = TIMINGS, **how: Any) -> Rig:
    """The rig once it was asked; raises what the world says."""
    rig = Rig(timings, **how)
    context = Context(claims=(world.claim,), sink=Sink(rig.kept))
    ground: Any = rig
    in_world = InWorld(
        rig, timings, context, rig.clock, ground=ground, world=world, replay="pytest --world=x.yaml"
    )
    try:
        in_world.holds(because="so it is")
    except Exception as error:
        error.rig = rig  # type: ignore[attr-defined]
        raise
    finally:
        assert rig.now is None, "it ends at rest"
    return rig


def verdicts(rig: Rig) -> set[tuple[str, str]]:
    return {(one.claim, str(one.verdict)) for one in rig.kept}


@pytest.mark.parametrize("world", [CLOSED, OPENED], ids=lambda world: world.name)
def test_what_is_as_the_oracle_says_is_confirmed_for_the_worlds_claim(world: World) -> None:
    rig = judged(world)
    assert verdicts(rig) == {(world.claim, "CONFIRMED")}
    assert any("NetworkPolicy" in one.reason for one in rig.kept)
    assert {half for one in rig.kept for half in one.halves} >= {"open"}


def test_a_cell_that_is_otherwise_from_rest_too_is_violated_by_the_rule_that_closes_it() -> None:
    with pytest.raises(Nonconformance) as caught:
        judged(CLOSED, reads=lambda rig: None)
    rig, told = caught.value.rig, str(caught.value)  # type: ignore[attr-defined]
    assert rig.clears == 2
    assert verdicts(rig) == {("POL-1", "VIOLATED"), ("POL-1", "CONFIRMED")}
    assert "expected TIMED_OUT, observed CONNECTED" in told.partition("\n")[0]
    assert f"NetworkPolicy {NAMESPACES['a']}/p0" in told.partition("\n")[0]
    assert "pytest --world=x.yaml" in told
    assert len(told.splitlines()) <= 12


def test_what_is_wrong_after_an_edit_alone_is_an_edit_that_is_not_honoured() -> None:
    with pytest.raises(Nonconformance, match=NOT_HONOURED) as caught:
        judged(OPENED, reads=lambda rig: rig.shown[0] if rig.shown else None)
    kept = caught.value.rig.kept  # type: ignore[attr-defined]
    wrong = [
        one.reason for one in kept if str(one.verdict) == "VIOLATED" and one.claim == "XPOL-12"
    ]
    assert wrong
    assert all(
        re.search(f"-> .*expected CONNECTED, observed .*{NOT_HONOURED}", reason) for reason in wrong
    )


def egress(*rules: dict[str, Any]) -> dict[str, Any]:
    return {
        **DENY,
        "spec": {"types": ["Egress"], "egress": [{"action": "Allow", **rule} for rule in rules]},
    }


SHUT = World("shut", "XPOL-12", (egress({"protocol": "UDP"}),), {"put": DENY})
"""TCP is closed before the edit, and UDP by it."""


def test_an_edit_that_closes_is_seen_though_it_comes_late() -> None:
    rig = judged(
        SHUT,
        reads=lambda rig: rig.shown[0] if rig.shown and rig.clock.now < rig.at + 0.9 else rig.now,
    )
    assert verdicts(rig) == {("XPOL-12", "CONFIRMED")}


def test_an_edit_that_comes_late_and_opens_what_was_closed_is_not_honoured() -> None:
    wrong = World("wrong", "XPOL-12", (egress({"protocol": "TCP"}),))

    def late(rig: Rig) -> World | None:
        if len(rig.shown) < 2:
            return rig.now
        return rig.shown[0] if rig.clock.now < rig.at + 0.9 else wrong

    with pytest.raises(Nonconformance, match=NOT_HONOURED):
        judged(SHUT, reads=late)


def test_what_is_not_so_again_from_rest_decides_nothing() -> None:
    with pytest.raises(ControlBroken):
        judged(CLOSED, reads=lambda rig: rig.now if rig.clears else None)


def test_where_a_bystander_is_dead_no_denial_is_believed() -> None:
    with pytest.raises(ControlBroken):
        judged(CLOSED, dead=["c-linux"])


def test_nor_is_a_difference_beside_it() -> None:
    with pytest.raises(Nonconformance) as caught:
        judged(CLOSED, reads=lambda rig: None, dead=["c-linux"])
    kept = caught.value.rig.kept  # type: ignore[attr-defined]
    assert {
        str(one.verdict) for one in kept if one.source == "linux-1" and "closed" in one.halves
    } == {"INCONCLUSIVE"}


def rules(destination: dict[str, Any]) -> World:
    """A world in which TCP 8080 is closed, by what Windows leaves out or by what it enforces."""
    denied = {"action": "Deny", "protocol": "TCP", "destination": destination}
    policy = {**DENY, "spec": {"types": ["Egress"], "egress": [denied, {"action": "Allow"}]}}
    return World("left-out", "POL-1", (policy,), beside=("XPOL-1",))


def test_cells_in_which_windows_departs_are_those_of_the_departures_claim() -> None:
    assert verdicts(judged(rules({"notPorts": [80]}))) == {
        ("POL-1", "CONFIRMED"),
        ("XPOL-1", "CONFIRMED"),
    }


def test_a_departure_that_is_gone_is_said_for_its_claim_and_reddens_no_other() -> None:
    promised = rules({"ports": [8080]})
    rig = judged(rules({"notPorts": [80]}), reads=lambda rig: promised if rig.now else None)
    assert verdicts(rig) == {("POL-1", "CONFIRMED"), ("XPOL-1", "LIFTED")}


def test_a_pair_that_is_not_open_at_rest_decides_nothing() -> None:
    with pytest.raises(ControlBroken, match="control before the world closed failed"):
        judged(CLOSED, dead=["a-linux"])


def test_the_rest_after_a_world_is_the_one_before_the_next() -> None:
    first = judged(CLOSED)
    second = judged(CLOSED, seats=first.seats)
    cells = len(list(worlds.ways(SEATS)))
    assert first.at_rest - second.at_rest == cells
    assert second.at_rest == cells


def test_a_pod_that_broke_between_two_worlds_closes_nothing() -> None:
    with pytest.raises(ControlBroken, match="control after the world closed failed") as caught:
        judged(CLOSED, seats=Chairs(at_rest=True), dead=["a-linux"])
    assert not caught.value.rig.seats.at_rest  # type: ignore[attr-defined]
    assert "CONFIRMED" not in {verdict for _, verdict in verdicts(caught.value.rig)}  # type: ignore[attr-defined]


def asked_of(rig: Rig, world: World, expected: Verdict) -> list[float]:
    """s.  When pairs of which the world expects so were asked while it was there, from its change on."""
    ways = {way for way, verdict in rig.expected(world).items() if verdict is expected}
    return [begun - rig.at for begun, way in rig.asked_in_world if way in ways]


def test_what_is_open_is_asked_while_the_last_attempts_at_closed_paths_are_waited_for() -> None:
    rig = judged(CLOSED)
    opened, closed = asked_of(rig, CLOSED, Verdict.ALLOWED), asked_of(rig, CLOSED, Verdict.DENIED)
    assert min(opened) >= max(closed)
    assert max(opened) < max(closed) + TIMINGS.linux.tcp_give_up
    assert len(opened) == 2 * sum(
        verdict is Verdict.ALLOWED for verdict in rig.expected(CLOSED).values()
    )


def test_what_is_open_is_asked_again_when_policies_may_have_taken_as_long_as_before() -> None:
    slow = judged(CLOSED, reads=lambda rig: rig.now if rig.clock.now >= rig.at + 3 else None)
    (took,) = slow.seats.latencies
    assert 3 <= took < 3.5
    opened = asked_of(judged(CLOSED, seats=slow.seats), CLOSED, Verdict.ALLOWED)
    assert sum(moment >= 2 * took for moment in opened) == len(opened) // 2 > 0


@pytest.mark.parametrize("timings", [TIMINGS, load_timings(lab=False)], ids=["lab", "cluster"])
def test_tries_at_closed_paths_are_shorter_and_closer_than_elsewhere_and_see_a_second_packet(
    timings: Timings,
) -> None:
    rig = judged(CLOSED, timings)
    systems = [timings.linux, timings.windows]
    shorter = [one.tcp_give_up - (one.tcp_give_up - one.syn_again) / 4 for one in systems]
    assert rig.given[Seen.TIMED_OUT, 0] == set(shorter)
    assert all(
        max(one.syn_again, SLOW) < given < one.tcp_give_up
        for one, given in zip(systems, shorter, strict=True)
    )
    assert rig.given[Seen.CONNECTED, 0] == {
        one.give_up(kind) for one in systems for kind in (Kind.TCP, Kind.HTTP, Kind.UDP)
    }
    moments: dict[Way, list[float]] = {}
    for begun, way in rig.asked_in_world:
        if rig.expected(CLOSED)[way] is Verdict.DENIED:
            moments.setdefault(way, []).append(begun)
    assert all(len(several) >= 3 for several in moments.values())
    spans = [several[-1] - several[0] for several in moments.values()]
    assert (
        min(one.agree_span for one in systems) / 2
        <= min(spans)
        < min(one.agree_span for one in systems)
    )
    assert max(spans) < max(one.agree_span for one in systems) + min(
        one.poll_every for one in systems
    )


def test_a_difference_is_asked_from_rest_with_all_patience() -> None:
    with pytest.raises(ControlBroken) as caught:
        judged(CLOSED, reads=lambda rig: rig.now if rig.clears else None)
    rig = caught.value.rig  # type: ignore[attr-defined]
    assert rig.given[Seen.TIMED_OUT, 1] == {TIMINGS.linux.tcp_give_up}
    ways = rig.expected(CLOSED)
    again = sorted(
        begun for begun, way in rig.asked_in_world if begun > rig.at and ways[way] is Verdict.DENIED
    )
    assert again[-1] - again[0] >= TIMINGS.linux.agree_span + TIMINGS.linux.hold


def test_after_an_edit_the_node_is_named_that_differs_from_its_peers() -> None:
    """Without the peers, which were asked with the wrong paths, both ends would be named."""
    one = egress({"destination": {"nets": ["${b.windows}/32"]}})
    stale = {**DENY, "metadata": {"name": "p1", "namespace": "${a}"}}
    stale["spec"] = {"selector": "os == 'linux'", **DENY["spec"]}
    fresh = {**one, "spec": {"selector": "os == 'windows'", **one["spec"]}}
    wrong = World("wrong", "XPOL-12", (stale, fresh))
    with pytest.raises(Nonconformance, match="linux-1 closes what the policy allows") as raised:
        judged(
            World("edited", "XPOL-12", (DENY,), {"put": one}),
            reads=lambda rig: rig.now if len(rig.shown) < 2 else wrong,
        )
    assert " or windows-1" not in str(raised.value)


def test_what_a_test_holds_is_described_in_a_few_lines_when_it_is_interrupted() -> None:
    """Pytest describes every argument of every call at Ctrl-C, however long that takes."""
    attempt = Attempt(
        source=pod(SEATS[0]), target=pod(SEATS[1]).tcp(80), kind=Kind.HTTP, give_up_after=1.0
    )
    rule = Rule.of(TIMINGS.linux, [TIMINGS.linux], within=1.0)
    bystander = Path(attempt, True, rule)
    path = Path(attempt, False, rule, controls=((bystander,), (bystander,)))
    (cell, *_) = worlds.cells(worlds.surroundings(CLOSED, SEATS, NAMESPACES), SEATS, "POL-1")
    result = CellResult(cell, Outcome(path, Held(()), False))
    alone = len(repr(result))
    bystander.tries = [Try(0.0)] * 1000
    result.peers = [CellResult(cell, Outcome(path, Held(()), False)) for _ in range(100)]
    assert len(repr(result)) == alone
