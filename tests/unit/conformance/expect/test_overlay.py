"""Only an overlay that is dead while nodes and single nodes' pods are well is said to be blocked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from conformance.errors import ControlBroken, Unmet
from conformance.expect.overlay import Overlay
from conformance.expect.traffic import Context, Expect
from conformance.model.endpoint import Target
from conformance.model.observation import Observation, Verdict
from conformance.settings import load_timings
from tests.unit.conformance.expect.stand_ins import Answer, ScriptedProber, workload

UP, DROPPED, REFUSED = Verdict.CONNECTED, Verdict.TIMED_OUT, Verdict.REFUSED
NODE = replace(workload("node"), node_address="10.0.0.10", host_network=True)
LINUX, WINDOWS = workload("linux"), workload("windows", "windows")
INSIDE = workload("inside")
FAR = replace(workload("far", "windows"), address="192.168.9.9", node_address="10.0.0.14").tcp(8080)
NEAR = replace(workload("near"), address="192.168.0.7").tcp(8080)


def decide(**answers: list[Answer]) -> list[Observation]:
    prober = ScriptedProber({"linux": [UP], "inside": [UP], "node": [REFUSED], **answers})
    overlay = Overlay(Expect(prober, load_timings(), Context(claims=("VXLAN-4",)), prober.clock))
    return overlay.passes(between=[(LINUX, FAR)], within=[(INSIDE, NEAR)], node=NODE, because="firewalls let it pass")


def test_an_overlay_that_passes_is_well() -> None:
    assert [seen.verdict for seen in decide()] == [UP]


def test_a_dead_overlay_between_healthy_nodes_is_blocked_4789() -> None:
    with pytest.raises(Unmet) as unmet:
        decide(linux=[DROPPED])
    first = str(unmet.value).splitlines()[0]
    assert first.startswith("VXLAN-4  ns/linux (linux, node linux-1) -> 192.168.9.9:8080/tcp")
    assert first.endswith("UDP 4789 (VXLAN) does not pass between the nodes")
    assert "OverlayTraffic4789UDP" in str(unmet.value)


def test_an_overlay_that_passes_only_now_and_then_is_blocked_too() -> None:
    with pytest.raises(Unmet):
        decide(linux=[UP, DROPPED, UP, UP, DROPPED])


@pytest.mark.parametrize(
    ("control", "words"), [("inside", "inside one node"), ("node", "from node to node")], ids=["within", "nodes"]
)
def test_a_broken_control_leaves_the_overlay_undecided(control: str, words: str) -> None:
    script: dict[str, Any] = {"linux": [DROPPED], control: [DROPPED]}
    with pytest.raises(ControlBroken, match=rf"VXLAN-4  ns/{control} .* observed TIMED_OUT \(\d+ tries, .* {words}"):
        decide(**script)


def test_the_node_is_asked_for_every_other_node_and_not_for_itself() -> None:
    prober = ScriptedProber({"linux": [UP], "inside": [UP], "node": [REFUSED]})
    overlay = Overlay(Expect(prober, load_timings(), Context(), prober.clock))
    own: Target = replace(workload("own"), node_address=NODE.node_address).tcp(8080)
    overlay.passes(between=[(LINUX, FAR), (LINUX, own)], within=[(INSIDE, NEAR)], node=NODE, because="x")
    assert prober.batches[0] == ["linux", "linux", "inside", "node"]
