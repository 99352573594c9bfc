# SPDX-License-Identifier: Apache-2.0
"""Paths are decided independently: one that leaks, one that cannot be asked, and those that are as they should be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from conformance.errors import ControlBroken, EnvironmentBroken, Nonconformance, ProbeBroken
from conformance.expect.case import Case
from conformance.expect.context import Sink
from conformance.expect.traffic import Expect
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.endpoint import OS, Workload
from conformance.model.observation import Verdict
from tests.unit.conformance.builders import a_workload, an_expect
from tests.unit.conformance.expect.denial import blocked
from tests.unit.conformance.expect.stand_ins import BYSTANDER, Answer, ScriptedProber, target

UP, DROPPED = Verdict.CONNECTED, Verdict.TIMED_OUT
FRIEND = a_workload("friend")


def on(node: str, name: str, os: OS = "windows") -> Workload:
    return a_workload(name, os, node=node)


STRANGERS = [on("windows-1", "one"), on("windows-2", "two"), on("windows-3", "three")]
SERVER = replace(target(), backends=(on("windows-9", "server"),))


def expecting(**answers: list[Answer]) -> tuple[Expect, dict[str, Decision]]:
    """Every stranger's way to the server was open before; what is decided afterwards, by the source's node."""
    kept: dict[str, Decision] = {}
    prober = ScriptedProber({name: [UP] for name in ("friend", "one", "two", "three")})

    class BySource(Sink):
        def keep(self, decisions: Sequence[Decision]) -> None:
            kept.update({item.source: item for item in decisions})

    expectation = an_expect(prober, "POL-1", sink=BySource())
    expectation.control([FRIEND, *STRANGERS], SERVER, because="no policy is in force yet")
    assert kept == {}
    closed_after: dict[str, list[Answer]] = {
        "friend": [UP],
        "one": [DROPPED],
        "two": [DROPPED],
        "three": [DROPPED],
    }
    prober.answers, prober.rounds = closed_after | answers, 0
    return expectation, kept


def closes(expect: Expect) -> None:
    because = "their label is missing"
    expect.matrix(
        Case(STRANGERS, BYSTANDER, open=True, because=because),
        Case(FRIEND, SERVER, open=True, because=because),
        Case(STRANGERS, SERVER, open=False, because=because),
    )


def closed(kept: dict[str, Decision]) -> list[ClaimVerdict]:
    return [kept[stranger.node].verdict for stranger in STRANGERS]


def test_each_route_that_is_as_it_should_be_is_confirmed() -> None:
    expect, kept = expecting()
    closes(expect)
    assert closed(kept) == [ClaimVerdict.CONFIRMED] * 3


def test_a_node_that_leaks_is_violated_alone() -> None:
    expect, kept = expecting(two=[UP])
    with pytest.raises(Nonconformance) as failed:
        closes(expect)
    first, *rest = str(failed.value).splitlines()
    assert "windows-2 does not enforce the policy" in first
    assert any("VIOLATED windows-2 -> windows-9" in line and "as expected" in line for line in rest)
    assert closed(kept) == [ClaimVerdict.CONFIRMED, ClaimVerdict.VIOLATED, ClaimVerdict.CONFIRMED]


def test_a_node_whose_probe_breaks_is_inconclusive_alone() -> None:
    expect, kept = expecting(two=[ProbeBroken("exec lost its status")])
    with pytest.raises(ProbeBroken, match="lost its status"):
        closes(expect)
    assert closed(kept) == [
        ClaimVerdict.CONFIRMED,
        ClaimVerdict.INCONCLUSIVE,
        ClaimVerdict.CONFIRMED,
    ]


def test_a_leak_is_told_before_a_probe_that_broke_and_both_are_named() -> None:
    expect, kept = expecting(
        one=[ProbeBroken("exec lost its status")], three=[*([DROPPED] * 5), UP]
    )
    with pytest.raises(Nonconformance) as failed:
        closes(expect)
    text = str(failed.value)
    assert "windows-3" in text.splitlines()[0]
    assert "VIOLATED windows-3 -> windows-9" in text
    assert "INCONCLUSIVE windows-1 -> windows-9" in text
    assert closed(kept) == [
        ClaimVerdict.INCONCLUSIVE,
        ClaimVerdict.CONFIRMED,
        ClaimVerdict.VIOLATED,
    ]


def test_a_pod_that_restarted_makes_its_own_routes_inconclusive_and_no_others() -> None:
    expect, kept = expecting()
    expect.prober.restarted = {"two"}  # type: ignore[attr-defined]
    with pytest.raises(EnvironmentBroken, match=r"ns/two .* restarted"):
        closes(expect)
    assert closed(kept) == [
        ClaimVerdict.CONFIRMED,
        ClaimVerdict.INCONCLUSIVE,
        ClaimVerdict.CONFIRMED,
    ]


def test_a_server_that_nobody_reaches_makes_every_route_to_it_inconclusive() -> None:
    expect, kept = expecting(friend=[DROPPED])
    with pytest.raises(ControlBroken, match=r"control failed: (?s:.*)path +ns/friend"):
        blocked(
            expect,
            STRANGERS,
            SERVER,
            because="x",
            beside=[FRIEND, *((stranger, BYSTANDER) for stranger in STRANGERS)],
        )
    assert closed(kept) == [ClaimVerdict.INCONCLUSIVE] * 3
