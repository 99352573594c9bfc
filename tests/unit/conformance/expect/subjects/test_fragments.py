# SPDX-License-Identifier: Apache-2.0
"""Datagrams above the MTU are judged path by path, and only if small datagrams arrive in the
same rounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, permutations, product

import pytest

from conformance.errors import ControlBroken, EnvironmentBroken, Nonconformance
from conformance.expect.case import Case, Paths
from conformance.expect.subjects.fragments import BETWEEN, TRANSFER, WHOLE, Fragments
from conformance.model.attempt import Attempt
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.endpoint import OS
from conformance.model.observation import Observation, Verdict
from tests.unit.conformance.builders import a_workload, an_expect
from tests.unit.conformance.expect.stand_ins import Answer, ScriptedProber, observation

UP, DROPPED = Verdict.CONNECTED, Verdict.TIMED_OUT
GOOD, BAD = a_workload("good"), a_workload("bad", "windows")
SERVER = a_workload("server", "windows", node="windows-2", address="192.168.9.9").udp(8080)


@dataclass
class Network:
    """What becomes of datagrams, by their size and round."""

    large: Sequence[Verdict]
    small: Sequence[Verdict] = (UP,)
    tiny: Verdict = UP
    """Of datagrams that are asked for beside such."""
    between: Sequence[Verdict] = (UP,)
    """Of those of 606 bytes; the other sizes of one packet arrive."""
    restarted: set[str] = field(default_factory=set)
    sizes: set[int] = field(default_factory=set)
    asked: Counter[int] = field(default_factory=Counter)
    whole: set[bool] = field(default_factory=set)
    kept: list[Decision] = field(default_factory=list)

    def judge(self) -> None:
        answers: dict[str, list[Answer]] = {"good": [UP], "bad": [self._answer]}
        prober = ScriptedProber(answers, restarted=self.restarted)
        Fragments(an_expect(prober, "CONN-3", kept=self.kept)).arrive(
            Case([GOOD, BAD], SERVER, open=True, because="it is put together")
        )

    def _answer(self, attempt: Attempt, number: int) -> Observation:
        size = attempt.payload or len(attempt.request)
        if size < 100:  # controls
            tiny = self.tiny if attempt.request.startswith("?") else UP
            return observation(attempt, tiny)
        self.sizes.add(size)
        self.whole.add(attempt.whole)
        one_packet = self.between if size == 606 else (UP,)
        number = self.asked[size] if size == 606 else number
        self.asked[size] += 1
        answers = self.large if size == WHOLE else self.small if size == 576 else one_packet
        return observation(attempt, answers[min(number, len(answers) - 1)])

    @property
    def verdicts(self) -> dict[str, ClaimVerdict]:
        return {seen.source: seen.verdict for seen in self.kept if seen.halves == ("behaviour",)}


def test_large_datagrams_that_arrive_are_well_and_may_be_cut_up() -> None:
    network = Network([UP])
    network.judge()
    assert network.verdicts == {
        "linux-1": ClaimVerdict.CONFIRMED,
        "windows-1": ClaimVerdict.CONFIRMED,
    }
    assert (network.sizes, network.whole) == (
        {576, 12000, *(size + 6 for size in BETWEEN)},
        {False},
    )


def test_large_datagrams_that_vanish_are_a_violation_of_that_way_alone() -> None:
    network = Network([DROPPED])
    with pytest.raises(Nonconformance) as failed:
        network.judge()
    assert (
        str(failed.value)
        == """\
CONN-3: windows-1 to windows-2 (8080/udp): expected a datagram of 12000 bytes answered, \
observed TIMED_OUT (241 tries, 60.0 s)
  path      ns/bad (windows, node windows-1) -> 192.168.9.9:8080/udp (server, windows, node windows-2)
  because   it is put together
  observed  TIMED_OUT after 5000 ms
  beside    datagrams of 576 bytes in the same rounds: CONNECTED
  do        let IPv4 fragments pass inside the overlay: look at firewalls and at network adapters' offloads, on \
both nodes and between them"""
    )
    assert network.verdicts == {
        "linux-1": ClaimVerdict.CONFIRMED,
        "windows-1": ClaimVerdict.VIOLATED,
    }


def test_transfers_that_do_not_end_are_a_violation_and_say_what_passed() -> None:
    def answer(attempt: Attempt, number: int) -> Observation:
        return observation(attempt, UP if attempt.payload < TRANSFER else Verdict.NO_ANSWER)

    prober = ScriptedProber({"good": [answer]})
    expect = an_expect(prober, "CONN-3")
    streams = replace(SERVER, protocol="tcp")
    with pytest.raises(
        Nonconformance,
        match=r"linux-1 to windows-2 \(8080/tcp\): expected 1200000 bytes over TCP answered, observed NO_ANSWER",
    ):
        Fragments(expect).arrive(Case(GOOD, streams, open=True, because="they are filled"))


def test_transfers_have_the_patience_that_a_slow_path_needs() -> None:
    """Half a second each way and back: 1.2 MB begin with ten packets, and take seven seconds there and back."""

    def answer(attempt: Attempt, number: int) -> Observation:
        needed = 7.0 if attempt.payload == TRANSFER else 0.5
        seen = observation(attempt, UP if attempt.give_up_after >= needed else Verdict.NO_ANSWER)
        return replace(seen, seconds=min(needed, attempt.give_up_after))

    prober, kept = ScriptedProber({"good": [answer]}), list[Decision]()
    expect = an_expect(prober, "CONN-3", kept=kept)
    server = a_workload("server", node="linux-2", address="192.168.9.9").tcp(8080)
    Fragments(expect).arrive(Case(GOOD, server, open=True, because="they are filled"))
    assert {one.verdict for one in kept} == {ClaimVerdict.CONFIRMED}


