# SPDX-License-Identifier: Apache-2.0
"""Behind a Service every backend answers and no other pod; the observations of each source are a
decision of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from random import Random

import pytest

from conformance.errors import (
    ControlBroken,
    EnvironmentBroken,
    MissingCapability,
    Nonconformance,
)
from conformance.expect.context import Pace
from conformance.expect.subjects.backends import KEPT_PORT, Backends
from conformance.model.attempt import Attempt, Kind
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.endpoint import Addressing, Target, Workload
from conformance.model.observation import Observation, Verdict
from conformance.probe.machine import Machine
from tests.unit.conformance.builders import a_workload, an_expect
from tests.unit.conformance.expect.stand_in_world import StandInWorld
from tests.unit.conformance.expect.stand_ins import Answer, ScriptedProber, observation

A, B = a_workload("a"), a_workload("b", node="linux-2")
SERVICE = Target(
    host="10.96.0.9", port=80, protocol="tcp", path=Addressing.CLUSTER_IP, backends=(A, B)
)


def by_turns(*pods: str) -> Callable[[Attempt, int], Observation]:
    numbers = count()

    def answer(attempt: Attempt, _: int) -> Observation:
        who = pods[next(numbers) % len(pods)]
        verdict = Verdict.CONNECTED if who else Verdict.TIMED_OUT
        return observation(attempt, verdict, served_by=f"ns/{who}" if who else "")

    return answer


def at_random(random: Random, pods: list[Workload]) -> Answer:
    def answer(attempt: Attempt, _: int) -> Observation:
        who = f"ns/{random.choice(pods).pod}"
        return Observation(
            attempt=attempt, verdict=Verdict.CONNECTED, at=0.0, seconds=0.01, served_by=who
        )

    return answer


def asked(
    restarted: set[str] | None = None,
    service: tuple[Target, ...] = (SERVICE,),
    **clients: list[Answer],
) -> tuple[dict[str, ClaimVerdict], str]:
    """Each client's verdict, and the first line of what was raised."""
    kept: list[Decision] = []
    prober = ScriptedProber(dict(clients), restarted=restarted or set())
    expect = an_expect(prober, "CONN-4", kept=kept)
    sources = [a_workload(name, node=name) for name in clients]
    said = ""
    try:
        Backends(expect).all_used(sources, *service, because="x")
    except Nonconformance as wrong:
        said = str(wrong).partition("\n")[0]
    return {seen.source: seen.verdict for seen in kept}, said


def test_all_backends_and_nobody_else_are_what_is_wanted() -> None:
    assert asked(c=[by_turns("a", "b")]) == ({"c": ClaimVerdict.CONFIRMED}, "")


def test_datagrams_that_get_to_one_backend_alone_are_told_beside_connections_that_get_to_all() -> (
    None
):
    def answer(attempt: Attempt, number: int) -> Observation:
        pods = ("a",) if attempt.kind is Kind.UDP else ("a", "b")
        return by_turns(pods[number % len(pods)])(attempt, 0)

    said = asked(service=(SERVICE, replace(SERVICE, protocol="udp")), c=[answer])[1]
    assert "(80/udp)" in said
    assert "observed b never answered" in said


def test_a_client_that_agreed_is_decided_whatever_others_need_more_rounds_for() -> None:
    good = by_turns("a", "b")

    def fades(attempt: Attempt, number: int) -> Observation:
        return good(attempt, number) if number < 100 else observation(attempt, Verdict.TIMED_OUT)

    found, _ = asked(broken=[by_turns("a")], well=[fades])
    assert found == {"broken": ClaimVerdict.VIOLATED, "well": ClaimVerdict.CONFIRMED}


def test_a_client_that_agreed_and_then_gets_to_another_pod_is_violated() -> None:
    good = by_turns("a", "b")

    def turns(attempt: Attempt, number: int) -> Observation:
        return good(attempt, number) if number < 100 else by_turns("old")(attempt, number)

    found, _ = asked(broken=[by_turns("a")], turned=[turns])
    assert found == {"broken": ClaimVerdict.VIOLATED, "turned": ClaimVerdict.VIOLATED}


