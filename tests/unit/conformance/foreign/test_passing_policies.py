# SPDX-License-Identifier: Apache-2.0
"""A foreign policy that exists only for a while during a probe: paths that it may have closed
decide nothing about Calico."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken, Nonconformance, Wavered
from conformance.expect.case import Case
from conformance.expect.context import Context, Sink
from conformance.expect.figures import PolicyChange
from conformance.expect.traffic import Expect
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.settings import load_timings
from tests.unit.conformance.builders import a_workload, an_object
from tests.unit.conformance.expect.network import Network, lossy, never
from tests.unit.conformance.expect.stand_in_world import StandInWorld
from tests.unit.conformance.expect.stand_ins import BYSTANDER, target
from tests.unit.conformance.foreign.clusters import V3, Cluster, known

LAB, FIELD = load_timings(lab=True), load_timings()
CLIENT = a_workload("client")
SERVER = replace(target(), backends=(a_workload("server"),))
MOST = 0.8
"""Of the packets vanish: a path that wavers."""
BEGUN, EVERY, LASTS = 100.0, 1.4, 0.9
"""s.  When the path is asked first; from one coming of the policy to the next, and how long it stays."""


class Busy(Cluster):
    """A cluster whose owner makes a policy and takes it away, again and again."""

    action = "Deny"

    def __init__(self, now: Callable[[], float], there: Callable[[float], str]) -> None:
        super().__init__(V3)
        self.now, self.there = now, there

    def objects(
        self, api: str, kind: str, space: str = "", labels: str = ""
    ) -> list[dict[str, Any]]:
        version = self.there(self.now()) if kind == "GlobalNetworkPolicy" else ""
        found = an_object(
            "company-wide",
            types=["Ingress"],
            selector="who knows(",
            ingress=[{"action": self.action}],
        )
        return (
            [found | {"metadata": found["metadata"] | {"resourceVersion": version}}]
            if version
            else []
        )


def comes_and_goes(moment: float) -> str:
    return f"{moment // EVERY:.0f}" if moment % EVERY < LASTS else ""


def came_and_went(moment: float) -> str:
    """Between the first tries and the last, for a moment in which no try ends."""
    return "1" if BEGUN + 4 < moment < BEGUN + 6 else ""


def stays(_: float) -> str:
    return "7"


def nobodys(_: float) -> str:
    return ""


def judged(
    there: Callable[[float], str], monkeypatch: pytest.MonkeyPatch
) -> tuple[Exception | None, list[ClaimVerdict]]:
    network, kept = Network(LAB), list[Decision]()
    monkeypatch.setattr("conformance.foreign.policies.time.monotonic", lambda: network.clock.now)
    network.clock.now = BEGUN
    policies = known(Busy(lambda: network.clock.now, there))
    network.says(CLIENT, SERVER, lossy(MOST, 7))
    context = Context(
        claims=("CONN-3",),
        sink=Sink(kept),
        world=StandInWorld(others=policies, policies_there=policies),
    )
    try:
        Expect(network, LAB, context, network.clock).reachable(CLIENT, SERVER, because="it is open")
    except (EnvironmentBroken, Nonconformance) as failed:
        return failed, [one.verdict for one in kept]
    return None, [one.verdict for one in kept]


@pytest.mark.parametrize("there", [comes_and_goes, came_and_went])
def test_a_path_that_wavers_while_a_policy_of_others_comes_and_goes_is_not_called_wrong(
    there: Callable[[float], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    failed, verdicts = judged(there, monkeypatch)
    assert verdicts == [ClaimVerdict.INCONCLUSIVE]
    assert (
        "GlobalNetworkPolicy company-wide may deny ingress of ns/server"
        in str(failed).splitlines()[0]
    )


@pytest.mark.parametrize("there", [stays, nobodys])
def test_a_path_that_wavers_beside_policies_that_stay_as_they_are_is_wrong(
    there: Callable[[float], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    failed, verdicts = judged(there, monkeypatch)
    assert isinstance(failed, Nonconformance)
    assert verdicts == [ClaimVerdict.VIOLATED]


HELD = 3.5
"""s.  A denial lasts so long from its policy on: it is agreed, and then leaks."""


def leaks(network: Network, policies: Any) -> Exception | None:
    """What a test makes of a denial that leaks soon after it was agreed."""
    change = PolicyChange(what="policy", at=network.clock.now, enforced_at="target")
    in_force: list[float] = []
    context = Context(
        claims=("POL-1",),
        world=StandInWorld(
            change=lambda: change if in_force else None, others=policies, policies_there=policies
        ),
    )
    network.passes.clear()

    class Policies:
        def apply(self) -> None:
            began = network.clock.now
            in_force.append(began)
            network.says(CLIENT, SERVER, lambda moment: moment >= began + HELD)

    expect = Expect(network, FIELD, context, network.clock)
    try:
        expect.change(
            Policies(),
            Case(CLIENT, BYSTANDER, open=True, because="no policy selects it"),
            Case(CLIENT, SERVER, open=False, because="nobody enters"),
        )
    except (EnvironmentBroken, Nonconformance) as failed:
        return failed
    return None


def test_a_leak_beside_a_policy_that_came_is_asked_again_and_wrong_once_that_stood_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = Network(FIELD)
    monkeypatch.setattr("conformance.foreign.policies.time.monotonic", lambda: network.clock.now)
    cluster = Busy(lambda: network.clock.now, lambda moment: "1" if moment > BEGUN + 1 else "")
    cluster.action = "Allow"
    policies = known(cluster)
    policies.look()
    network.clock.now = BEGUN
    first, second = leaks(network, policies), leaks(network, policies)
    assert isinstance(first, Wavered)
    assert "GlobalNetworkPolicy company-wide may allow ingress of ns/server" in str(first)
    assert "(it appeared, changed or disappeared at that time)" in str(first)
    assert isinstance(second, Nonconformance), second
    assert "a packet arrived after the path had been closed" in str(second)


def test_what_a_policy_that_stays_may_give_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = Network(FIELD)
    monkeypatch.setattr("conformance.foreign.policies.time.monotonic", lambda: network.clock.now)
    policies = known(Busy(lambda: network.clock.now, stays))
    policies.look()
    network.clock.now = BEGUN
    network.says(CLIENT, SERVER, never)
    context = Context(
        claims=("CONN-3",), world=StandInWorld(others=policies, policies_there=policies)
    )
    with pytest.raises(EnvironmentBroken, match="company-wide may deny ingress") as told:
        Expect(network, FIELD, context, network.clock).reachable(
            CLIENT, SERVER, because="it is open"
        )
    assert not isinstance(told.value, Wavered)
