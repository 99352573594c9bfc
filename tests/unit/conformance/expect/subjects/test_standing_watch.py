# SPDX-License-Identifier: Apache-2.0
"""The standing watch: VIOLATED with the node and the second if a path opens, silent about paths
that the run itself removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from conformance.errors import ControlBroken, EnvironmentBroken, Nonconformance
from conformance.expect.context import Context, Sink
from conformance.expect.owners import ForeignPolicyView, NoForeignChanges
from conformance.expect.subjects.standing_watch import (
    Edit,
    Kept,
    StandingWatch,
    Turns,
    Watched,
    Way,
)
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt, Kind
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.observation import Verdict
from conformance.policy.foreign import ForeignPolicy
from conformance.settings import load_timings
from tests.unit.conformance.builders import a_workload
from tests.unit.conformance.expect.stand_in_world import StandInWorld
from tests.unit.conformance.expect.stand_ins import ScriptedProber, observation
from tests.unit.conformance.expect.subjects.test_service_source import facts
from tests.unit.conformance.expect.subjects.test_service_source import node as node_facts

UP, DROPPED, LOST = Verdict.CONNECTED, Verdict.TIMED_OUT, Verdict.UNREACHABLE
PODS = {name: a_workload(name, node=node) for name, node in (
    ("watched-1", "linux-1"), ("free-1", "linux-1"), ("watched-2", "linux-2"), ("free-2", "linux-2"),
)}  # fmt: skip
ENDS: dict[Way, tuple[str, str]] = {
    "in": ("free-2", "watched-1"), "out": ("watched-1", "free-2"), "allowed": ("watched-2", "watched-1"),
    "free": ("free-2", "free-1"),
}  # fmt: skip
BEGAN = 1000.0


def path(
    way: Way,
    *verdicts: Verdict,
    ends: Sequence[str] = (),
    before: bool = True,
    gone: float = 0.0,
    udp: bool = False,
) -> Watched:
    """Asked once a second, with these answers."""
    source, server = (PODS[name] for name in ends or ENDS[way])
    target, kind = (server.udp(8080), Kind.UDP) if udp else (server.tcp(8080), Kind.TCP)
    attempt = Attempt(source=source, target=target, kind=kind, give_up_after=1)
    one = Watched(
        node="linux-1", way=way, attempt=attempt, before=before, gone=gone and BEGAN + gone
    )
    for second, verdict in enumerate(verdicts):
        one.record(BEGAN + second, replace(observation(attempt, verdict), attempt=attempt))
    return one


def watch(
    *,
    opened: Sequence[Verdict] = (DROPPED,) * 60,
    allowed: Sequence[Verdict] = (UP,) * 60,
    free: Sequence[Verdict] = (UP,) * 60,
    turns: Turns = (),
    datagrams: Sequence[Verdict] = (DROPPED,) * 60,
    answered: bool = True,
    before: bool = True,
    gone: float = 0.0,
    unwatched: dict[str, str] | None = None,
    error: str = "",
    foreign: tuple[Edit, ...] = (),
    others: ForeignPolicyView | None = None,
) -> list[Decision]:
    """What is decided of linux-1, whose way in, allowed path and free path answer so."""
    decided: list[Decision] = []
    back = path("allowed", *[UP] * 60, ends=("watched-1", "watched-2"))
    back.node = "linux-2"
    paths = (
        path("in", *opened, before=before, gone=gone), path("out", *[DROPPED] * 60), path("allowed", *allowed),
        path("free", *free), back, path("in", *datagrams, before=answered, udp=True),
        path("out", *[DROPPED] * 60, udp=True),
    )  # fmt: skip
    kept = Kept(
        began=BEGAN, ended=BEGAN + 60, paths=paths, unwatched=unwatched or {}, error=error, foreign=foreign,
        events=((BEGAN + 29.5, "Service web/shop came"), (BEGAN + 5, "Pod web/early went")),
    )  # fmt: skip
    prober = ScriptedProber({})
    context = Context(
        claims=("POL-1",),
        sink=Sink(decided),
        world=StandInWorld(others=others or NoForeignChanges()),
    )
    expect = Expect(prober, load_timings(lab=True), context, prober.clock)
    StandingWatch(expect, facts(node_facts("linux-1", (20348, 2762))), lambda: (kept, turns)).held(
        because="nothing concerned them"
    )
    return decided


def turn(
    test: str, began: float, ended: float, *nodes: str, kind: str = "shared"
) -> dict[str, Any]:
    """Return the turn of a test that ran between these seconds."""
    return {
        "test": f"a.py::{test}",
        "began": BEGAN + began,
        "released": BEGAN + ended,
        "nodes": nodes,
        "kind": kind,
    }


def opens(at: int, seconds: int) -> list[Verdict]:
    return [*[DROPPED] * at, *[UP] * seconds, *[DROPPED] * (60 - at - seconds)]


def test_what_stays_closed_and_open_is_confirmed_for_its_node() -> None:
    (one,) = watch()
    assert (one.target, one.verdict) == ("linux-1", ClaimVerdict.CONFIRMED)
    assert one.reason == "nothing concerned them; probed for 60 s"


def test_a_denied_path_that_opens_is_told_with_the_node_the_second_and_what_happened_then() -> None:
    with pytest.raises(Nonconformance) as told:
        watch(opened=opens(30, 3), turns=[turn("test_x", 20, 33), turn("test_y", 0, 9)])
    first = str(told.value).splitlines()[0]
    assert (
        "policy of node linux-1 was lost in second 30 of the watch (during test_x; Service web/shop came)"
        in first
    )
    assert "observed CONNECTED (3 tries" in first


def test_what_opens_for_datagrams_alone_is_told_and_what_no_datagram_reached_before_shows_nothing() -> (
    None
):
    with pytest.raises(
        Nonconformance, match=r"8080/udp.*policy of node linux-1 was lost in second 30"
    ):
        watch(datagrams=opens(30, 3))
    with pytest.raises(
        ControlBroken, match=r"the path 'in' by UDP .* was not open before the policies"
    ):
        watch(answered=False)


def test_a_single_connection_is_a_note() -> None:
    (one,) = watch(opened=opens(30, 1))
    assert (
        "one connection got through in second 30 of the watch, which alone shows nothing"
        in one.reason
    )


def test_answers_that_are_neither_are_no_opening() -> None:
    assert watch(opened=[*[DROPPED] * 30, *[LOST] * 10, *[DROPPED] * 20])


@pytest.mark.parametrize("nodes", [(), ("linux-1",), ("linux-2",)])
def test_what_opens_while_the_run_had_an_ends_node_is_excused_until_it_was_closed_again(
    nodes: tuple[str, ...],
) -> None:
    drain = turn("drain", 19, 25, *nodes, kind="node" if nodes else "cluster")
    assert watch(opened=opens(20, 15), turns=[drain])


def test_what_opens_on_its_own_beside_a_turn_of_another_node_or_long_after_one_is_not() -> None:
    for node, ended in (("linux-3", 19), ("linux-1", 2)):
        with pytest.raises(Nonconformance, match="second 20"):
            watch(opened=opens(20, 3), turns=[turn("t", 0, ended, node, kind="node")])


def test_what_opens_in_a_pause_and_is_open_when_policy_had_to_be_back_is_wrong_with_its_event() -> (
    None
):
    felix = turn("felix_edit", 19, 25, kind="cluster")
    with pytest.raises(Nonconformance) as told:
        watch(opened=opens(20, 40), turns=[felix])
    first = str(told.value).splitlines()[0]
    assert "policy of node linux-1 was lost in second 20 of the watch (during felix_edit)" in first
    assert "is not back 34 s after felix_edit ended" in first
    again = turn("once_more", 50, 58, kind="cluster")
    assert watch(opened=opens(20, 40), turns=[felix, again])  # the second pause is not over


@pytest.mark.parametrize("opened", [[UP] * 60, opens(20, 40)])
def test_what_is_open_after_a_pause_between_other_pods_than_before_decides_nothing(
    opened: list[Verdict],
) -> None:
    felix = turn("felix_edit", 0, 25, kind="cluster")
    told = "path 'in' of node linux-1 is open 34 s after felix_edit ended, but its pods were"
    with pytest.raises(EnvironmentBroken, match=told):
        watch(opened=opened, turns=[felix], gone=60 if opened[0] is DROPPED else 0)


def test_an_address_that_may_have_been_given_to_another_pod_opens_nothing() -> None:
    assert watch(opened=opens(20, 3), gone=26)
    with pytest.raises(Nonconformance):
        watch(opened=opens(20, 3), gone=50)


def test_a_path_that_was_never_closed_is_wrong_once_there_was_time_for_it() -> None:
    with pytest.raises(Nonconformance, match="policy of node linux-1 was never in force"):
        watch(opened=[UP] * 60)
    with pytest.raises(ControlBroken, match="was never found closed"):
        watch(opened=[*[UP] * 10, *[LOST] * 50])
    assert watch(opened=[*[UP] * 10, *[DROPPED] * 50])


def test_what_looks_closed_before_a_policy_must_be_in_force_is_no_denial() -> None:
    stalled = [UP, UP, DROPPED, DROPPED, DROPPED, UP, UP, UP]
    assert watch(opened=[*stalled, *[DROPPED] * 52])
    with pytest.raises(Nonconformance, match="policy of node linux-1 was never in force"):
        watch(opened=[*stalled, *[UP] * 52])


def test_a_pod_that_came_later_and_was_never_under_policy_is_wrong_too() -> None:
    with pytest.raises(Nonconformance, match="was never in force"):
        watch(opened=[UP] * 60, before=False)


class Judges(NoForeignChanges):
    """Those asked about that name what was seen, and the end that closes it, could give it."""

    def blame(self, policies: Sequence[ForeignPolicy], *way: object, **how: Any) -> str:
        named = f"{way[2]} at {how['at']}"
        return next((f"{one.label} may give {named}" for one in policies if named in one.name), "")


def edit(at: float, could: str) -> Edit:
    """Of a policy that could give what is named so."""
    one = ForeignPolicy(
        kind="GlobalNetworkPolicy", name=could, namespace="", api="", uid="u", version="1", spec={}
    )
    return Edit(at=BEGAN + at, what="it came", policies=(one,))


def test_a_path_that_turned_when_a_policy_of_others_changed_that_could_give_it_decides_nothing() -> (
    None
):
    told = r"nor by this run: GlobalNetworkPolicy .* may give open at target \(it came\); affected"
    with pytest.raises(EnvironmentBroken, match=told):
        watch(opened=opens(30, 3), foreign=(edit(29, "open at target"),), others=Judges())
    shut = [*[UP] * 20, *[DROPPED] * 40]
    with pytest.raises(EnvironmentBroken, match="may give closed at both"):
        watch(allowed=shut, foreign=(edit(19, "closed at both"),), others=Judges())
    own = Edit(at=BEGAN + 3, what="NetworkPolicy ns/in was deleted by another user", policies=())
    with pytest.raises(
        EnvironmentBroken,
        match="nor by this run: NetworkPolicy ns/in was deleted by another user; affected",
    ):
        watch(opened=opens(30, 3), foreign=(own,), others=Judges())
    for other in (
        edit(10, "open at target"),
        edit(29, "open at source"),
        edit(29, "closed at both"),
    ):
        with pytest.raises(Nonconformance, match="was lost in second 30"):
            watch(opened=opens(30, 3), foreign=(other,), others=Judges())
    with pytest.raises(Nonconformance, match="closed a path that it allows"):
        watch(allowed=shut, foreign=(edit(19, "open at target"),), others=Judges())


class Stays(NoForeignChanges):
    """A policy of others that was there all the while, and may give whatever is seen."""

    def excuse(self, *way: object, **how: Any) -> str:
        return "" if how["times"].otherwise is not None else "NetworkPolicy friendly may allow"


def test_a_policy_of_others_that_stayed_excuses_what_was_so_from_the_beginning_and_not_what_turned_so_under_it() -> (
    None
):
    with pytest.raises(EnvironmentBroken, match="NetworkPolicy friendly may allow"):
        watch(opened=[UP] * 60, before=False, others=Stays())
    with pytest.raises(Nonconformance, match="was lost in second 30"):
        watch(opened=opens(30, 3), others=Stays())
    with pytest.raises(Nonconformance, match="closed a path that it allows"):
        watch(allowed=[*[UP] * 20, *[DROPPED] * 40], others=Stays())


def test_a_path_of_which_nothing_more_was_heard_decides_nothing() -> None:
    with pytest.raises(
        EnvironmentBroken,
        match="path 'in' of node linux-1 had its last answer in second 19",
    ):
        watch(opened=[DROPPED] * 20)
    drained = [turn("drain", 15, 58, "linux-1", kind="node")]
    (one,) = watch(opened=[DROPPED] * 20, turns=drained)
    assert "the path 'in' had no answer for 41 s" in one.reason


def test_a_path_that_was_not_open_before_the_policies_shows_nothing() -> None:
    with pytest.raises(ControlBroken, match="was not open before the policies"):
        watch(before=False)


def test_what_is_allowed_may_be_closed_for_a_short_time_which_is_noted() -> None:
    (one,) = watch(allowed=[*[UP] * 30, *[DROPPED] * 5, *[UP] * 25])
    assert "an allowed path was not open for 5.0 s from second 30 of the watch on" in one.reason


def test_what_is_allowed_and_stays_closed_is_wrong_while_what_no_policy_selects_works() -> None:
    shut = [*[UP] * 30, *[DROPPED] * 30]
    with pytest.raises(Nonconformance, match="policy of node linux-1 closed a path that it allows"):
        watch(allowed=shut)
    with pytest.raises(ControlBroken, match="nothing reached node linux-1 for 29"):
        watch(allowed=shut, free=shut)
    with pytest.raises(ControlBroken, match="nothing reached node linux-1 for 29"):
        watch(allowed=shut, free=[UP] * 10)  # nothing was heard of it later
    assert watch(allowed=shut, turns=[turn("drain", 35, 40, kind="cluster")])


def test_a_node_that_somebody_took_away_is_no_violation_but_what_it_let_through_before_is() -> None:
    with pytest.raises(EnvironmentBroken, match="node linux-1 could not be watched: it is gone"):
        watch(unwatched={"linux-1": "it is gone"})
    with pytest.raises(Nonconformance):
        watch(opened=opens(30, 3), unwatched={"linux-1": "it is gone"})


def test_a_source_that_got_through_to_nobody_shows_nothing() -> None:
    with pytest.raises(ControlBroken, match="has a source that reached no server"):
        watch(free=[DROPPED] * 60)


def test_a_watch_that_broke_decides_nothing() -> None:
    with pytest.raises(EnvironmentBroken, match="the standing watch ended early: ApiGone: x"):
        watch(error="ApiGone: x")


def test_a_path_that_opens_is_asked_again_at_once() -> None:
    one = path("in", DROPPED)
    one.due = 7.0
    one.record(BEGAN + 2, observation(one.attempt, UP))
    assert one.due == 0.0