def test_a_node_that_leads_to_another_pod_is_named_before_nodes_whose_attempts_time_out() -> None:
    said = asked(late=[by_turns("a", "b", "")], c=[by_turns("a", "b", "old")])[1]
    assert said.startswith("CONN-4: c to ")


def test_a_backend_that_answers_at_another_port_is_named_with_that_port() -> None:
    def answer(attempt: Attempt, number: int) -> Observation:
        return replace(by_turns("a")(attempt, number), served_port=8080)

    said = asked(service=(replace(SERVICE, backends=(A,), backend_port=8081),), c=[answer])[1]
    assert "observed port 8080 of a answered 36 times although it is not a backend" in said


def test_an_old_backend_that_is_used_for_a_while_is_not_used_for_good() -> None:
    assert asked(c=[by_turns("old"), by_turns("a", "b")]) == ({"c": ClaimVerdict.CONFIRMED}, "")


def test_chance_lets_no_client_miss_one_of_many_backends() -> None:
    """Ten clients of eight backends chosen at random: in a round of twelve connections one of four misses some."""
    pods = [a_workload(f"p{number}", node=f"linux-{number}") for number in range(8)]
    service = replace(SERVICE, backends=tuple(pods))
    for seed in range(20):
        clients: dict[str, list[Answer]] = {
            f"c{number}": [at_random(Random(100 * seed + number), pods)] for number in range(10)
        }
        verdicts, said = asked(None, (service,), **clients)
        assert (set(verdicts.values()), said) == ({ClaimVerdict.CONFIRMED}, "")


def test_a_backend_that_only_some_connections_miss_by_turns_is_used() -> None:
    rounds: list[Answer] = [by_turns("a"), by_turns("b"), by_turns("a")]
    assert asked(c=rounds) == ({"c": ClaimVerdict.CONFIRMED}, "")


@pytest.mark.parametrize(
    ("pods", "told"),
    [
        (["a"], "b never answered (a 36 times)"),
        (
            ["a", "b", "old"],
            "old answered 12 times although it is not a backend (a 12 times, b 12 times)",
        ),
        (["a", "b", ""], "TIMED_OUT 12 times (a 12 times, b 12 times)"),
    ],
)
def test_one_that_is_never_used_and_one_that_should_not_be_are_told(
    pods: list[str], told: str
) -> None:
    verdicts, said = asked(c=[by_turns(*pods)], other=[by_turns("a", "b")])
    assert verdicts == {"c": ClaimVerdict.VIOLATED, "other": ClaimVerdict.CONFIRMED}
    assert said.startswith(
        f"CONN-4: c to 10.96.0.9 (80/tcp): expected all of a, b and no other, observed {told} (36 tries, "
    )


def test_a_backend_that_restarted_says_nothing() -> None:
    with pytest.raises(EnvironmentBroken, match="restarted"):
        asked({"b"}, c=[by_turns("a")])


UNREADY = "pod ns/b (linux, node linux-2) is not ready since T, according to the kubelet's probes"


def unready(path: Addressing, *answers: Answer) -> Exception:
    """What is raised about a Service whose backend b its kubelet finds unready."""
    prober = ScriptedProber({"c": list(answers)})
    world = StandInWorld(unready=lambda pods, since: UNREADY if B in pods else "")
    expect = an_expect(prober, "CONN-4", world=world)
    service = replace(SERVICE, path=path)
    with pytest.raises((Nonconformance, EnvironmentBroken)) as raised:
        Backends(expect).all_used([a_workload("c")], service, because="x")
    return raised.value


