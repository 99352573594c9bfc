# SPDX-License-Identifier: Apache-2.0
"""Paths between stand-ins that an expectation opens and closes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from conformance.expect.case import Case
from conformance.expect.owners import NoForeignChanges
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Pair, Workload
from conformance.model.observation import Observation, Verdict
from tests.unit.conformance.builders import a_workload
from tests.unit.conformance.expect.stand_in_world import StandInWorld
from tests.unit.conformance.expect.stand_ins import (
    BYSTANDER,
    ScriptedProber,
    target,
)

FRIEND, STRANGER, SERVER = a_workload("friend"), a_workload("stranger", "windows"), target()
UP, DROPPED, REFUSED = Verdict.CONNECTED, Verdict.TIMED_OUT, Verdict.REFUSED

OWN = (STRANGER, BYSTANDER)
BESIDE: list[Pair | Workload] = [FRIEND, OWN]
"""Controls: another client of the same server, and another target of the stranger, at the same
time."""
WHY = "only friends may enter"
ONLY_FRIENDS = (
    Case(FRIEND, SERVER, open=True, because=WHY),
    Case(STRANGER, BYSTANDER, open=True, because=WHY),
    Case(STRANGER, SERVER, open=False, because=WHY),
)


def own(client: Workload) -> list[str]:
    """Return the only source address that a server may report."""
    return ["192.168.0.5"]


def opened(expect: Expect) -> Expect:
    """Return the expectations after both paths were observed open; scripts begin again."""
    prober = expect.prober
    assert isinstance(prober, ScriptedProber)
    after, prober.answers = prober.answers, {"friend": [UP], "stranger": [UP]}
    expect.reachable([FRIEND, STRANGER], SERVER, because="no policy is in force yet")
    prober.answers, prober.rounds = after, 0
    return expect


def by_name(address: str) -> Callable[[Attempt, int], Observation]:
    """Return answers by which a name resolves to this address; packets to a wrong address do not
    arrive."""

    def answer(attempt: Attempt, _: int) -> Observation:
        if attempt.kind is Kind.DNS:
            found = Observation(
                attempt=attempt, verdict=Verdict.RESOLVED, at=0.0, seconds=0.0, answers=(address,)
            )
        else:
            verdict = UP if address == "192.168.0.9" else DROPPED
            found = Observation(
                attempt=attempt, verdict=verdict, at=0.0, seconds=0.0, remote=f"{address}:80"
            )
        return found

    return answer


class Disrupted(NoForeignChanges):
    """Another living run has changed something that touches every path."""

    exempt = "wait until that run has ended"

    def __init__(self) -> None:
        self.asked: list[Sequence[str]] = []
        self.looks = 0

    def look(self) -> None:
        self.looks += 1

    def excuse(self, nodes: Sequence[str], since: float | None = None) -> str:
        self.asked.append(nodes)
        return "run other is changing the cluster: gives every node VNI 4097"


def beside(expect: Expect) -> tuple[Expect, Disrupted]:
    runs = Disrupted()
    return replace(expect, context=replace(expect.context, world=StandInWorld(runs=runs))), runs
