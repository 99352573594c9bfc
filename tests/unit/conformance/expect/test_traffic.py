# SPDX-License-Identifier: Apache-2.0
"""An expectation passes only on the result that it names; a broken control or probe is never a
denial."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import pytest

from conformance.errors import (
    ControlBroken,
    EnvironmentBroken,
    Nonconformance,
    UsageProblem,
)
from conformance.expect.case import Paths
from conformance.expect.context import Context
from conformance.expect.figures import PolicyChange
from conformance.expect.traffic import Expect
from conformance.model.endpoint import Addressing
from conformance.model.observation import Verdict
from conformance.settings import load_timings
from tests.unit.conformance.builders import an_expect
from tests.unit.conformance.expect.conftest import Make
from tests.unit.conformance.expect.denial import blocked
from tests.unit.conformance.expect.stand_in_world import StandInWorld
from tests.unit.conformance.expect.stand_ins import (
    ScriptedProber,
    observation,
    target,
)
from tests.unit.conformance.expect.traffic import (
    BESIDE,
    DROPPED,
    FRIEND,
    ONLY_FRIENDS,
    REFUSED,
    SERVER,
    STRANGER,
    UP,
    beside,
    by_name,
    opened,
    own,
)


def test_an_expectation_that_asks_nothing_is_refused(expect: Make) -> None:
    asks: list[Callable[[Expect], object]] = [
        lambda one: one.reachable([], because="x"),
        lambda one: one.control(FRIEND, [], because="x"),
        lambda one: one.answers([], because="x"),
        lambda one: one.matrix(),
        lambda one: one.under(),
        lambda one: one.sources(are=own),
        lambda one: one.matrix(Paths([], open=True, because="x")),
    ]
    for ask in asks:
        with pytest.raises(UsageProblem, match="the expectation has no path"):
            ask(expect(friend=[UP]))


def test_a_connection_that_agrees_three_times_is_reachable(expect: Make) -> None:
    last = expect(friend=[UP]).reachable(FRIEND, SERVER, because="nothing forbids it")
    assert [seen.verdict for seen in last] == [UP]


@pytest.mark.parametrize("changed", [True, False])
def test_a_failure_says_how_felix_fares_on_both_ends_nodes(changed: bool) -> None:
    asked: list[tuple[Sequence[str], float, bool]] = []

    def felix(nodes: Sequence[str], seconds: float, unwell_only: bool) -> list[str]:
        asked.append((nodes, seconds, unwell_only))
        return [f"{node}: calico-node-x Ready, 2 restarts" for node in nodes]

    change = (
        PolicyChange(what="ns/allow-friend", at=time.monotonic() - 5, enforced_at="target")
        if changed
        else None
    )
    prober = ScriptedProber({"stranger": [DROPPED]})
    told = "Felix     windows-1: calico-node-x Ready, 2 restarts; linux-1: calico-node-x Ready, 2 restarts"
    expect = an_expect(prober, "POL-1", world=StandInWorld(felix=felix, change=lambda: change))
    with pytest.raises(Nonconformance, match=told):
        expect.reachable(STRANGER, FRIEND.tcp(80), because="allowed")
    ((nodes, seconds, unwell_only),) = asked
    assert (nodes, unwell_only) == (["windows-1", "linux-1"], not changed)
    assert seconds == pytest.approx(15 if changed else 60, abs=5)


def test_a_single_connection_among_drops_is_not_reachable(expect: Make) -> None:
    wavering = expect(friend=[UP, DROPPED, UP, UP, DROPPED, DROPPED])
    with pytest.raises(
        Nonconformance,
        match=r"expected CONNECTED, observed TIMED_OUT \d+ times(?s:.*)path +ns/friend ",
    ):
        wavering.reachable(FRIEND, SERVER, because="nothing forbids it")


@pytest.mark.parametrize(
    ("path", "is_waited_for"),
    [
        (Addressing.POD_IP, False),
        (Addressing.CLUSTER_IP, True),
        (Addressing.NODE_PORT, True),
        (Addressing.NAME, True),
    ],
)
def test_a_service_is_given_the_time_that_kube_proxy_needs_and_a_pod_is_not(
    path: Addressing, is_waited_for: bool
) -> None:
    packaged = load_timings()
    prober = ScriptedProber({})
    slow = replace(packaged.linux, policy_effect=4.0, service_effect=40.0)
    prober.answers = {
        "friend": [
            lambda attempt, _: observation(attempt, UP if prober.clock.now > 20.0 else DROPPED)
        ]
    }
    expect = Expect(
        prober, replace(packaged, linux=slow), Context(claims=("CONN-4",)), prober.clock
    )
    held: AbstractContextManager[object] = (
        nullcontext()
        if is_waited_for
        else pytest.raises(Nonconformance, match="expected CONNECTED, observed TIMED_OUT")
    )
    with held:
        expect.reachable(FRIEND, replace(SERVER, path=path), because="kube-proxy sends it on")


def test_a_failure_by_name_says_where_the_name_leads(expect: Make) -> None:
    with pytest.raises(
        Nonconformance, match=r"observed TIMED_OUT, and the name leads to 203\.0\.113\.9"
    ):
        expect(friend=[by_name("203.0.113.9")]).reachable(FRIEND, target("web.ns.svc"), because="x")


def test_a_matrix_names_the_wrong_cell_and_shows_both_sides(expect: Make) -> None:
    with pytest.raises(Nonconformance) as failed:
        opened(expect(friend=[DROPPED], stranger=[DROPPED])).matrix(*ONLY_FRIENDS)
    text = str(failed.value)
    assert "ns/friend" in text.splitlines()[1]
    assert [line for line in text.splitlines() if line.endswith("<---- WRONG")] == [
        line for line in text.splitlines() if line.startswith("ns/friend")
    ]


def test_a_path_that_was_never_open_is_a_broken_control_and_no_violation(expect: Make) -> None:
    with pytest.raises(
        ControlBroken, match=r"POL-1: .*: control failed: expected CONNECTED(?s:.*)path +ns/friend "
    ):
        expect(friend=[DROPPED]).control(FRIEND, SERVER, because="no policy is in force yet")


def test_every_source_goes_to_every_target(expect: Make) -> None:
    expectation = expect(friend=[UP], stranger=[UP])
    expectation.reachable(
        [FRIEND, STRANGER], [SERVER, target("192.168.0.10")], because="nothing forbids it"
    )
    assert isinstance(expectation.prober, ScriptedProber)
    assert expectation.prober.batches[0] == ["friend", "friend", "stranger", "stranger"]


def test_the_matrix_is_kept_with_a_success_too(expect: Make, attached: dict[str, str]) -> None:
    expect(friend=[UP], stranger=[UP]).reachable(
        [FRIEND, STRANGER], SERVER, because="nothing forbids it"
    )
    assert attached["matrix"].count("CONNECTED | CONNECTED") == 2


def test_a_path_that_another_runs_change_may_have_lost_is_not_decided(expect: Make) -> None:
    lost, runs = beside(expect(friend=[DROPPED]))
    with pytest.raises(
        EnvironmentBroken, match="run other is changing the cluster: gives every"
    ) as broken:
        lost.reachable(FRIEND, SERVER, because="nothing forbids it")
    assert "wait until that run has ended" in str(broken.value)
    assert runs.asked == [
        [FRIEND.node, ""]
    ]  # whoever answers at that address is on no node that is known
    assert runs.looks


@pytest.mark.parametrize("arrived", [UP, REFUSED])
def test_another_runs_change_excuses_no_leak(expect: Make, arrived: Verdict) -> None:
    leaks, runs = beside(opened(expect(friend=[UP], stranger=[arrived])))
    with pytest.raises(Nonconformance, match=f"observed {arrived}"):
        blocked(leaks, STRANGER, SERVER, because="a policy forbids it", beside=BESIDE)
    assert runs.asked == []


def test_another_runs_change_is_not_asked_about_while_all_is_well(expect: Make) -> None:
    well, runs = beside(expect(friend=[UP]))
    well.reachable(FRIEND, SERVER, because="nothing forbids it")
    assert (runs.asked, runs.looks) == ([], 0)
