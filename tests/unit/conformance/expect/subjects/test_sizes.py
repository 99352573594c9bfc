# SPDX-License-Identifier: Apache-2.0
"""The largest packet is found to the byte, in both directions; silence above it is a black hole,
a refusal is not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pytest

from conformance.errors import (
    ControlBroken,
    EnvironmentBroken,
    MissingCapability,
    Nonconformance,
    ProbeBroken,
)
from conformance.expect.context import Sink
from conformance.expect.subjects.sizes import HEADERS, Sizes
from conformance.model.attempt import Attempt, Kind
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.endpoint import Workload
from conformance.model.facts import Fact
from conformance.model.observation import Observation, Verdict
from tests.unit.conformance.builders import a_workload, an_expect
from tests.unit.conformance.expect.stand_ins import Clock, ImmediateAsking, observation, told

LINUX, LINUX_SERVER = a_workload("linux-client"), a_workload("linux-server")
WINDOWS, WINDOWS_SERVER = (
    a_workload("windows-client", "windows"),
    a_workload("windows-server", "windows"),
)
NODE = a_workload("linux-node")


@dataclass
class Net:
    """Answers by size: what a source's system takes at most, and what the way carries."""

    own: dict[str, int] = field(default_factory=dict)
    way: int = 9000
    lost_once: set[int] = field(default_factory=set)
    away: dict[int, Verdict] = field(default_factory=dict)
    """What everything comes to in the batch of that number that was never fragmented; the first is 1."""
    answers_after: float = 0.0
    """s.  What gives up before hears nothing."""
    told_after: int = 10**6
    """In batches from that number on the way's MTU is known to the senders (ICMP fragmentation needed)."""
    restarted: bool = False
    deaf: bool = False
    batches: int = 0
    clock: Clock = field(default_factory=Clock)

    def asking(self) -> ImmediateAsking:
        return ImmediateAsking(self)

    def observe(self, batch: Sequence[Attempt]) -> list[Observation]:
        self.batches += batch[0].whole
        return [observation(attempt, self._verdict(attempt)) for attempt in batch]

    def unchanged(self, workloads: Iterable[Workload]) -> None:
        if self.restarted:
            raise EnvironmentBroken("pod ns/linux-server restarted 1 time")

    def _verdict(self, attempt: Attempt) -> Verdict:
        if not attempt.whole:
            return Verdict.TIMED_OUT if self.deaf else Verdict.CONNECTED
        if attempt.give_up_after < self.answers_after:
            return Verdict.TIMED_OUT
        if self.batches in self.away:
            return self.away[self.batches]
        assert attempt.kind is Kind.UDP
        size = len(attempt.request) + HEADERS
        if size > (
            self.way if self.batches >= self.told_after else self.own.get(attempt.source.pod, 1450)
        ):
            return Verdict.PROHIBITED
        if size in self.lost_once:
            self.lost_once.remove(size)
            return Verdict.TIMED_OUT
        return Verdict.CONNECTED if size <= self.way else Verdict.TIMED_OUT


def sizes(
    net: Net, kept: list[Decision] | None = None, figures: dict[str, float | str] | None = None
) -> Sizes:
    sink = Sink([] if kept is None else kept, recorded={} if figures is None else figures)
    return Sizes(an_expect(net, "CONN-3", sink=sink))


@pytest.mark.parametrize("mtu", [576, 577, 1280, 1399, 1450, 8951, 9000])
def test_the_largest_packet_is_found_to_the_byte_in_few_batches(mtu: int) -> None:
    net = Net(own={"linux-client": mtu, "linux-server": mtu})
    there, back = sizes(net).carries([(LINUX, LINUX_SERVER)], because="nothing is in the way")
    assert (there.mtu, back.mtu) == (mtu, mtu)
    assert net.batches <= 2 * 5