def test_an_unready_backend_that_gets_no_connection_decides_nothing_about_a_service() -> None:
    for answer in (Verdict.REFUSED, by_turns("a")):
        found = unready(Addressing.CLUSTER_IP, answer)
        assert isinstance(found, EnvironmentBroken)
        assert str(found).startswith(f"CONN-4  {UNREADY}; affected: ")


def test_an_unready_backend_excuses_neither_its_own_address_nor_another_pods_answer() -> None:
    assert isinstance(unready(Addressing.POD_IP, Verdict.REFUSED), Nonconformance)
    assert isinstance(unready(Addressing.CLUSTER_IP, by_turns("old")), Nonconformance)


class Overwhelmed(Machine):
    """A lab's machine that was overwhelmed all the while."""

    def overwhelmed(self, since: float, now: float, *, computes: bool = True) -> bool:
        return True


@pytest.mark.parametrize("answer", [Verdict.REFUSED, by_turns("a"), by_turns("old")])
def test_an_overwhelmed_machine_of_the_lab_excuses_all_but_another_pods_answer(
    answer: Answer,
) -> None:
    prober = ScriptedProber({"c": [answer]})
    machine = Overwhelmed(shared=True)
    expect = an_expect(prober, "CONN-4", pace=Pace(machine=machine))
    with pytest.raises((Nonconformance, EnvironmentBroken)) as raised:
        Backends(expect).all_used([a_workload("c")], SERVICE, because="x")
    is_excused = isinstance(raised.value, EnvironmentBroken)
    assert (
        is_excused
        == (machine.excused == 1)
        == ("although it is not a backend" not in str(raised.value))
    )


def empty(*answers: Answer) -> None:
    prober = ScriptedProber({"c": list(answers)})
    expect = an_expect(prober, "CONN-4")
    Backends(expect).none([a_workload("c")], SERVICE, because="the Service selects no pod")


def test_a_service_without_backends_may_refuse_or_say_nothing_once_it_has_lost_them() -> None:
    empty(by_turns("a"), Verdict.REFUSED)
    empty(by_turns("a"), Verdict.TIMED_OUT)


@pytest.mark.parametrize("verdict", [Verdict.RESET, Verdict.CLOSED, Verdict.NO_ANSWER])
def test_a_service_without_backends_takes_no_connection_either(verdict: Verdict) -> None:
    with pytest.raises(Nonconformance, match=f"expected no connection, observed {verdict}"):
        empty(verdict)


def test_a_service_that_goes_on_leading_to_what_it_has_lost_is_wrong() -> None:
    with pytest.raises(Nonconformance, match="expected no connection, observed CONNECTED"):
        empty(by_turns("a"))


def whole(*answers: Answer) -> list[int]:
    prober = ScriptedProber({"c": list(answers)})
    expect = an_expect(prober, "CONN-4")
    sizes: list[int] = []

    def answer(attempt: Attempt, number: int) -> Observation:
        sizes.append(attempt.payload)
        told = answers[min(number, len(answers) - 1)]
        assert callable(told)
        return told(attempt, number)

    prober.answers = {"c": [answer]}
    service = replace(SERVICE, backends=(A,), backend_port=8080)
    Backends(expect).answer_whole([(a_workload("c"), service)], because="each packet is rewritten")
    return sizes


def test_large_answers_are_asked_for_and_come_from_a_backend() -> None:
    assert set(whole(by_turns("a"))) == {5000}


@pytest.mark.parametrize("changed", [b"", b"!"])
def test_a_datagram_that_fills_a_packet_comes_back_whole_by_a_service(changed: bytes) -> None:
    def answer(attempt: Attempt, number: int) -> Observation:
        seen = replace(observation(attempt, Verdict.CONNECTED), served_by="ns/a")
        by_service = attempt.target and attempt.target.path is Addressing.CLUSTER_IP
        return replace(seen, body=seen.body[:-1] + changed) if by_service else seen

    prober = ScriptedProber({"c": [answer]})
    expect = an_expect(prober, "CONN-4")
    service = replace(SERVICE, backends=(A,), backend_port=8080, protocol="udp")
    told = r"/udp\)?.*expected an answer of 1200 bytes, observed an answer with other bytes than were sent"
    with pytest.raises(Nonconformance, match=told):
        Backends(expect).answer_whole(
            [(a_workload("c"), service)], because="each packet is rewritten"
        )


