# SPDX-License-Identifier: Apache-2.0
"""A connection or a refusal shows that a pod reaches addresses outside the pools; silence shows
that it does not."""

from __future__ import annotations

import pytest

from conformance.errors import MissingCapability, Nonconformance
from conformance.expect.subjects.way_out import WayOut
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.endpoint import Addressing, Target
from conformance.model.facts import Fact
from conformance.model.observation import Verdict
from tests.unit.conformance.builders import a_workload, an_expect
from tests.unit.conformance.expect.stand_ins import ScriptedProber

API = Target(
    host="10.0.0.4", port=6443, protocol="tcp", path=Addressing.EXTERNAL, name="the API server"
)


def asked(answer: Verdict, natted: str = "True") -> list[Decision]:
    kept: list[Decision] = []
    expect = an_expect(
        ScriptedProber({"w": [answer], "l": [Verdict.CONNECTED]}), "XNAT-3", kept=kept
    )
    clients = [a_workload("w", "windows", node="windows-1"), a_workload("l")]
    pools = {"IPPool a .spec.natOutgoing": Fact(natted, "read")}
    WayOut(expect).leads(clients, [API], pools, because="x")
    return kept


@pytest.mark.parametrize("answer", [Verdict.CONNECTED, Verdict.REFUSED])
def test_an_answer_of_either_kind_shows_the_way_out(answer: Verdict) -> None:
    assert {one.verdict for one in asked(answer)} == {ClaimVerdict.CONFIRMED}


@pytest.mark.parametrize("answer", [Verdict.TIMED_OUT, Verdict.UNREACHABLE])
def test_silence_is_wrong_and_names_what_translates(answer: Verdict) -> None:
    with pytest.raises(Nonconformance, match="expected an answer") as wrong:
        asked(answer)
    assert "OutBoundNAT of the endpoint on node windows-1" in str(wrong.value)


def test_without_nat_nothing_asks_for_it() -> None:
    with pytest.raises(MissingCapability, match="no outgoing NAT is configured"):
        asked(Verdict.TIMED_OUT, natted="False")
