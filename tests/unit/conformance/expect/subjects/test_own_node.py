# SPDX-License-Identifier: Apache-2.0
"""A client whose packets arrive with the address of the backend's node is admitted, or the
limitation is gone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from conformance.errors import ControlBroken, Nonconformance, NotAboutThisCluster
from conformance.expect.case import Case
from conformance.expect.subjects.own_node import OwnNode
from conformance.model.attempt import Attempt
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.endpoint import Addressing
from conformance.model.observation import Observation, Verdict
from conformance.pods.services import Service
from tests.unit.conformance.builders import a_workload, an_expect
from tests.unit.conformance.expect.stand_ins import ScriptedProber, observation
from tests.unit.conformance.expect.subjects.test_service_source import (
    NEW,
    facts,
    node,
    windows_nodes,
)

UP, DROPPED = Verdict.CONNECTED, Verdict.TIMED_OUT
SERVER = a_workload("server", "windows", address="192.168.0.9")
STRANGER = a_workload("stranger", "windows", address="192.168.0.71")
ADMITTED = a_workload("admitted")
SERVICE = Service(
    name="web",
    namespace="ns",
    domain="x",
    cluster_ip="10.96.0.9",
    node_port=None,
    backends=(SERVER,),
)


@dataclass
class Town:
    """What gets through under a policy that admits one client."""

    by_service: Verdict = UP
    directly: Verdict = DROPPED
    admitted: Verdict = UP
    at_times: Verdict | None = None
    kept: list[Decision] = field(default_factory=list)
    undecided: dict[str, str] = field(default_factory=dict)

    def judge(self) -> list[Any]:
        prober = ScriptedProber({"stranger": [self._stranger], "admitted": [self._admitted]})
        expect = an_expect(prober, "XSVC-5", kept=self.kept)
        OwnNode(expect).lets_in(
            Case(STRANGER, SERVICE.by_address, open=True, because="its own node"),
            Case(STRANGER, SERVER, tcp=8080, open=False, witness=True, because="no rule"),
            Case(ADMITTED, SERVER, tcp=8080, open=True, witness=True, because="a rule"),
            undecided=self.undecided,
        )
        return [item.verdict for item in self.kept]

    def _stranger(self, attempt: Attempt, number: int) -> Observation:
        assert attempt.target
        if attempt.target.path is Addressing.POD_IP:
            return observation(attempt, self.directly)
        return observation(
            attempt, self.at_times if self.at_times and number % 2 else self.by_service
        )

    def _admitted(self, attempt: Attempt, number: int) -> Observation:
        return observation(attempt, self.admitted)


def test_a_stranger_that_gets_in_confirms_the_limitation() -> None:
    assert Town().judge() == [ClaimVerdict.CONFIRMED]


def test_a_stranger_that_stays_out_lifts_it() -> None:
    assert Town(by_service=DROPPED).judge() == [ClaimVerdict.LIFTED]


def test_where_direct_server_return_is_not_known_a_closed_path_decides_nothing() -> None:
    unknown = {STRANGER.node: "its command line could not be read"}
    town = Town(by_service=DROPPED, undecided=unknown)
    assert town.judge() == [ClaimVerdict.NOT_RUN]
    assert (
        "direct server return is not known (its command line could not be read)"
        in town.kept[0].reason
    )
    assert Town(undecided=unknown).judge() == [ClaimVerdict.CONFIRMED]


def test_one_that_gets_in_by_pod_address_too_shows_nothing() -> None:
    with pytest.raises(
        ControlBroken, match=r"expected TIMED_OUT, observed CONNECTED.* by pod address"
    ):
        Town(directly=UP).judge()


def test_where_the_admitted_stay_out_too_nothing_is_shown() -> None:
    with pytest.raises(ControlBroken):
        Town(admitted=DROPPED).judge()


def test_a_path_that_is_now_open_and_now_closed_is_neither() -> None:
    town = Town(at_times=DROPPED)
    with pytest.raises(ControlBroken, match="CONNECTED each time, or TIMED_OUT each time"):
        town.judge()
    assert [item.verdict for item in town.kept] == [ClaimVerdict.INCONCLUSIVE]


def test_a_path_that_is_refused_each_time_is_neither_documented_nor_closed() -> None:
    town = Town(by_service=Verdict.REFUSED)
    with pytest.raises(
        Nonconformance,
        match=r"expected CONNECTED each time, or TIMED_OUT each time, observed REFUSED",
    ):
        town.judge()
    assert [item.verdict for item in town.kept] == [ClaimVerdict.VIOLATED]


def test_it_is_about_nodes_without_an_overlay_alone() -> None:
    there = windows_nodes(facts(node("bridge", NEW), plane="l2bridge"))
    assert there.on_l2bridge() == ("bridge",)
    with pytest.raises(NotAboutThisCluster, match=r"has an overlay \(over: overlay \(stand-in\)\)"):
        windows_nodes(facts(node("over", NEW))).on_l2bridge()
