# SPDX-License-Identifier: Apache-2.0
"""A connection counts for a path only if, where the answer says whose it is, a backend of the target gave it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.errors import ControlBroken, Nonconformance
from conformance.expect.case import Case
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Addressing, Target
from conformance.model.observation import Observation, Verdict
from tests.unit.conformance.builders import a_workload, an_expect
from tests.unit.conformance.expect.denial import blocked
from tests.unit.conformance.expect.stand_ins import BYSTANDER, Answer, ScriptedProber, observation

FRIEND, STRANGER, BACKEND = a_workload("friend"), a_workload("stranger"), a_workload("backend")
SERVICE = Target(
    host="10.96.0.9",
    port=80,
    protocol="tcp",
    path=Addressing.CLUSTER_IP,
    backends=(BACKEND,),
    name="Service web",
)


def by(pod: str) -> Answer:
    """An answer that says which pod gave it, as far as its kind of attempt can."""

    def answer(attempt: Attempt, _: int) -> Observation:
        said = (
            {"served_by": pod, "seen_client": FRIEND.address}
            if attempt.kind is not Kind.TCP
            else {}
        )
        return observation(attempt, Verdict.CONNECTED, **said)

    return answer


def expecting(**answers: list[Answer]) -> Expect:
    prober = ScriptedProber(answers)
    return an_expect(prober, "CONN-4")


@pytest.mark.parametrize(
    "target",
    [SERVICE, replace(SERVICE, protocol="udp"), replace(SERVICE, path=Addressing.NODE_PORT)],
)
def test_a_service_that_leads_to_another_pod_is_not_reached(target: Target) -> None:
    with pytest.raises(
        Nonconformance,
        match="expected an answer of ns/backend, observed an answer of ns/another-pod",
    ):
        expecting(friend=[by("ns/another-pod")]).reachable(
            FRIEND, target, because="kube-proxy sends it on"
        )


def test_a_pod_s_address_that_another_pod_has_by_now_is_not_reached() -> None:
    with pytest.raises(
        Nonconformance,
        match="expected an answer of ns/backend, observed an answer of ns/another-pod",
    ):
        expecting(friend=[by("ns/another-pod")]).reachable(
            FRIEND, BACKEND.tcp(8080), because="nothing forbids it"
        )


def test_a_service_may_lead_elsewhere_until_its_rules_are_there() -> None:
    late = expecting(friend=[by("ns/another-pod"), by("ns/backend")])
    assert (
        late.reachable(FRIEND, SERVICE, because="kube-proxy sends it on")[0].served_by
        == "ns/backend"
    )


def test_whom_another_pod_saw_says_nothing_about_the_source() -> None:
    with pytest.raises(Nonconformance, match="observed an answer of ns/another-pod"):
        expecting(friend=[by("ns/another-pod")]).sources(
            Case(FRIEND, BACKEND, tcp=8080, open=True, because="no NAT"),
            are=lambda client: [client.address],
        )


@pytest.mark.parametrize("who", ["", "/", "/backend-node", "ns/"])
def test_an_answer_without_a_whole_name_is_taken_for_the_backends(who: str) -> None:
    expecting(friend=[by(who)]).reachable(FRIEND, SERVICE, because="kube-proxy sends it on")


def test_a_path_is_not_seen_open_when_another_pod_answers() -> None:
    with pytest.raises(
        ControlBroken, match=r"control failed: .* observed an answer of ns/another-pod"
    ):
        expecting(friend=[by("ns/another-pod")]).control(
            FRIEND, SERVICE, because="no policy is in force yet"
        )


def test_a_denial_by_service_is_a_bare_connect_that_nothing_answers() -> None:
    kinds: list[Kind] = []

    def dropped(attempt: Attempt, _: int) -> Observation:
        kinds.append(attempt.kind)
        return observation(attempt, Verdict.TIMED_OUT)

    expect = expecting(friend=[by("ns/backend")], stranger=[*[by("ns/backend")] * 3, dropped])
    expect.control([FRIEND, STRANGER], SERVICE, because="no policy is in force yet")
    blocked(
        expect,
        STRANGER,
        SERVICE,
        beside=[FRIEND, (STRANGER, BYSTANDER)],
        because="its label is missing",
    )
    assert set(kinds) == {Kind.TCP}


def test_a_closed_way_that_another_pod_answers_is_a_broken_control_and_no_leak() -> None:
    expect = expecting(
        friend=[by("ns/backend")], stranger=[*[by("ns/backend")] * 3, by("ns/another-pod")]
    )
    expect.control([FRIEND, STRANGER], SERVICE, because="no policy is in force yet")
    with pytest.raises(
        ControlBroken, match="expected TIMED_OUT, observed an answer of ns/another-pod"
    ):
        blocked(
            expect,
            STRANGER,
            SERVICE,
            beside=[FRIEND, (STRANGER, BYSTANDER)],
            because="its label is missing",
            kind=Kind.HTTP,
        )


ECHO = replace(SERVICE, backend_port=8080)
"""A Service in front of the suite's echo servers."""


def on_port(port: int) -> Answer:
    """The backend's answer, which says on which port it came in."""

    def answer(attempt: Attempt, _: int) -> Observation:
        said = observation(
            attempt, Verdict.CONNECTED, served_by="ns/backend", seen_client=FRIEND.address
        )
        return replace(said, served_port=port, status=200)

    return answer


def test_a_service_that_leads_to_another_port_of_its_backend_is_not_reached() -> None:
    with pytest.raises(Nonconformance, match="observed an answer of port 80 of ns/backend"):
        expecting(friend=[on_port(80)]).reachable(FRIEND, ECHO, because="kube-proxy sends it on")
    expecting(friend=[on_port(8080)]).reachable(FRIEND, ECHO, because="kube-proxy sends it on")


def test_a_pods_own_port_that_leads_to_another_of_its_ports_is_not_reached() -> None:
    with pytest.raises(Nonconformance, match="observed an answer of port 8081 of ns/backend"):
        expecting(friend=[on_port(8081)]).reachable(
            FRIEND, BACKEND.tcp(8080), because="nothing is translated"
        )


def test_streams_and_datagrams_are_asked_each_in_its_own_way() -> None:
    kinds = set()

    def answer(attempt: Attempt, _: int) -> Observation:
        kinds.add((attempt.kind, attempt.request))
        return observation(
            attempt, Verdict.CONNECTED, served_by="ns/backend", seen_client=FRIEND.address
        )

    expecting(friend=[answer]).sources(
        Case(FRIEND, BACKEND, tcp=8080, udp=8080, open=True, because="nothing is translated"),
        are=lambda client: [client.address],
    )
    assert kinds == {(Kind.HTTP, "/who"), (Kind.UDP, "/")}


def test_a_service_of_echo_servers_that_leads_to_another_server_is_not_reached() -> None:
    def stranger(attempt: Attempt, _: int) -> Observation:
        return replace(observation(attempt, Verdict.CONNECTED), status=200, served_by="")

    with pytest.raises(
        Nonconformance, match="observed an answer of a server that does not report its name"
    ):
        expecting(friend=[stranger]).reported_sources(
            [(FRIEND, ECHO)], because="kube-proxy sends it on"
        )
    expecting(friend=[stranger]).reachable(
        FRIEND, replace(ECHO, backend_port=80), because="a web page says no name"
    )
