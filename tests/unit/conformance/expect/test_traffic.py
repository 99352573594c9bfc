# SPDX-License-Identifier: Apache-2.0
"""An expectation passes only on what it names; a broken control or probe is never a denial."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Literal

import pytest

from conformance.errors import (
    ControlBroken,
    EnvironmentBroken,
    Nonconformance,
    ProbeBroken,
    UsageProblem,
)
from conformance.expect.case import Case, Paths
from conformance.expect.context import Context
from conformance.expect.figures import PolicyChange
from conformance.expect.owners import NoForeignChanges
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt, Kind
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.endpoint import Addressing, Pair, Target, Workload
from conformance.model.observation import Observation, Verdict
from conformance.settings import load_timings
from tests.unit.conformance.builders import a_workload, an_expect
from tests.unit.conformance.expect.conftest import Make
from tests.unit.conformance.expect.denial import blocked
from tests.unit.conformance.expect.stand_in_world import StandInWorld
from tests.unit.conformance.expect.stand_ins import (
    BYSTANDER,
    Answer,
    ScriptedProber,
    observation,
    target,
)

FRIEND, STRANGER, SERVER = a_workload("friend"), a_workload("stranger", "windows"), target()
UP, DROPPED, REFUSED = Verdict.CONNECTED, Verdict.TIMED_OUT, Verdict.REFUSED

OWN = (STRANGER, BYSTANDER)
BESIDE: list[Pair | Workload] = [FRIEND, OWN]
"""Who gets to the same server, and where the stranger gets at the same time."""
WHY = "only friends may enter"
ONLY_FRIENDS = (
    Case(FRIEND, SERVER, open=True, because=WHY),
    Case(STRANGER, BYSTANDER, open=True, because=WHY),
    Case(STRANGER, SERVER, open=False, because=WHY),
)
NO_NAT = Case(FRIEND, SERVER, open=True, because="no NAT")


def own(client: Workload) -> list[str]:
    """The only address that a server may see."""
    return ["192.168.0.5"]


def opened(expect: Expect) -> Expect:
    """The same expectations after both paths were seen open; scripts start anew."""
    prober = expect.prober
    assert isinstance(prober, ScriptedProber)
    after, prober.answers = prober.answers, {"friend": [UP], "stranger": [UP]}
    expect.reachable([FRIEND, STRANGER], SERVER, because="no policy is in force yet")
    prober.answers, prober.rounds = after, 0
    return expect


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
        with pytest.raises(UsageProblem, match="an expectation of paths asks nothing"):
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


def test_a_policy_that_takes_effect_late_is_still_a_denial(expect: Make) -> None:
    late = opened(expect(friend=[UP], stranger=[UP, UP, DROPPED]))
    last = blocked(late, STRANGER, SERVER, because="its label is missing", beside=BESIDE)
    assert [seen.verdict for seen in last] == [UP, UP, DROPPED]


def test_an_open_path_is_not_blocked(expect: Make, attached: dict[str, str]) -> None:
    with pytest.raises(Nonconformance) as failed:
        blocked(
            opened(expect(friend=[UP], stranger=[UP])),
            STRANGER,
            SERVER,
            because="no label",
            beside=BESIDE,
        )
    first, *rest = str(failed.value).splitlines()
    assert first.startswith(
        "POL-1: windows-1 does not enforce the policy: expected TIMED_OUT, observed CONNECTED"
    )
    assert rest[0].split() == [
        "path",
        "ns/stranger",
        "(windows,",
        "node",
        "windows-1)",
        "->",
        "192.168.0.9:80/tcp",
    ]
    assert any("because" in line and "no label" in line for line in rest)
    assert any("policies" in line and "ns/allow-friend (31 s)" in line for line in rest)
    assert "<---- WRONG" in attached["matrix"]


NAMELESS = {Verdict.DNS_FAILED, Verdict.NO_SUCH_NAME}


@pytest.mark.parametrize(
    "verdict", [v for v in Verdict if v not in {UP, DROPPED, Verdict.RESOLVED, *NAMELESS}]
)
def test_no_other_verdict_counts_as_a_denial(expect: Make, verdict: Verdict) -> None:
    with pytest.raises(Nonconformance, match=f"expected TIMED_OUT, observed {verdict}"):
        blocked(
            opened(expect(friend=[UP], stranger=[verdict])),
            STRANGER,
            SERVER,
            because="x",
            beside=BESIDE,
        )


@pytest.mark.parametrize("verdict", sorted(NAMELESS))
def test_an_attempt_that_found_no_address_says_nothing_about_the_path(
    expect: Make, verdict: Verdict
) -> None:
    with pytest.raises(ControlBroken, match=f"expected TIMED_OUT, observed {verdict}"):
        blocked(
            opened(expect(friend=[UP], stranger=[verdict])),
            STRANGER,
            SERVER,
            because="x",
            beside=BESIDE,
        )


def by_name(address: str) -> Callable[[Attempt, int], Observation]:
    """Resolves to an address; where it is not the true one, nothing arrives."""

    def answer(attempt: Attempt, _: int) -> Observation:
        if attempt.kind is Kind.DNS:
            found = Observation(
                attempt=attempt, verdict=Verdict.RESOLVED, at=0.0, seconds=0.0, answers=(address,)
            )
        else:
            verdict = UP if address == "192.168.0.9" else DROPPED
            found = Observation(
                attempt=attempt, verdict=verdict, at=0.0, seconds=0.0, remote=f"{address}:80"
            )
        return found

    return answer


def test_a_name_that_leads_elsewhere_than_while_the_path_was_open_is_no_denial(
    expect: Make,
) -> None:
    server = target("web.ns.svc")
    wrong = expect(friend=[UP], stranger=[*[by_name("192.168.0.9")] * 3, by_name("203.0.113.9")])
    wrong.control(STRANGER, server, because="no policy is in force")
    with pytest.raises(
        ControlBroken,
        match=r"led to 192\.168\.0\.9 while the path was open, and leads to 203\.0\.113\.9",
    ):
        blocked(wrong, STRANGER, server, because="x", beside=BESIDE)


def test_a_failure_by_name_says_where_the_name_leads(expect: Make) -> None:
    with pytest.raises(
        Nonconformance, match=r"observed TIMED_OUT, and the name leads to 203\.0\.113\.9"
    ):
        expect(friend=[by_name("203.0.113.9")]).reachable(FRIEND, target("web.ns.svc"), because="x")


def test_a_container_whose_end_the_api_learns_late_is_no_violation(expect: Make) -> None:
    expectation = opened(expect(friend=[UP], stranger=[REFUSED]))
    prober = expectation.prober
    assert isinstance(prober, ScriptedProber)
    asked: list[int] = []

    def unchanged(workloads: object) -> None:
        asked.append(1)
        if len(asked) > 1:
            raise EnvironmentBroken("pod ns/server restarted 1 time")

    prober.unchanged = unchanged  # type: ignore[method-assign]
    with pytest.raises(EnvironmentBroken, match="restarted 1 time; affected"):
        blocked(expectation, STRANGER, SERVER, because="x", beside=BESIDE)


def test_a_denial_that_does_not_hold_is_a_violation(expect: Make) -> None:
    leaking = opened(expect(friend=[UP], stranger=[DROPPED, DROPPED, DROPPED, DROPPED, UP]))
    with pytest.raises(Nonconformance, match="last CONNECTED"):
        blocked(leaking, STRANGER, SERVER, because="x", beside=BESIDE)


def test_one_lost_connection_of_an_open_route_is_no_violation_while_a_denial_is_held(
    expect: Make,
) -> None:
    lossy = opened(expect(friend=[UP] * 4 + [DROPPED, UP], stranger=[DROPPED]))
    lossy.matrix(*ONLY_FRIENDS)
    assert isinstance(lossy.prober, ScriptedProber)
    assert lossy.prober.rounds > 5 + 3  # it agrees again, and is held again


def test_an_open_route_that_stays_lost_while_a_denial_is_held_is_a_violation(
    expect: Make, attached: dict[str, str]
) -> None:
    lost = opened(expect(friend=[UP] * 4 + [DROPPED], stranger=[DROPPED]))
    with pytest.raises(
        Nonconformance,
        match=r"expected CONNECTED, observed .*CONNECTED 4 times(?s:.*)path +ns/friend ",
    ):
        lost.matrix(*ONLY_FRIENDS)
    assert "CONNECTED 4 times" in attached["matrix"]


def test_an_open_route_that_wavers_beside_a_denial_is_a_broken_control(expect: Make) -> None:
    flapping = opened(expect(friend=[*[UP, UP, DROPPED] * 500], stranger=[DROPPED]))
    with pytest.raises(
        ControlBroken, match=r"control failed: expected CONNECTED(?s:.*)path +ns/friend "
    ):
        flapping.matrix(*ONLY_FRIENDS)


def test_an_open_route_that_wavers_is_a_violation_where_nothing_is_to_be_closed(
    expect: Make,
) -> None:
    with pytest.raises(
        Nonconformance,
        match=r"expected CONNECTED, observed CONNECTED \d+ times, TIMED_OUT(?s:.*)path +ns/friend ",
    ):
        expect(friend=[*[UP, UP, DROPPED] * 500]).reachable(
            FRIEND, SERVER, because="nothing forbids it"
        )


def test_a_leak_while_an_open_route_recovers_is_a_violation(expect: Make) -> None:
    leaking = opened(
        expect(friend=[UP] * 4 + [DROPPED, DROPPED, UP], stranger=[DROPPED] * 5 + [UP, DROPPED])
    )
    with pytest.raises(
        Nonconformance,
        match=r"expected TIMED_OUT, observed .* last CONNECTED(?s:.*)path +ns/stranger ",
    ):
        leaking.matrix(*ONLY_FRIENDS)


UNREACHABLE = Verdict.UNREACHABLE


def test_a_path_without_any_network_is_no_violation_where_its_control_failed_too(
    expect: Make,
) -> None:
    cut_off = opened(expect(friend=[UNREACHABLE], stranger=[UNREACHABLE]))
    with pytest.raises(
        ControlBroken,
        match=r"control failed: expected CONNECTED, observed UNREACHABLE(?s:.*)path +ns/friend ",
    ):
        blocked(cut_off, STRANGER, SERVER, because="x", beside=BESIDE)


@pytest.mark.parametrize("verdict", [UP, REFUSED, Verdict.RESET, Verdict.NO_ANSWER])
def test_a_packet_that_arrived_is_a_violation_whatever_its_control_says(
    expect: Make, verdict: Verdict
) -> None:
    with pytest.raises(
        Nonconformance, match=rf"expected TIMED_OUT, observed {verdict}(?s:.*)path +ns/stranger "
    ):
        blocked(
            opened(expect(friend=[DROPPED], stranger=[verdict])),
            STRANGER,
            SERVER,
            because="x",
            beside=BESIDE,
        )


def test_a_denial_without_a_control_before_proves_nothing(expect: Make) -> None:
    with pytest.raises(ControlBroken, match="never found the path open"):
        blocked(
            expect(friend=[UP], stranger=[DROPPED]), STRANGER, SERVER, because="x", beside=BESIDE
        )


@pytest.mark.parametrize(
    "beside", [FRIEND, (FRIEND, target("192.168.0.77"))], ids=["same target", "unrelated"]
)
def test_a_denial_without_an_open_route_of_its_source_beside_it_proves_nothing(
    expect: Make, beside: Workload | tuple[Workload, Target]
) -> None:
    with pytest.raises(ControlBroken, match="no open path beside it has its source"):
        blocked(
            opened(expect(friend=[UP], stranger=[DROPPED])),
            STRANGER,
            SERVER,
            because="x",
            beside=beside,
        )


@pytest.mark.parametrize("side", ["source", "both"])
def test_a_source_that_a_policy_may_shut_in_is_seen_beside_another_source(
    expect: Make, side: Literal["source", "both"]
) -> None:
    shut_in = opened(expect(friend=[UP], stranger=[DROPPED]))
    change = PolicyChange(what="a policy", at=0.0, enforced_at=side)
    shut_in = replace(
        shut_in, context=replace(shut_in.context, world=StandInWorld(change=lambda: change))
    )
    blocked(shut_in, STRANGER, SERVER, because="it may not leave", beside=FRIEND)
    with pytest.raises(ControlBroken, match="no open path beside it has its source"):
        blocked(
            shut_in,
            STRANGER,
            SERVER,
            because="it may not leave",
            beside=(FRIEND, target("192.168.0.77")),
        )


def test_a_client_that_lost_its_network_is_a_broken_control_and_no_denial(expect: Make) -> None:
    elsewhere = target("192.168.0.77")
    dead = opened(expect(friend=[UP], stranger=[DROPPED]))
    with pytest.raises(
        ControlBroken, match=r"control failed: (?s:.*)path +ns/stranger .* -> 192\.168\.0\.77"
    ):
        blocked(dead, STRANGER, SERVER, because="x", beside=[FRIEND, (STRANGER, elsewhere)])


def test_a_dead_server_is_a_broken_control_and_no_denial(expect: Make) -> None:
    dead = opened(expect(friend=[DROPPED], stranger=[DROPPED]))
    with pytest.raises(ControlBroken, match=r"control failed: (?s:.*)path +ns/friend") as broken:
        blocked(dead, STRANGER, SERVER, because="x", beside=BESIDE)
    assert not isinstance(broken.value, AssertionError)


def test_a_control_waits_as_long_as_a_new_pod_may_need_for_its_first_policy_and_a_judged_path_does_not(
    expect: Make,
) -> None:
    late: list[Answer] = [
        *[DROPPED] * 80,
        UP,
    ]  # Windows is asked every second, and policy may take 60 s
    expect(stranger=late).control(STRANGER, SERVER, because="its node's Felix is late")
    with pytest.raises(Nonconformance):
        expect(stranger=late).reachable(STRANGER, SERVER, because="nothing forbids it")


@pytest.mark.parametrize("when", [0, 1, 4], ids=["at once", "while settling", "while holding"])
def test_a_broken_probe_is_never_a_denial(expect: Make, when: int) -> None:
    script: list[Answer] = [*([DROPPED] * when), ProbeBroken("exec lost its status")]
    with pytest.raises(ProbeBroken, match="lost its status"):
        blocked(
            opened(expect(friend=[UP], stranger=script)),
            STRANGER,
            SERVER,
            because="x",
            beside=BESIDE,
        )


def test_a_matrix_names_the_wrong_cell_and_shows_both_sides(expect: Make) -> None:
    with pytest.raises(Nonconformance) as failed:
        opened(expect(friend=[DROPPED], stranger=[DROPPED])).matrix(*ONLY_FRIENDS)
    text = str(failed.value)
    assert "ns/friend" in text.splitlines()[1]
    assert [line for line in text.splitlines() if line.endswith("<---- WRONG")] == [
        line for line in text.splitlines() if line.startswith("ns/friend")
    ]


def telling(address: str) -> Answer:
    def answer(attempt: object, _: int) -> Observation:
        return observation(attempt, UP, seen_client=address)  # type: ignore[arg-type]

    return answer


def test_the_source_that_the_server_saw_is_compared(expect: Make) -> None:
    expect(friend=[telling("192.168.0.5")]).sources(NO_NAT, are=own)
    with pytest.raises(
        Nonconformance, match=r"expected source 192\.168\.0\.5, observed source 10\.0\.0\.11"
    ):
        expect(friend=[telling("10.0.0.11")]).sources(NO_NAT, are=own)


def test_a_wrong_source_of_a_node_that_is_another_machine_by_now_says_nothing(expect: Make) -> None:
    wrong = expect(friend=[telling("10.0.0.11")])
    assert isinstance(wrong.prober, ScriptedProber)

    def unchanged(workloads: object) -> None:
        raise EnvironmentBroken("node linux-1 was lost during the run: it was booted anew")

    wrong.prober.unchanged = unchanged  # type: ignore[method-assign]
    with pytest.raises(EnvironmentBroken, match="booted anew"):
        wrong.sources(NO_NAT, are=own)


def test_a_source_that_is_right_in_the_last_round_alone_is_not_the_source(expect: Make) -> None:
    wavering = expect(friend=[telling("10.0.0.11"), telling("10.0.0.11"), telling("192.168.0.5")])
    with pytest.raises(
        Nonconformance,
        match=r"source 10\.0\.0\.11 2 times, 192\.168\.0\.5 1 time, last 192\.168\.0\.5",
    ):
        wavering.sources(NO_NAT, are=own)


def test_where_open_paths_are_a_control_each_source_that_is_right_is_confirmed() -> None:
    kept: list[Decision] = []
    prober = ScriptedProber({"friend": [telling("192.168.0.5")]})
    judge = an_expect(prober, "NAT-1", kept=kept)
    judge.sources(NO_NAT, are=own, control=True)
    assert [one.verdict for one in kept] == [ClaimVerdict.CONFIRMED]


def test_a_path_that_is_to_be_open_and_wavers_says_nothing_of_sources(expect: Make) -> None:
    def wavering(attempt: Attempt, number: int) -> Observation:
        return (
            observation(attempt, UP, seen_client="192.168.0.5")
            if number % 2 == 0
            else observation(attempt, Verdict.TIMED_OUT)
        )

    with pytest.raises(ControlBroken, match="control failed"):
        expect(friend=[wavering]).sources(NO_NAT, are=own, control=True)


def test_a_server_that_does_not_tell_breaks_the_probe(expect: Make) -> None:
    with pytest.raises(ProbeBroken, match="did not report its client"):
        expect(friend=[telling("")]).sources(NO_NAT, are=own)


def resolved(*answers: str) -> Answer:
    def answer(attempt: object, _: int) -> Observation:
        return observation(attempt, Verdict.RESOLVED, answers=answers)  # type: ignore[arg-type]

    return answer


def test_a_name_resolves_only_to_exactly_the_expected_answers(expect: Make) -> None:
    expect(friend=[resolved("10.96.0.7")]).resolves(
        FRIEND, "web", ["10.96.0.7"], because="the Service says so"
    )
    for wrong in (
        resolved("10.96.0.8"),
        resolved("10.96.0.7", "10.96.0.8"),
        Verdict.DNS_FAILED,
        UP,
    ):
        with pytest.raises(Nonconformance, match=r"expected RESOLVED to 10\.96\.0\.7"):
            expect(friend=[wrong]).resolves(
                FRIEND, "web", ["10.96.0.7"], because="the Service says so"
            )


def test_the_first_line_says_what_a_name_resolved_to_instead(expect: Make) -> None:
    with pytest.raises(Nonconformance) as raised:
        expect(friend=[resolved("203.0.113.9")]).resolves(
            FRIEND, "web", ["10.96.0.7"], because="the Service says so"
        )
    assert (
        "expected RESOLVED to 10.96.0.7, observed RESOLVED to 203.0.113.9"
        in str(raised.value).partition("\n")[0]
    )


def test_a_path_that_was_never_open_is_a_broken_control_and_no_violation(expect: Make) -> None:
    with pytest.raises(
        ControlBroken, match=r"POL-1: .*: control failed: expected CONNECTED(?s:.*)path +ns/friend "
    ):
        expect(friend=[DROPPED]).control(FRIEND, SERVER, because="no policy is in force yet")


def test_a_control_that_was_seen_opens_the_way_for_a_denial(expect: Make) -> None:
    late = expect(friend=[UP], stranger=[UP, UP, UP, DROPPED])
    late.control([FRIEND, STRANGER], SERVER, because="no policy is in force yet")
    assert blocked(late, STRANGER, SERVER, because="no label", beside=BESIDE)


def test_every_source_goes_to_every_target(expect: Make) -> None:
    expectation = expect(friend=[UP], stranger=[UP])
    expectation.reachable(
        [FRIEND, STRANGER], [SERVER, target("192.168.0.10")], because="nothing forbids it"
    )
    assert isinstance(expectation.prober, ScriptedProber)
    assert expectation.prober.batches[0] == ["friend", "friend", "stranger", "stranger"]


def test_a_denial_beside_a_pod_that_restarted_is_no_denial(expect: Make) -> None:
    closed = opened(expect(friend=[UP], stranger=[DROPPED]))
    closed.prober.restarted = {"stranger"}  # type: ignore[attr-defined]
    with pytest.raises(EnvironmentBroken, match=r"ns/stranger .* restarted"):
        blocked(closed, STRANGER, SERVER, because="its label is missing", beside=BESIDE)


def test_a_path_that_is_closed_because_its_pod_restarted_is_no_violation(expect: Make) -> None:
    dead = expect(friend=[DROPPED])
    dead.prober.restarted = {"friend"}  # type: ignore[attr-defined]
    with pytest.raises(
        EnvironmentBroken,
        match=r"POL-1  pod ns/friend .* restarted 1 time; affected: ns/friend",
    ):
        dead.reachable(FRIEND, SERVER, because="nothing forbids it")


def test_the_matrix_is_kept_with_a_success_too(expect: Make, attached: dict[str, str]) -> None:
    expect(friend=[UP], stranger=[UP]).reachable(
        [FRIEND, STRANGER], SERVER, because="nothing forbids it"
    )
    assert attached["matrix"].count("CONNECTED | CONNECTED") == 2


class Disrupted(NoForeignChanges):
    """Another living run has changed something that touches every path."""

    exempt = "wait until that run has ended"

    def __init__(self) -> None:
        self.asked: list[Sequence[str]] = []
        self.looks = 0

    def look(self) -> None:
        self.looks += 1

    def excuse(self, nodes: Sequence[str], since: float | None = None) -> str:
        self.asked.append(nodes)
        return "run other is changing the cluster: gives every node VNI 4097"


def beside(expect: Expect) -> tuple[Expect, Disrupted]:
    runs = Disrupted()
    return replace(expect, context=replace(expect.context, world=StandInWorld(runs=runs))), runs


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
