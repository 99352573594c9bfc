# SPDX-License-Identifier: Apache-2.0
"""Ping is decided by the lines that report a reply, with controls; summaries and exit codes
decide nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import pytest

from conformance.errors import ControlBroken, MissingCapability, Nonconformance, ProbeBroken
from conformance.expect.context import Context, Sink
from conformance.expect.subjects.commands import Commands
from conformance.expect.subjects.ping import ExternalPaths
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.endpoint import Workload
from conformance.model.facts import Fact
from conformance.model.observation import Observation, Verdict
from conformance.pods.groups import PodPairs
from conformance.settings import load_timings
from tests.unit.conformance.builders import a_workload
from tests.unit.conformance.expect.stand_ins import ScriptedProber, observation, told

OUTSIDE = "198.51.100.10"
WINDOWS, LINUX = a_workload("windows", "windows"), a_workload("linux")
SERVER = a_workload("server", address="192.168.0.9")
LOST = """Pinging {0} with 32 bytes of data:
Request timed out.
Ping statistics for {0}:
    Packets: Sent = 3, Received = 0, Lost = 3 (100% loss),
"""
UNREACHABLE = LOST.replace("Request timed out.", "Reply from {0}: Destination host unreachable.")
ANSWERED = LOST.replace("Request timed out.", "Reply from {0}: bytes=32 time<1ms TTL=126")
LINUX_ANSWERED = "PING {0} ({0}): 56 data bytes\n64 bytes from {0}: seq=0 ttl=63 time=0.1 ms\n3 packets transmitted, 3"
LINUX_LOST = (
    "PING {0} ({0}): 56 data bytes\n3 packets transmitted, 0 packets received, 100% packet loss"
)


@dataclass(frozen=True)
class Ended:
    output: str
    exit_code: int = 0
    seconds: float = 3.04


@dataclass
class Town:
    """What each ping prints, by (pod, address): the answers of successive pings, the last one lasts."""

    printed: dict[tuple[str, str], str | list[str]]
    tcp: Verdict = Verdict.CONNECTED
    target: tuple[str, int] | None = (OUTSIDE, 80)
    kept: list[Decision] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    """Who has pinged which address."""
    first: Callable[[float], object] = lambda _: None
    """Called by each ping before it answers, with the seconds that it may take."""

    def beyond(self) -> ExternalPaths:
        timings, context = load_timings(), Context(claims=("XSVC-4",), sink=Sink(self.kept))
        prober = ScriptedProber({"windows": [self.tcp]})
        expect = Expect(prober, timings, context, prober.clock)
        return ExternalPaths(expect, Commands(self._run, timings, context), self.target)

    def _run(self, source: Workload, argv: Sequence[str], within: float) -> Ended:
        self.commands.append(" ".join(argv))
        assert within > 6
        self.first(5.0)
        script = self.printed[source.pod, argv[-1]]
        texts = [script] if isinstance(script, str) else script
        self.asked.append((source.pod, argv[-1]))
        number = min(self.asked.count(self.asked[-1]), len(texts)) - 1
        return Ended(texts[number].format(argv[-1]))


def test_a_reply_within_the_cluster_and_none_beyond_it_confirm() -> None:
    town = Town({
        ("linux", OUTSIDE): LINUX_ANSWERED, ("windows", SERVER.address): ANSWERED, ("windows", OUTSIDE): LOST,
    })  # fmt: skip
    beyond = town.beyond()
    beyond.control([WINDOWS], LINUX, because="x")
    beyond.ping(PodPairs([(WINDOWS, SERVER)]), because="x")
    beyond.do_not_ping([WINDOWS], beside=LINUX, because="x")
    assert told(town.kept) == []
    assert town.commands == [
        f"ping -c 1 -W 1 {OUTSIDE}",
        "ping -n 1 -w 1000 192.168.0.9",
        *[f"ping -n 3 -w 1000 {OUTSIDE}"] * 3,
        f"ping -c 1 -W 1 {OUTSIDE}",
    ]


@pytest.mark.parametrize("printed", [LOST, UNREACHABLE])
def test_neither_total_loss_nor_unreachable_is_a_reply(printed: str) -> None:
    town = Town({
        ("windows", OUTSIDE): printed, ("windows", SERVER.address): printed, ("linux", OUTSIDE): LINUX_ANSWERED,
    })  # fmt: skip
    town.beyond().do_not_ping([WINDOWS], beside=LINUX, because="x")
    assert told(town.kept) == []
    with pytest.raises(
        Nonconformance,
        match=r"XSVC-4: windows-1 to linux-1 \(ping\): expected a reply, observed no reply \(7 tries, 9.1 s\)\n"
        r"  path +ns/windows .* -> 192.168.0.9 .*node",
    ):
        town.beyond().ping(PodPairs([(WINDOWS, SERVER)]), because="x")


def test_a_reply_from_beyond_lifts_the_limitation() -> None:
    town = Town({("windows", OUTSIDE): ANSWERED})
    town.beyond().do_not_ping([WINDOWS], beside=LINUX, because="x")
    assert "ping -n 3 -w 1000 198.51.100.10: answered" in told(town.kept)[0]


def test_a_reply_of_another_address_is_none() -> None:
    town = Town({
        ("windows", OUTSIDE): ANSWERED.replace("Reply from {0}", "Reply from 198.51.100.101"),
        ("linux", OUTSIDE): LINUX_ANSWERED,
    })  # fmt: skip
    town.beyond().do_not_ping([WINDOWS], beside=LINUX, because="x")
    assert told(town.kept) == []


def test_a_target_that_answers_no_ping_or_no_tcp_decides_nothing() -> None:
    with pytest.raises(
        ControlBroken,
        match=r"XSVC-4: linux-1 to 198\.51.* \(ping\): control failed: .* no reply .7 tries, 9.1 s.: .* no ping",
    ):
        Town({("linux", OUTSIDE): LINUX_LOST}).beyond().control([WINDOWS], LINUX, because="x")
    with pytest.raises(ControlBroken, match="beyond the cluster"):
        Town({}, tcp=Verdict.TIMED_OUT).beyond().control([WINDOWS], LINUX, because="x")


def test_where_linux_pods_do_not_ping_each_other_nothing_is_said_of_windows() -> None:
    pairs = PodPairs([(LINUX, SERVER)])
    Town({("linux", SERVER.address): [LINUX_LOST, LINUX_ANSWERED]}).beyond().ping_passes(
        pairs, because="x"
    )
    town = Town({("linux", SERVER.address): LINUX_LOST})
    with pytest.raises(
        ControlBroken,
        match=r"XSVC-4: linux-1 to .*: control failed: .*: ping does not pass between Linux",
    ):
        town.beyond().ping_passes(pairs, because="x")
    assert town.kept == []


def test_one_lost_ping_neither_confirms_the_limitation_nor_violates_what_works() -> None:
    town = Town(
        {
            ("windows", OUTSIDE): [LOST, LOST, ANSWERED],
            ("windows", SERVER.address): [LOST, ANSWERED],
        }
    )
    town.beyond().do_not_ping([WINDOWS], beside=LINUX, because="x")
    assert [seen.verdict for seen in town.kept] == [ClaimVerdict.LIFTED]
    town.beyond().ping(PodPairs([(WINDOWS, SERVER)]), because="x")
    assert town.kept[-1].verdict is ClaimVerdict.CONFIRMED


def test_a_target_that_answers_no_ping_any_more_afterwards_decides_nothing() -> None:
    town = Town({("windows", OUTSIDE): LOST, ("linux", OUTSIDE): [LINUX_ANSWERED, LINUX_LOST]})
    beyond = town.beyond()
    beyond.control([WINDOWS], LINUX, because="x")
    with pytest.raises(ControlBroken, match="answers no ping"):
        beyond.do_not_ping([WINDOWS], beside=LINUX, because="x")
    assert [seen.verdict for seen in town.kept] == [ClaimVerdict.INCONCLUSIVE]


def test_every_pod_s_ping_is_decided_whatever_became_of_the_others() -> None:
    other = a_workload("other", "windows", node="windows-2")
    town = Town({("windows", SERVER.address): LOST, ("other", SERVER.address): ANSWERED})
    with pytest.raises(Nonconformance):
        town.beyond().ping(PodPairs([(WINDOWS, SERVER), (other, SERVER)]), because="x")
    assert [(seen.source, seen.verdict) for seen in town.kept] == [
        ("windows-1", ClaimVerdict.VIOLATED), ("windows-2", ClaimVerdict.CONFIRMED),
    ]  # fmt: skip


def test_pods_ping_at_the_same_time() -> None:
    other, both = a_workload("other", "windows", node="windows-2"), threading.Barrier(2)
    town = Town(
        {("windows", SERVER.address): ANSWERED, ("other", SERVER.address): ANSWERED},
        first=both.wait,
    )
    town.beyond().ping(PodPairs([(WINDOWS, SERVER), (other, SERVER)]), because="x")
    assert [seen.verdict for seen in town.kept] == [ClaimVerdict.CONFIRMED] * 2


def test_what_is_done_meanwhile_is_done_while_pings_are_waited_for() -> None:
    done, waited = threading.Event(), list[bool]()
    town = Town({("windows", SERVER.address): LOST}, first=lambda _: waited.append(done.wait(10)))
    town.beyond().ping(PodPairs([(WINDOWS, SERVER)]), want=False, because="x", meanwhile=done.set)
    assert waited == [True] * 3
    assert [seen.verdict for seen in town.kept] == [ClaimVerdict.CONFIRMED]


def test_of_what_is_to_be_silent_each_ping_asks_once_and_a_reply_violates() -> None:
    silent = Town({("windows", SERVER.address): LOST})
    silent.beyond().ping(PodPairs([(WINDOWS, SERVER)]), want=False, because="x")
    assert silent.commands == ["ping -n 1 -w 1000 192.168.0.9"] * 3
    answers = Town({("windows", SERVER.address): [LOST, ANSWERED]})
    with pytest.raises(
        Nonconformance, match=r"expected no reply, observed a reply \(2 tries, 6\.1 s\)"
    ):
        answers.beyond().ping(PodPairs([(WINDOWS, SERVER)]), want=False, because="x")
    assert [seen.verdict for seen in answers.kept] == [ClaimVerdict.VIOLATED]


def test_where_a_reply_is_wanted_the_first_ping_asks_once_and_those_after_it_more_often() -> None:
    town = Town({("windows", SERVER.address): [LOST, ANSWERED]})
    town.beyond().before(PodPairs([(WINDOWS, SERVER)]))
    assert town.commands == ["ping -n 1 -w 1000 192.168.0.9", "ping -n 3 -w 1000 192.168.0.9"]


def under_rules(kept: str = LINUX_LOST) -> Town:
    """Rules on ICMP, one of them on a type: two Linux pods and a Windows one ping a Linux and a Windows server."""
    linux = a_workload("far", address="192.168.0.7")
    return Town({
        ("linux", linux.address): LINUX_ANSWERED, ("windows", linux.address): ANSWERED,
        ("linux", SERVER.address): LINUX_LOST, ("beside", SERVER.address): kept,
    })  # fmt: skip


def ping_under_rules(town: Town) -> None:
    far = a_workload("far", address="192.168.0.7")
    town.beyond().under_icmp_rules(
        "type", linux=PodPairs([(LINUX, far)]), skipped=PodPairs([(LINUX, SERVER)]),
        kept=PodPairs([(a_workload("beside"), SERVER)]), allowed=PodPairs([(WINDOWS, far)]), because="x",
    )  # fmt: skip


def test_under_rules_on_icmp_what_is_to_be_silent_asks_once_a_ping_and_each_is_decided() -> None:
    town = under_rules()
    ping_under_rules(town)
    assert {(one.part, one.verdict) for one in town.kept} == {
        ("type", ClaimVerdict.CONFIRMED), ("ICMP alone", ClaimVerdict.CONFIRMED),
    }  # fmt: skip
    assert town.commands.count("ping -c 1 -W 1 192.168.0.9") == 6
    town = under_rules(kept=LINUX_ANSWERED)
    with pytest.raises(Nonconformance, match="expected no reply, observed a reply"):
        ping_under_rules(town)
    assert [one.part for one in town.kept if one.verdict is ClaimVerdict.VIOLATED] == ["type"]


def test_a_ping_that_did_not_run_is_broken() -> None:
    with pytest.raises(ProbeBroken, match="no ping was sent"):
        Town({("windows", OUTSIDE): "'ping' is not recognized"}).beyond().do_not_ping(
            [WINDOWS], beside=LINUX, because="x"
        )


def test_without_a_target_nothing_is_asked() -> None:
    with pytest.raises(MissingCapability, match="--external-target"):
        Town({}, target=None).beyond().control([WINDOWS], LINUX, because="x")


NODE = a_workload("node", address="10.0.0.11", host_network=True)
NATTED = {"IPPool a .spec.natOutgoing": Fact("True", "its .spec.natOutgoing")}


def seen_as(address: str) -> Callable[[Attempt, int], Observation]:
    return lambda attempt, _: replace(observation(attempt, Verdict.CONNECTED), seen_client=address)


def ask_beyond(
    node: Callable[[Attempt, int], Observation] | Verdict,
    client: Callable[[Attempt, int], Observation] | Verdict = Verdict.CONNECTED,
    *,
    protocol: Literal["tcp", "udp"] = "udp",
    pools: dict[str, Fact[str]] = NATTED,
) -> list[Decision]:
    kept: list[Decision] = []
    timings, context = load_timings(), Context(claims=("NAT-2",), sink=Sink(kept))
    prober = ScriptedProber({"node": [node], "windows": [client]})
    expect = Expect(prober, timings, context, prober.clock)
    ExternalPaths(expect, Commands(Town({})._run, timings, context), (OUTSIDE, 80)).sees_nodes(
        [WINDOWS], protocol, NODE, pools, because="x"
    )
    return kept


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_a_target_that_sees_the_node_of_a_pod_confirms(protocol: Literal["tcp", "udp"]) -> None:
    kept = ask_beyond(seen_as("10.0.0.11"), seen_as(WINDOWS.node_address), protocol=protocol)
    assert {decision.verdict for decision in kept if "windows" in decision.source} == {
        ClaimVerdict.CONFIRMED
    }


def test_a_target_that_sees_the_pod_or_gets_nothing_violates() -> None:
    with pytest.raises(
        Nonconformance, match=r"expected source 10\.0\.0\.11, observed source 192\.168\.0\.5"
    ):
        ask_beyond(seen_as("10.0.0.11"), seen_as(WINDOWS.address))
    with pytest.raises(Nonconformance, match="expected CONNECTED, observed TIMED_OUT"):
        ask_beyond(seen_as("10.0.0.11"), Verdict.TIMED_OUT)


def test_what_does_not_show_whom_it_sees_of_a_node_decides_nothing() -> None:
    with pytest.raises(
        MissingCapability,
        match=r"does not report the client's address; let .*echo_server\.py answer there",
    ):
        ask_beyond(Verdict.CONNECTED)
    with pytest.raises(
        MissingCapability, match=r"does not report the client's address: .*TIMED_OUT"
    ):
        ask_beyond(Verdict.TIMED_OUT)
    with pytest.raises(
        MissingCapability,
        match=r"translates addresses, too: linux-1 \(10\.0\.0\.11\) appears to the target as 203",
    ):
        ask_beyond(seen_as("203.0.113.7"))
    with pytest.raises(ControlBroken):
        ask_beyond(Verdict.TIMED_OUT, protocol="tcp")


def test_pools_without_nat_outgoing_ask_for_nothing() -> None:
    pools = NATTED | {"IPPool b .spec.natOutgoing": Fact("Never", "its .spec.natOutgoing")}
    with pytest.raises(MissingCapability, match="no outgoing NAT is configured: IPPool b"):
        ask_beyond(seen_as("10.0.0.11"), seen_as("10.0.0.11"), pools=pools)


def test_the_target_beyond_is_asked_where_it_answers_each_client_alone() -> None:
    (target,) = Town({}).beyond().target_of([WINDOWS])
    assert target.label == f"{OUTSIDE}:80/tcp (beyond the cluster)"
    for town in (Town({}, tcp=Verdict.TIMED_OUT), Town({}, target=None)):
        assert town.beyond().target_of([WINDOWS]) == []
