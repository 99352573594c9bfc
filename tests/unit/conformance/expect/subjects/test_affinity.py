# SPDX-License-Identifier: Apache-2.0
"""A client stays with one backend where its build supports this, and observations that show
nothing decide nothing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from conformance.errors import ControlBroken, Nonconformance
from conformance.expect.subjects.affinity import Affinity
from conformance.model.attempt import Attempt
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.endpoint import Addressing, Target
from conformance.model.observation import Observation, Verdict
from tests.unit.conformance.builders import a_workload, an_expect
from tests.unit.conformance.expect.stand_ins import ScriptedProber, observation

SERVERS = (a_workload("a"), a_workload("b", node="linux-2"))


def service(host: str) -> Target:
    return Target(host=host, port=80, protocol="tcp", path=Addressing.CLUSTER_IP, backends=SERVERS)


KEPT, PLAIN = service("10.96.0.1"), service("10.96.0.2")


def leads(kept: str, plain: str = "ab") -> Callable[[Attempt, int], Observation]:
    """By the Service with affinity and by the one without, the pods that answer in turns; ``-``:
    nobody."""
    turns = {KEPT.host: (kept, count()), PLAIN.host: (plain, count())}

    def answer(attempt: Attempt, _: int) -> Observation:
        assert attempt.target is not None
        pods, numbers = turns[attempt.target.host]
        who = pods[next(numbers) % len(pods)]
        verdict = Verdict.TIMED_OUT if who == "-" else Verdict.CONNECTED
        return observation(attempt, verdict, served_by="" if who == "-" else f"ns/{who}")

    return answer


def asked(build: str, client: object, linux: object = None) -> list[Decision]:
    kept: list[Decision] = []
    prober = ScriptedProber({"w": [client], "l": [linux or leads("a")]})  # type: ignore[list-item]
    windows = a_workload("w", "windows", windows_build=build)
    subject = Affinity(an_expect(prober, "XSVC-3", kept=kept))
    subject.stays([windows], KEPT, PLAIN, beside=[a_workload("l")], because="x")
    return kept


@pytest.mark.parametrize(
    ("build", "kept", "verdict"),
    [
        ("20348.2762", "b", ClaimVerdict.CONFIRMED),
        ("26100.1", "a", ClaimVerdict.CONFIRMED),
        ("17763.6414", "ab", ClaimVerdict.CONFIRMED),
        ("17763.6414", "a", ClaimVerdict.LIFTED),
    ],
)
def test_the_build_says_whether_a_client_stays(
    build: str, kept: str, verdict: ClaimVerdict
) -> None:
    assert {one.verdict for one in asked(build, leads(kept))} == {verdict}


@pytest.mark.parametrize(
    ("build", "kept", "observed"),
    [
        ("20348.2762", "ab", "observed 2 backends: ns/a, ns/b"),
        ("20348.2762", "-", "observed TIMED_OUT"),
        ("17763.6414", "ab-", "observed TIMED_OUT"),
    ],
)
def test_a_client_that_should_stay_and_one_that_gets_to_no_backend_are_wrong(
    build: str, kept: str, observed: str
) -> None:
    with pytest.raises(Nonconformance, match=f"expected one backend, {observed}"):
        asked(build, leads(kept))


def test_where_every_service_leads_to_one_backend_staying_shows_nothing() -> None:
    with pytest.raises(ControlBroken, match="expected several backends"):
        asked("20348.2762", leads("a", plain="a"))


def test_where_a_linux_client_does_not_stay_nothing_is_said_of_windows() -> None:
    with pytest.raises(ControlBroken, match=r"control failed: .*expected one backend"):
        asked("20348.2762", leads("ab"), linux=leads("ab"))
