# SPDX-License-Identifier: Apache-2.0
"""An overlay is called blocked only if it is dead while nodes, and pods within each node, can
connect."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from conformance.errors import ControlBroken, ProbeBroken, Unmet, UsageProblem
from conformance.expect.case import Case, Paths
from conformance.expect.subjects.overlay import FlannelFabric, Overlay
from conformance.model.attempt import Attempt, Kind
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.endpoint import Pair, Target
from conformance.model.facts import Fact
from conformance.model.observation import Observation, Verdict
from tests.unit.conformance.builders import a_workload, an_expect
from tests.unit.conformance.expect.stand_ins import Answer, ScriptedProber, observation

UP, DROPPED, REFUSED = Verdict.CONNECTED, Verdict.TIMED_OUT, Verdict.REFUSED
NODE = a_workload("node", node_address="10.0.0.10", host_network=True)
LINUX, WINDOWS = a_workload("linux"), a_workload("windows", "windows")
INSIDE = a_workload("inside")
FAR = a_workload("far", "windows", address="192.168.9.9", node_address="10.0.0.14").tcp(8080)
NEAR = a_workload("near", address="192.168.0.7").tcp(8080)
ROWS = (
    Case(LINUX, FAR, open=True, because="firewalls let it pass"),
    Case(INSIDE, NEAR, open=True, witness=True, because="it is inside a node"),
)
"""A path between nodes, and one inside a node."""


@dataclass
class Nodes:
    """What is otherwise on a node toward another one."""

    wrong: dict[tuple[str, str], str] = field(default_factory=dict)
    broken: bool = False

    def deviations(self, node: str, toward: str) -> dict[str, Fact[str]]:
        if self.broken:
            raise ProbeBroken(f"node {node}: nothing came")
        name = f"route of node {node} to block 192.168.9.0/26 of node {toward}"
        return (
            {name: Fact(self.wrong[node, toward], "routes")} if (node, toward) in self.wrong else {}
        )


WELL = Nodes()


def decide(
    nodes: Nodes = WELL,
    kept: list[Decision] | None = None,
    more: Sequence[Pair] = (),
    **answers: list[Answer],
) -> list[Observation]:
    prober = ScriptedProber(
        {
            "linux": [UP],
            "inside": [UP],
            "node": [REFUSED],
            "far": [DROPPED],
            "other": [DROPPED],
            **answers,
        }
    )
    overlay = Overlay(an_expect(prober, "VXLAN-4", kept=kept), nodes)
    between = Paths([(LINUX, FAR), *more], open=True, because="firewalls let it pass")
    return overlay.passes(between, ROWS[1], node=NODE)


def test_an_overlay_that_passes_is_well() -> None:
    assert [seen.verdict for seen in decide()] == [UP]


def test_a_dead_overlay_between_healthy_nodes_is_blocked_4789() -> None:
    with pytest.raises(Unmet) as unmet:
        decide(linux=[DROPPED])
    first = str(unmet.value).splitlines()[0]
    assert first.startswith("VXLAN-4: linux-1 to windows-1 (8080/tcp): expected CONNECTED")
    assert first.endswith("UDP 4789 (VXLAN) does not pass between the nodes")
    assert "  routes    route, forwarding entry and VNI are right on both nodes" in str(unmet.value)
    assert "OverlayTraffic4789UDP" in str(unmet.value)


@pytest.mark.parametrize(
    "way", [("linux-1", "windows-1"), ("windows-1", "linux-1")], ids=["there", "back"]
)
def test_a_missing_route_is_named_in_the_place_of_udp_4789(way: tuple[str, str]) -> None:
    kept: list[Decision] = []
    with pytest.raises(ControlBroken) as broken:
        decide(Nodes({way: "no route"}), kept, linux=[DROPPED])
    assert str(broken.value).splitlines()[0] == (
        "VXLAN-4: linux-1 to windows-1 (8080/tcp): control failed: expected CONNECTED, observed TIMED_OUT "
        "(241 tries, 60.0 s): "
        f"route of node {way[0]} to block 192.168.9.0/26 of node {way[1]}: no route, so UDP "
        "4789 cannot be judged"
    )
    assert [seen.verdict for seen in kept] == [ClaimVerdict.INCONCLUSIVE]
    assert "UDP 4789 (VXLAN) does not pass" not in str(broken.value)


def test_a_dead_route_without_another_reason_is_blocked_4789_although_others_have_one() -> None:
    kept: list[Decision] = []
    other = a_workload(
        "other",
        "windows",
        node="windows-2",
        address="192.168.8.8",
        node_address="10.0.0.15",
    )
    with pytest.raises(Unmet) as unmet:
        decide(
            Nodes({("linux-1", "windows-2"): "no route"}),
            kept,
            [(LINUX, other.tcp(8080))],
            linux=[DROPPED],
        )
    assert (
        "also      other paths do not connect for another reason: route of node linux-1 to block"
        in str(unmet.value)
    )
    assert {seen.target: seen.verdict for seen in kept} == {
        "windows-1": ClaimVerdict.UNMET,
        "windows-2": ClaimVerdict.INCONCLUSIVE,
    }


def test_nodes_that_cannot_be_read_leave_udp_4789_and_say_so() -> None:
    with pytest.raises(Unmet) as unmet:
        decide(Nodes(broken=True), linux=[DROPPED])
    first = str(unmet.value).splitlines()[0]
    assert first.endswith(
        "): UDP 4789 (VXLAN) probably does not pass between the nodes; routes of node linux-1 could not be read"
    )
    assert (
        "  routes    routes of node linux-1 could not be read: node linux-1: nothing came"
        in str(unmet.value)
    )


def test_an_overlay_that_passes_now_and_then_is_not_blocked() -> None:
    kept: list[Decision] = []
    with pytest.raises(
        ControlBroken,
        match="was CONNECTED: this overlay passes packets, so UDP 4789 cannot be judged",
    ):
        decide(kept=kept, linux=[UP, DROPPED, UP, UP, DROPPED])
    assert [seen.verdict for seen in kept] == [ClaimVerdict.INCONCLUSIVE]


@pytest.mark.parametrize(
    ("source", "goal", "protocol"),
    [
        ("linux", "far", "udp"),
        ("linux", "far", "tcp"),
        ("far", "linux", "tcp"),
        ("far", "linux", "udp"),
    ],
)
@pytest.mark.parametrize("verdict", [UP, REFUSED])
def test_whatever_passes_between_two_nodes_shows_that_udp_4789_does(
    source: str, goal: str, protocol: str, verdict: Verdict
) -> None:
    def answers(attempt: Attempt, _: int) -> Observation:
        assert attempt.target is not None
        backend = attempt.target.backends[0].pod if attempt.target.backends else ""
        passes = (attempt.source.pod, backend, attempt.kind) == (source, goal, Kind(protocol))
        return observation(attempt, verdict if passes else DROPPED)

    kept: list[Decision] = []
    with pytest.raises(ControlBroken) as broken:
        decide(kept=kept, linux=[answers], far=[answers])
    first = str(broken.value).splitlines()[0]
    assert first.endswith(
        f"was {verdict}: this overlay passes packets, so UDP 4789 cannot be judged"
    )
    assert [seen.verdict for seen in kept] == [ClaimVerdict.INCONCLUSIVE]


def test_what_passes_between_other_nodes_says_nothing_of_these() -> None:
    kept: list[Decision] = []
    other = a_workload(
        "other",
        "windows",
        node="windows-2",
        address="192.168.8.8",
        node_address="10.0.0.15",
    )
    with pytest.raises(Unmet):
        decide(kept=kept, more=[(LINUX, other.tcp(8080))], linux=[DROPPED], other=[UP])
    assert {seen.target: seen.verdict for seen in kept} == {
        "windows-1": ClaimVerdict.UNMET,
        "windows-2": ClaimVerdict.INCONCLUSIVE,
    }


@pytest.mark.parametrize(
    ("control", "words"),
    [("inside", "pods inside one node"), ("node", "nodes")],
    ids=["within", "nodes"],
)
def test_a_broken_control_leaves_the_overlay_undecided(control: str, words: str) -> None:
    script: dict[str, Any] = {"linux": [DROPPED], control: [DROPPED]}
    with pytest.raises(ControlBroken) as broken:
        decide(**script)
    first, path, *_ = str(broken.value).splitlines()
    assert re.search(
        rf"^VXLAN-4: .*: control failed: .*, observed TIMED_OUT \(\d+ tries, .*: {words} do ", first
    )
    assert path.startswith(f"  path      ns/{control} ")


def test_the_node_is_asked_for_every_other_node_and_not_for_itself() -> None:
    prober = ScriptedProber({"linux": [UP], "inside": [UP], "node": [REFUSED]})
    overlay = Overlay(an_expect(prober), WELL)
    own: Target = a_workload("own", node_address=NODE.node_address).tcp(8080)
    overlay.passes(Case(LINUX, [FAR, own], open=True, because="x"), ROWS[1], node=NODE)
    assert prober.batches[0] == ["linux", "linux", "inside", "node"]


@pytest.mark.parametrize("dead", [False, True])
def test_where_flannel_lays_the_routes_what_has_a_pods_address_is_judged_by_traffic_alone(
    dead: bool,
) -> None:
    prober = ScriptedProber(
        {"linux": [DROPPED if dead else UP], "inside": [UP], "node": [REFUSED], "far": [DROPPED]}
    )
    expect = an_expect(prober, "BGP-5")
    if dead:
        with pytest.raises(
            Unmet, match="traffic with a pod's address probably does not pass between the nodes"
        ):
            FlannelFabric(expect).passes(*ROWS, node=NODE)
    else:
        seen = FlannelFabric(expect).passes(*ROWS, node=NODE)
        assert [one.verdict for one in seen] == [UP]


def test_witnesses_alone_ask_nothing() -> None:
    overlay = Overlay(an_expect(ScriptedProber({}), "VXLAN-4"), WELL)
    with pytest.raises(UsageProblem, match=r"^overlay\.passes.*: name a case between nodes.*$"):
        overlay.passes(ROWS[1], node=NODE)
