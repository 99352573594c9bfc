# SPDX-License-Identifier: Apache-2.0
"""A denial passes only on a named result and with its controls."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from conformance.errors import (
    ControlBroken,
    EnvironmentBroken,
    Nonconformance,
    ProbeBroken,
)
from conformance.expect.figures import PolicyChange
from conformance.model.endpoint import Target, Workload
from conformance.model.observation import Verdict
from tests.unit.conformance.expect.conftest import Make
from tests.unit.conformance.expect.denial import blocked
from tests.unit.conformance.expect.stand_in_world import StandInWorld
from tests.unit.conformance.expect.stand_ins import (
    Answer,
    ScriptedProber,
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
    by_name,
    opened,
)


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


def test_a_name_that_leads_elsewhere_than_while_the_path_was_open_is_no_denial(
    expect: Make,
) -> None:
    server = target("web.ns.svc")
    wrong = expect(friend=[UP], stranger=[*[by_name("192.168.0.9")] * 3, by_name("203.0.113.9")])
    wrong.control(STRANGER, server, because="no policy is in force")
    with pytest.raises(
        ControlBroken,
        match=r"resolved to 192\.168\.0\.9 while the path was open, and now resolves to 203\.0\.",
    ):
        blocked(wrong, STRANGER, server, because="x", beside=BESIDE)


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
    with pytest.raises(ControlBroken, match="no open path starts at this client"):
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
    with pytest.raises(ControlBroken, match="no open path starts at this client"):
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


def test_a_control_that_was_seen_opens_the_way_for_a_denial(expect: Make) -> None:
    late = expect(friend=[UP], stranger=[UP, UP, UP, DROPPED])
    late.control([FRIEND, STRANGER], SERVER, because="no policy is in force yet")
    assert blocked(late, STRANGER, SERVER, because="no label", beside=BESIDE)


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
