# SPDX-License-Identifier: Apache-2.0
"""Another run's open change explains a lost ping and a dead overlay, and no other result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from conformance.errors import ControlBroken, EnvironmentBroken, Nonconformance, Unmet
from conformance.expect.case import Case
from conformance.expect.context import Context, Sink, World
from conformance.expect.owners import NoForeignChanges
from conformance.expect.subjects.commands import Commands
from conformance.expect.subjects.overlay import Overlay
from conformance.expect.subjects.ping import ExternalPaths
from conformance.expect.traffic import Expect
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.facts import Fact
from conformance.model.observation import Verdict
from conformance.pods.groups import PodPairs
from conformance.settings import load_timings
from tests.unit.conformance.builders import a_workload, an_expect
from tests.unit.conformance.expect.stand_ins import ScriptedProber

BY = "run 3f2a1c is changing the cluster: procedure hns-network"
CLIENT = a_workload("client", "windows")
SERVER = a_workload("server", address="192.168.0.9", node_address="10.0.0.14")
LOST = """Pinging 192.168.0.9 with 32 bytes of data:
Request timed out.
Ping statistics for 192.168.0.9:
    Packets: Sent = 1, Received = 0, Lost = 1 (100% loss),
"""
ANSWERED = LOST.replace("Request timed out.", "Reply from 192.168.0.9: bytes=32 time<1ms TTL=126")


@dataclass
class OneRun(NoForeignChanges):
    """Another run that is changing one node."""

    node: str
    exempt: str = "wait until that run has ended"
    asked: list[tuple[Sequence[str], float | None]] = field(default_factory=list)

    def look(self) -> None:
        """Nothing to look at."""

    def excuse(self, nodes: Sequence[str], since: float | None = None) -> str:
        self.asked.append((list(nodes), since))
        return BY if self.node in nodes else ""


@dataclass(frozen=True)
class Ended:
    output: str
    exit_code: int = 0
    seconds: float = 1.0


def ping(run: OneRun, printed: str, *, want: bool) -> list[Decision]:
    kept: list[Decision] = []
    context = Context(claims=("XSVC-4",), sink=Sink(kept), world=World(runs=run))
    prober = ScriptedProber({})
    expect = Expect(prober, load_timings(), context, prober.clock)
    commands = Commands(lambda *_: Ended(printed), load_timings(), context)
    pairs = PodPairs([(CLIENT, SERVER)])
    try:
        ExternalPaths(expect, commands, None).ping(pairs, because="x", want=want)
    finally:
        assert len(kept) == 1
    return kept


@pytest.mark.parametrize("node", [CLIENT.node, SERVER.node])
def test_a_ping_that_another_run_may_have_lost_is_inconclusive(node: str) -> None:
    run = OneRun(node)
    with pytest.raises(EnvironmentBroken, match=BY):
        ping(run, LOST, want=True)
    ((nodes, since),) = run.asked
    assert nodes == [CLIENT.node, SERVER.node]
    assert since is not None


def test_a_ping_that_no_other_run_may_have_lost_is_a_violation() -> None:
    with pytest.raises(Nonconformance, match="expected a reply, observed no reply"):
        ping(OneRun("another-node"), LOST, want=True)


def test_another_run_excuses_no_ping_that_is_answered_under_a_policy() -> None:
    run = OneRun(CLIENT.node)
    with pytest.raises(Nonconformance):
        ping(run, ANSWERED, want=False)
    assert run.asked == []


class Well:
    """Nodes whose routes are as announced."""

    def deviations(self, node: str, toward: str) -> dict[str, Fact[str]]:
        return {}


def overlay(run: OneRun, kept: list[Decision]) -> None:
    node = a_workload("node", node_address="10.0.0.10", host_network=True)
    near = a_workload("near").tcp(8080)
    client = replace(CLIENT, pod="windows")
    prober = ScriptedProber(
        {
            "windows": [Verdict.TIMED_OUT],
            "inside": [Verdict.CONNECTED],
            "node": [Verdict.REFUSED],
            "server": [Verdict.TIMED_OUT],
        }
    )
    expect = an_expect(prober, "VXLAN-4", kept=kept, world=World(runs=run))
    Overlay(expect, Well()).passes(
        Case(client, SERVER, tcp=8080, open=True, because="x"),
        Case(a_workload("inside"), near, open=True, witness=True, because="x"),
        node=node,
    )


@pytest.mark.parametrize("node", [CLIENT.node, SERVER.node])
def test_an_overlay_that_another_run_may_have_cut_is_inconclusive(node: str) -> None:
    kept: list[Decision] = []
    with pytest.raises(ControlBroken, match=f"{BY}.*, so UDP 4789 cannot be judged"):
        overlay(OneRun(node), kept)
    (decision,) = kept
    assert decision.verdict is ClaimVerdict.INCONCLUSIVE
    assert BY in decision.reason


def test_an_overlay_that_no_other_run_may_have_cut_is_blocked() -> None:
    with pytest.raises(Unmet, match="does not pass between the nodes"):
        overlay(OneRun("another-node"), [])
