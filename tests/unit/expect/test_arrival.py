"""A pod's first seconds: an answer of any kind is a leak, a dead client proves nothing, the policy needs a witness."""

from __future__ import annotations

import pytest

from conformance.errors import ControlBroken, Nonconformance
from conformance.expect.arrival import Arrival
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt
from conformance.model.observation import Observation, Verdict
from conformance.settings import load_timings
from tests.unit.expect.stand_ins import Clock, ScriptedProber, workload

UP, DROPPED, REFUSED = Verdict.CONNECTED, Verdict.TIMED_OUT, Verdict.REFUSED
CLIENT, POD = workload("client"), workload("pod", "windows")


def arrival(rounds: list[dict[int, Verdict]], *, source: str = "client") -> tuple[Arrival, list[str]]:
    """What each round's attempts to each port come to; the last round lasts."""
    said: list[str] = []

    def by_port(verdicts: dict[int, Verdict]):
        def make(attempt: Attempt, _: int) -> Observation:
            assert attempt.target
            return Observation(attempt=attempt, verdict=verdicts[attempt.target.port], at=0.0, seconds=0.01)

        return make

    prober = ScriptedProber({source: [by_port(one) for one in rounds]})
    return Arrival(Expect(prober, load_timings(), clock=Clock()), said.append), said


def test_silence_from_the_first_moment_is_what_is_wanted() -> None:
    one, _ = arrival([{8080: DROPPED, 80: UP}])
    one.takes_nothing(CLIENT, POD.tcp(8080), beside=workload("beside").tcp(80), because="x")


@pytest.mark.parametrize("answer", [UP, REFUSED, Verdict.RESET])
def test_any_answer_means_that_packets_reached_the_pod(answer: Verdict) -> None:
    one, _ = arrival([{8080: DROPPED, 80: UP}, {8080: answer, 80: UP}])
    with pytest.raises(Nonconformance, match=f"expected TIMED_OUT, observed .*{answer.value}"):
        one.takes_nothing(CLIENT, POD.tcp(8080), beside=workload("beside").tcp(80), because="x")


def test_a_client_that_reaches_nobody_proves_nothing() -> None:
    one, _ = arrival([{8080: DROPPED, 80: DROPPED}])
    with pytest.raises(ControlBroken, match="a dead client"):
        one.takes_nothing(CLIENT, POD.tcp(8080), beside=workload("beside").tcp(80), because="x")


def test_whether_egress_was_held_back_is_told_and_decides_nothing() -> None:
    for connected, expected in ((True, 0), (False, 1)):
        one, said = arrival([{80: UP}, {80: DROPPED}], source="pod")
        one.may_have_sent(POD, CLIENT.tcp(80), connected=connected, because="x")
        assert len(said) == expected


@pytest.mark.parametrize("connected", [True, False])
def test_a_policy_that_never_takes_effect_makes_the_first_action_say_nothing(connected: bool) -> None:
    one, said = arrival([{80: UP}], source="pod")
    with pytest.raises(ControlBroken, match="not in force"):
        one.may_have_sent(POD, CLIENT.tcp(80), connected=connected, because="x")
    assert said == []