def test_a_large_answer_that_does_not_come_is_wrong() -> None:
    def by_service_alone(attempt: Attempt, number: int) -> Observation:
        return by_turns(
            "" if attempt.target and attempt.target.path is Addressing.CLUSTER_IP else "a"
        )(attempt, number)

    with pytest.raises(
        Nonconformance, match="expected an answer of 5000 bytes, observed TIMED_OUT"
    ) as caught:
        whole(by_service_alone)
    assert caught.value.explanation is not None
    assert caught.value.explanation.cause.endswith(" through Services"), "as of every other size"


def test_a_large_answer_that_is_another_by_a_service_is_wrong() -> None:
    def changed(attempt: Attempt, number: int) -> Observation:
        seen = by_turns("a")(attempt, number)
        by_service = attempt.target and attempt.target.path is Addressing.CLUSTER_IP
        return replace(seen, body=seen.body[:-1] + b"!") if by_service else seen

    with pytest.raises(
        Nonconformance, match="observed an answer with other bytes than were sent"
    ) as caught:
        whole(changed)
    assert caught.value.explanation is not None
    assert caught.value.explanation.cause == "", "the Service leads to its pods"


def test_a_large_answer_that_does_not_come_by_the_pods_address_either_says_nothing_of_services() -> (
    None
):
    with pytest.raises(
        ControlBroken, match=r"\(8080/tcp\): control failed: expected an answer of 5000 bytes"
    ):
        whole(by_turns(""))


def test_what_a_kept_socket_sends_leaves_from_one_port_each_time() -> None:
    """From a port of its own each time it would be a new flow, which is led to a backend of now by any kube-proxy."""
    ports: list[int] = []

    def heard(attempt: Attempt, number: int) -> Observation:
        ports.append(attempt.from_port)
        return Observation(
            attempt=attempt, verdict=Verdict.CONNECTED, at=0.0, seconds=0.01, served_by="ns/b"
        )

    prober = ScriptedProber({"c": [heard]})
    expect = an_expect(prober, "CONN-4")
    service = replace(SERVICE, protocol="udp", backends=(B,))
    Backends(expect).answer_a_kept_socket([a_workload("c", node="c")], service, because="x")
    assert len(ports) > 1
    assert set(ports) == {KEPT_PORT}
    assert KEPT_PORT > 0


def own_node(**served: str) -> list[str]:
    """The first line for each wrong client of two nodes with a backend and a third without."""
    prober = ScriptedProber({name: [by_turns(pod)] for name, pod in served.items()})
    expect = an_expect(prober, "XSVC-6")
    sources = [a_workload(name, node=name) for name in served]
    target = replace(SERVICE, backends=(a_workload("a"), replace(B, node="linux-2")))
    try:
        Backends(expect).own_node_used(sources, target, because="own", nobody="nowhere")
    except Nonconformance as wrong:
        return [str(wrong), *getattr(wrong, "__notes__", ())]
    return []


def test_the_own_nodes_backend_answers_and_nobody_where_the_node_has_none() -> None:
    assert own_node(**{"linux-1": "a", "linux-2": "b", "linux-3": ""}) == []


def test_a_backend_of_another_node_is_wrong_with_and_without_an_own_backend() -> None:
    assert "b answered" in own_node(**{"linux-1": "b", "linux-2": "b"})[0]
    assert "expected no connection" in own_node(**{"linux-1": "a", "linux-3": "a"})[0]


def test_without_a_client_beside_a_backend_nothing_is_decided() -> None:
    with pytest.raises(MissingCapability, match="no client runs on a node with a backend"):
        own_node(**{"linux-3": ""})
