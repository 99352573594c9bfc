# SPDX-License-Identifier: Apache-2.0
"""Which source addresses servers report, and which answers names have."""

from __future__ import annotations

import pytest

from conformance.errors import (
    ControlBroken,
    EnvironmentBroken,
    Nonconformance,
    ProbeBroken,
)
from conformance.expect.case import Case
from conformance.model.attempt import Attempt
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.observation import Observation, Verdict
from tests.unit.conformance.builders import an_expect
from tests.unit.conformance.expect.conftest import Make
from tests.unit.conformance.expect.stand_ins import (
    Answer,
    ScriptedProber,
    observation,
)
from tests.unit.conformance.expect.traffic import FRIEND, SERVER, UP, own

NO_NAT = Case(FRIEND, SERVER, open=True, because="no NAT")


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
        raise EnvironmentBroken("node linux-1 was lost during the run: it was rebooted")

    wrong.prober.unchanged = unchanged  # type: ignore[method-assign]
    with pytest.raises(EnvironmentBroken, match="rebooted"):
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
    with pytest.raises(ProbeBroken, match="did not report the client's address"):
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
