"""A pod's first seconds: an answer of any kind is a leak, a dead client proves nothing, the policy needs a witness."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from conformance.errors import ControlBroken, EnvironmentBroken, Nonconformance
from conformance.expect.arrival import Arrival
from conformance.expect.traffic import Context, Expect
from conformance.model.attempt import Attempt
from conformance.model.observation import Observation, Verdict
from conformance.pods.newcomer import Stage
from conformance.settings import load_timings
from tests.unit.conformance.expect.stand_ins import ScriptedProber, workload

UP, DROPPED, REFUSED = Verdict.CONNECTED, Verdict.TIMED_OUT, Verdict.REFUSED
UNREACHABLE = Verdict.UNREACHABLE
CLIENT, POD = workload("client"), workload("pod", "windows")


def arrival(
    rounds: list[dict[int, Verdict]],
    *,
    source: str = "client",
    kept: dict[str, float] | None = None,
    restarted: Sequence[str] = (),
) -> tuple[Arrival, list[str]]:
    """What each round's attempts to each port come to; the last round lasts."""
    said: list[str] = []

    def by_port(verdicts: dict[int, Verdict]):
        def make(attempt: Attempt, _: int) -> Observation:
            assert attempt.target
            return Observation(attempt=attempt, verdict=verdicts[attempt.target.port], at=0.0, seconds=0.01)

        return make

    prober = ScriptedProber({source: [by_port(one) for one in rounds]}, restarted=set(restarted))
    context = Context(claims=("XPOL-11",), record=(kept if kept is not None else {}).__setitem__)
    return Arrival(Expect(prober, load_timings(), context, prober.clock), said.append), said


def stages(*several: Stage) -> Callable[[], Stage]:
    """Each in its turn; the last one lasts."""
    left = list(several)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def watch(one: Arrival, stage: Callable[[], Stage] | None = None) -> None:
    beside = workload("beside").tcp(80)
    one.takes_nothing(CLIENT, POD.tcp(8080), stage=stage or stages("done"), beside=beside, because="x")


def test_silence_from_the_first_moment_is_what_is_wanted() -> None:
    watch(arrival([{8080: DROPPED, 80: UP}])[0])


def test_it_is_watched_until_its_first_action_is_done_and_for_a_while_since_it_ran() -> None:
    kept: dict[str, float] = {}
    before: Sequence[Stage] = ["to start"] * 30
    watch(arrival([{8080: DROPPED, 80: UP}], kept=kept)[0], stages(*before, "acting", "done"))
    assert kept == {"seconds watched": 35.0, "seconds watched since it ran": 5.0}
    with pytest.raises(Nonconformance, match=r"observed .*CONNECTED 1 time"):
        watch(arrival([*[{8080: DROPPED, 80: UP}] * 32, {8080: UP, 80: UP}])[0], stages(*before, "acting", "done"))


def test_a_first_action_that_never_ends_says_nothing_about_the_cluster() -> None:
    with pytest.raises(EnvironmentBroken, match=r"XPOL-11 .* its first action was still acting"):
        watch(arrival([{8080: DROPPED, 80: UP}])[0], stages("acting"))


@pytest.mark.parametrize("answer", [UP, REFUSED, Verdict.RESET])
def test_any_answer_means_that_packets_reached_the_pod(answer: Verdict) -> None:
    one, _ = arrival([{8080: DROPPED, 80: UP}, {8080: answer, 80: UP}])
    with pytest.raises(Nonconformance, match=f"expected TIMED_OUT, observed .*{answer.value}"):
        watch(one)


@pytest.mark.parametrize("verdict", [DROPPED, UNREACHABLE, REFUSED])
def test_a_client_that_reaches_nobody_proves_nothing(verdict: Verdict) -> None:
    with pytest.raises(ControlBroken, match=r"XPOL-11  ns/client .* expected CONNECTED, .*1 try.*a dead client"):
        watch(arrival([{8080: verdict, 80: verdict}])[0])


def test_a_pod_without_a_route_yet_has_not_answered() -> None:
    watch(arrival([*[{8080: UNREACHABLE, 80: UP}] * 3, {8080: DROPPED, 80: UP}])[0])
    with pytest.raises(ControlBroken, match=r"expected TIMED_OUT, observed UNREACHABLE .*neither an answer"):
        watch(arrival([{8080: UNREACHABLE, 80: UP}])[0])


def test_a_client_that_restarted_meanwhile_says_nothing() -> None:
    with pytest.raises(EnvironmentBroken, match="restarted 1 time, while this was seen: XPOL-11 "):
        watch(arrival([{8080: UP, 80: UP}], restarted=["client"])[0])


def test_whether_egress_was_held_back_is_told_and_decides_nothing() -> None:
    for connected, expected in ((True, 0), (False, 1)):
        one, said = arrival([{80: UP}, {80: DROPPED}], source="pod")
        one.may_have_sent(POD, CLIENT.tcp(80), connected=connected, because="x")
        assert len(said) == expected


@pytest.mark.parametrize("connected", [True, False])
def test_a_policy_that_never_takes_effect_makes_the_first_action_say_nothing(connected: bool) -> None:
    one, said = arrival([{80: UP}], source="pod")
    with pytest.raises(ControlBroken, match=r"XPOL-11  ns/pod .* tries, .* not in force"):
        one.may_have_sent(POD, CLIENT.tcp(80), connected=connected, because="x")
    assert said == []