def test_a_server_that_is_away_for_a_batch_changes_nothing() -> None:
    for batch in range(1, 12):
        for how in (Verdict.TIMED_OUT, Verdict.REFUSED):
            there, back = sizes(Net(away={batch: how})).carries(
                [(LINUX, LINUX_SERVER)], because="x"
            )
            assert (there.mtu, back.mtu) == (1450, 1450)


def test_a_slow_windows_server_is_given_the_time_it_needs() -> None:
    there, _ = sizes(Net(answers_after=3.0)).carries([(LINUX, WINDOWS_SERVER)], because="x")
    assert there.mtu == 1450


def test_each_way_is_measured_by_itself_and_recorded() -> None:
    net, figures = Net(own={"linux-client": 1440, "windows-server": 1450}), dict[str, float | str]()
    there, back = sizes(net, figures=figures).carries([(LINUX, WINDOWS_SERVER)], because="x")
    assert (there.mtu, back.mtu) == (1440, 1450)
    assert (
        figures.items()
        >= {"MTU linux->windows, bytes": 1440, "MTU windows->linux, bytes": 1450}.items()
    )


def test_a_packet_lost_by_chance_changes_nothing() -> None:
    net = Net(own={"linux-client": 1440, "linux-server": 1440}, lost_once={1440, 1439, 1112})
    there, _ = sizes(net).carries([(LINUX, LINUX_SERVER)], because="x")
    assert there.mtu == 1440


def test_silence_above_the_largest_packet_is_a_black_hole() -> None:
    refused = r"CONN-3: packets of 1351 to 1450 bytes vanish from .*, observed no answer to packets of 1351 bytes or more"
    with pytest.raises(Nonconformance, match=refused):
        sizes(Net(way=1350)).carries([(LINUX, LINUX_SERVER)], because="the MTU leaves room")


def test_a_black_hole_on_one_pair_s_way_leaves_the_other_pair_s_verdict_alone() -> None:
    net, kept = (
        Net(own={"linux-client": 1450, "linux-node": 1350, "linux-server": 1350}, way=1350),
        list[Decision](),
    )
    with pytest.raises(Nonconformance, match="linux-client"):
        sizes(net, kept).carries([(LINUX, LINUX_SERVER), (NODE, LINUX_SERVER)], because="x")
    assert [seen.verdict for seen in kept] == [ClaimVerdict.VIOLATED, *[ClaimVerdict.CONFIRMED] * 3]


def test_a_black_hole_is_told_with_every_try_and_what_passed_beside_it() -> None:
    with pytest.raises(Nonconformance) as raised:
        sizes(Net(way=1350)).carries([(LINUX, LINUX_SERVER)], because="x")
    first, *rest = str(raised.value).splitlines()
    assert "(6 tries, " in first
    assert any(
        "packets of 576 bytes in the same rounds: CONNECTED (3 of 3)" in line for line in rest
    )
    assert len(raised.value.observations) == 6


def test_a_hole_of_which_the_sender_is_told_is_none() -> None:
    there, _ = sizes(Net(way=1350, told_after=7)).carries([(LINUX, LINUX_SERVER)], because="x")
    assert (there.mtu, there.above.verdict) == (1350, Verdict.PROHIBITED)


def test_a_pod_that_restarted_meanwhile_is_no_black_hole() -> None:
    with pytest.raises(EnvironmentBroken, match=r"CONN-3  pod .* restarted 1 time; affected: ns/"):
        sizes(Net(way=1350, restarted=True)).carries([(LINUX, LINUX_SERVER)], because="x")


@pytest.mark.parametrize("how", [Verdict.REFUSED, Verdict.UNREACHABLE, Verdict.ABORTED])
def test_only_silence_is_a_black_hole(how: Verdict) -> None:
    class Odd(Net):
        def _verdict(self, attempt: Attempt) -> Verdict:
            found = super()._verdict(attempt)
            return how if found is Verdict.TIMED_OUT else found

    with pytest.raises(
        ProbeBroken if how is Verdict.ABORTED else ControlBroken, match=f"observed {how}"
    ):
        sizes(Odd(way=1350)).carries([(LINUX, LINUX_SERVER)], because="x")


