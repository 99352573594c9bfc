# SPDX-License-Identifier: Apache-2.0
"""Decisions about connections from Windows hosts: three outcomes, with a control in each round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from conformance.errors import ControlBroken, MissingCapability, Nonconformance
from conformance.expect.subjects.host_attempts import HostAttempts
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.endpoint import Addressing, Target
from conformance.model.observation import Verdict
from conformance.settings import load_timings
from tests.unit.conformance.builders import a_workload, an_expect
from tests.unit.conformance.expect.network import Network

POD = a_workload("client", "windows", node="w1")
SERVER = a_workload("server", address="192.168.0.9")
GOAL = SERVER.tcp(8080)
CONTROL = Target(host="10.0.0.11", port=30080, protocol="tcp", path=Addressing.NODE_PORT)
OUT = Verdict.TIMED_OUT
IN = Verdict.CONNECTED


def decided(*results: Verdict, control: Sequence[Verdict] = (IN, IN, IN)) -> list[Decision]:
    """Let the host get these results, round by round; return the decisions."""
    kept: list[Decision] = []
    expect = an_expect(Network(load_timings()), "HOST-1", kept=kept)
    rounds = iter(zip(results, control, strict=True))

    def connect(node: str, targets: Sequence[str], seconds: float) -> dict[str, Verdict]:
        assert (node, list(targets)) == ("w1", ["192.168.0.9:8080", "10.0.0.11:30080"])
        return dict(zip(targets, next(rounds), strict=True))

    subject = HostAttempts(expect, connect)
    witness: Any = [(POD, GOAL)]
    subject.limited([(POD, GOAL)], witness=witness, control=CONTROL, because="no way")
    return kept


def test_a_limitation_is_there_or_gone_by_every_round() -> None:
    assert [one.verdict for one in decided(OUT, OUT, OUT)] == [ClaimVerdict.CONFIRMED]
    assert [one.verdict for one in decided(IN, IN, IN)] == [ClaimVerdict.LIFTED]


@pytest.mark.parametrize("results", [(OUT, IN, OUT), (Verdict.REFUSED,) * 3, (IN, IN, OUT)])
def test_anything_else_is_neither(results: tuple[Verdict, ...]) -> None:
    shown = ", ".join(results)
    with pytest.raises(
        Nonconformance, match=f"host of w1: expected TIMED_OUT each time, .* observed {shown}"
    ):
        decided(*results)


@pytest.mark.parametrize("results", [(OUT, OUT, OUT), (IN, IN, IN)])
def test_a_host_that_does_not_reach_a_linux_node_shows_nothing(
    results: tuple[Verdict, ...],
) -> None:
    with pytest.raises(
        ControlBroken, match=r"host of node w1 -> 10\.0\.0\.11:30080/tcp: expected CON"
    ):
        decided(*results, control=(IN, OUT, IN))


def recorded(
    *results: Verdict, service: tuple[str, int] | None = ("127.0.0.1", 80)
) -> list[Decision]:
    """Let the host get these results of the metadata service, round by round."""
    kept: list[Decision] = []
    expect = an_expect(Network(load_timings()), "META-1", kept=kept)
    rounds = iter(results)

    def connect(node: str, targets: Sequence[str], seconds: float) -> dict[str, Verdict]:
        assert (node, list(targets)) == ("w1", ["127.0.0.1:80", "10.0.0.11:30080"])
        return dict(zip(targets, (next(rounds), IN), strict=True))

    HostAttempts(expect, connect).may_lack([POD], service, control=CONTROL, because="lost")
    return kept


def test_a_metadata_service_that_gives_no_answer_is_the_known_issue() -> None:
    assert [one.verdict for one in recorded(OUT, OUT, OUT)] == [ClaimVerdict.CONFIRMED]
    lost = recorded(OUT, Verdict.UNREACHABLE, Verdict.UNREACHABLE)
    assert [one.verdict for one in lost] == [ClaimVerdict.CONFIRMED]
    assert [one.verdict for one in recorded(IN, IN, IN)] == [ClaimVerdict.NOT_OBSERVED]


@pytest.mark.parametrize("results", [(OUT, IN, OUT), (Verdict.REFUSED,) * 3])
def test_a_metadata_service_that_answers_now_and_then_is_neither(
    results: tuple[Verdict, ...],
) -> None:
    with pytest.raises(Nonconformance, match="host of w1"):
        recorded(*results)


def test_without_a_service_nothing_is_recorded() -> None:
    with pytest.raises(MissingCapability, match="no host beyond the cluster"):
        recorded(service=None)