@pytest.mark.parametrize("changed", [0, 40_000])
def test_transfers_that_come_back_as_something_else_are_a_violation(changed: int) -> None:
    def answer(attempt: Attempt, number: int) -> Observation:
        seen = observation(attempt, UP)
        return replace(
            seen, body=seen.body[:changed] + b"!" + seen.body[changed + 1 :] if seen.body else b""
        )

    prober = ScriptedProber({"good": [answer]})
    expect = an_expect(prober, "CONN-3")
    streams = replace(SERVER, protocol="tcp")
    with pytest.raises(
        Nonconformance,
        match=r"expected [0-9]+ bytes over TCP answered, observed an answer with other bytes than were sent",
    ):
        Fragments(expect).arrive(Case(GOOD, streams, open=True, because="they are filled"))


SYSTEMS: dict[str, OS] = {
    "l1": "linux",
    "l2": "linux",
    "l3": "linux",
    "w1": "windows",
    "w2": "windows",
}


@pytest.mark.parametrize("node", SYSTEMS)
def test_the_sizes_of_a_nodes_datagrams_lie_close_and_some_are_odd(node: str) -> None:
    """A fault that loses packets of 37 successive lengths loses one datagram of each node, between
    three nodes of a system and two."""
    sizes: set[int] = set()

    def answer(attempt: Attempt, number: int) -> Observation:
        if attempt.source.node == node and attempt.request.startswith("?"):
            sizes.add(len(attempt.request))
        return observation(attempt, UP)

    for clients, servers in product(("linux", "windows"), repeat=2):
        prober = ScriptedProber({name: [answer] for name in SYSTEMS})
        expect = an_expect(prober, "CONN-3")
        pods = {name: a_workload(name, system, node=name) for name, system in SYSTEMS.items()}
        ways = [
            (pods[client], pods[server].udp(8080))
            for client, server in permutations(SYSTEMS, 2)
            if (SYSTEMS[client], SYSTEMS[server]) == (clients, servers)
        ]
        Fragments(expect).arrive(Paths(ways, open=True, because="it is put together"))
    between = sorted(size for size in sizes if size not in {576, WHOLE})
    assert max(later - earlier for earlier, later in pairwise(between)) <= 37
    assert {size % 2 for size in between} == {0, 1}


@pytest.mark.parametrize("changed", [b"X", b""])
def test_a_datagram_that_comes_back_as_something_else_is_a_violation(changed: bytes) -> None:
    def answer(attempt: Attempt, number: int) -> Observation:
        seen = observation(attempt, UP)
        return (
            replace(seen, body=seen.body[:900] + changed + seen.body[901:])
            if attempt.payload
            else seen
        )

    prober = ScriptedProber({"good": [answer]})
    expect = an_expect(prober, "CONN-3")
    told = r"a datagram of 1269 bytes answered, observed an answer with other bytes than were sent"
    with pytest.raises(Nonconformance, match=told) as failed:
        Fragments(expect).arrive(Case(GOOD, SERVER, open=True, because="it is put together"))
    assert "look for anything that drops or changes packets by their length" in str(failed.value)


def test_loss_that_ends_is_no_violation() -> None:
    network = Network([DROPPED, UP, DROPPED, UP])
    network.judge()
    assert set(network.verdicts.values()) == {ClaimVerdict.CONFIRMED}


def test_a_size_that_never_arrives_is_a_violation_though_full_ones_do() -> None:
    network = Network([UP], between=[DROPPED])
    with pytest.raises(
        Nonconformance,
        match=r"windows-1 to windows-2 \(8080/udp\): expected a datagram of 606 bytes answered, observed TIMED_OUT",
    ) as failed:
        network.judge()
    assert "beside    datagrams of 50 bytes in the same rounds: CONNECTED" in str(failed.value)
    assert network.verdicts == {
        "linux-1": ClaimVerdict.CONFIRMED,
        "windows-1": ClaimVerdict.VIOLATED,
    }


def test_the_size_of_one_packet_that_is_lost_is_told_before_what_is_cut_up_into_such() -> None:
    with pytest.raises(Nonconformance, match="expected a datagram of 606 bytes answered"):
        Network([DROPPED], small=[DROPPED], between=[DROPPED]).judge()


def test_a_size_that_arrives_once_was_lost_by_chance() -> None:
    network = Network([UP], between=[*[DROPPED] * 5, UP, DROPPED])
    network.judge()
    assert set(network.verdicts.values()) == {ClaimVerdict.CONFIRMED}


def test_nothing_is_said_of_a_size_while_small_datagrams_vanish() -> None:
    network = Network([UP], tiny=DROPPED, between=[DROPPED])
    with pytest.raises(ControlBroken, match=r"control failed: .* of 50 bytes answered"):
        network.judge()
    assert network.verdicts["windows-1"] is ClaimVerdict.INCONCLUSIVE


def test_small_datagrams_that_vanish_too_are_a_broken_control() -> None:
    network = Network([DROPPED], [DROPPED])
    with pytest.raises(
        ControlBroken,
        match=r"^CONN-3: .*: control failed: .* of 576 bytes answered, observed TIMED_OUT",
    ):
        network.judge()
    assert network.verdicts["windows-1"] is ClaimVerdict.INCONCLUSIVE


def test_a_pod_that_restarted_meanwhile_is_no_violation() -> None:
    network = Network([DROPPED], restarted={"bad"})
    with pytest.raises(EnvironmentBroken):
        network.judge()