def test_a_server_that_hears_nothing_breaks_the_control() -> None:
    with pytest.raises(ControlBroken, match="small datagrams have to arrive"):
        sizes(Net(deaf=True)).carries([(LINUX, LINUX_SERVER)], because="x")


@pytest.mark.parametrize(
    "pair",
    [(WINDOWS, LINUX_SERVER), (WINDOWS, WINDOWS_SERVER)],
    ids=["windows->linux", "windows->windows"],
)
def test_a_black_hole_on_the_way_from_a_windows_pod_is_a_violation_too(
    pair: tuple[Workload, Workload],
) -> None:
    net, kept = Net(own={pair[1].pod: 1350}, way=1350), list[Decision]()
    with pytest.raises(
        Nonconformance,
        match=r"packets of 1351 to 1450 bytes vanish from windows-1 to .* no answer to packets of 1351 bytes",
    ):
        sizes(net, kept).carries([pair], because="x")
    assert [seen.verdict for seen in kept] == [ClaimVerdict.VIOLATED, ClaimVerdict.CONFIRMED]


def test_a_way_that_cannot_be_measured_leaves_the_other_ways_verdicts_alone() -> None:
    class Deaf(Net):
        def _verdict(self, attempt: Attempt) -> Verdict:
            away = attempt.whole and attempt.source.pod == "linux-client"
            return Verdict.TIMED_OUT if away else super()._verdict(attempt)

    kept = list[Decision]()
    with pytest.raises(ProbeBroken, match="none of 576 bytes"):
        sizes(Deaf(), kept).carries([(LINUX, LINUX_SERVER)], because="x")
    assert [seen.verdict for seen in kept] == [ClaimVerdict.INCONCLUSIVE, ClaimVerdict.CONFIRMED]


def test_no_large_packet_at_all_is_no_size() -> None:
    with pytest.raises(
        ProbeBroken,
        match=r"CONN-3: .* TIMED_OUT .2 tries, .*small datagrams pass, but none of 576 bytes",
    ):
        sizes(Net(way=500)).carries([(LINUX, LINUX_SERVER)], because="x")


def ignored(net: Net, value: int | None, kept: list[Decision] | None = None) -> None:
    sizes(net, kept).setting_ignored(
        Fact(value, "Installation default .spec.calicoNetwork.mtu"),
        by=[(WINDOWS, WINDOWS_SERVER)], followed_by=(LINUX, LINUX_SERVER), node=NODE, because="Windows ignores it",
    )  # fmt: skip


SET = {"linux-client": 1440, "linux-node": 1500}


def test_windows_pods_that_keep_their_own_mtu_ignore_the_setting() -> None:
    kept: list[Decision] = []
    ignored(Net(own={**SET, "windows-client": 1450}), 1440, kept)
    assert [seen.verdict for seen in kept] == [ClaimVerdict.CONFIRMED]


def test_windows_pods_with_the_mtu_that_is_set_lift_the_limitation() -> None:
    kept: list[Decision] = []
    ignored(Net(own={**SET, "windows-client": 1440}), 1440, kept)
    (reason,) = told(kept)
    assert "has the set MTU of 1440 " in reason


def test_a_setting_that_linux_does_not_follow_decides_nothing() -> None:
    with pytest.raises(
        ControlBroken,
        match=r"CONN-3: .* expected an MTU of 1440, observed an MTU of 1450 .* 1440 is set",
    ):
        ignored(Net(own={"linux-node": 1500}), 1440)


@pytest.mark.parametrize(
    ("value", "why"),
    [(None, "no MTU is set"), (1450, "is also the MTU that Windows uses without the setting")],
)
def test_without_a_telling_setting_nothing_is_decided(value: int | None, why: str) -> None:
    with pytest.raises(MissingCapability, match=why):
        ignored(Net(own={"linux-client": 1450, "linux-node": 1500}), value)
