# SPDX-License-Identifier: Apache-2.0
"""Decisions about limits of the overlay after a VNI was delivered, node by node."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conformance.disrupt.overlay_change import OverlayChange, _are_near, _astray
from conformance.errors import EnvironmentBroken, Nonconformance
from conformance.expect.context import Context, Sink
from conformance.model.claim import ClaimVerdict
from conformance.model.endpoint import Pair
from conformance.model.host import LinuxFacts, RouteEntry
from tests.unit.conformance.builders import a_node, a_workload, an_expect

LINUX = a_workload("lc", "linux", node="l1", address="192.168.0.2", node_address="10.0.0.11")
WINDOWS = a_workload("ws", "windows", node="w1", address="192.168.1.4", node_address="10.0.0.14")
THERE: Pair = (LINUX, WINDOWS.tcp(8080))
BACK: Pair = (WINDOWS, LINUX.tcp(8080))
NODE = a_node("w1", "windows")


def route(destination: str, device: str, gateway: str = "") -> RouteEntry:
    return RouteEntry(
        destination=destination, gateway=gateway, device=device, onlink=False, table=254
    )


def host(*routes: RouteEntry) -> dict[str, LinuxFacts]:
    return {"l1": LinuxFacts(node="l1", links=(), routes=routes, fdb=(), neighbours=())}


DEFAULT = route("0.0.0.0/0", "eth0", "10.0.0.1")


def test_nodes_of_one_subnet_are_near_and_others_behind_a_router_are_not() -> None:
    same = host(DEFAULT, route("10.0.0.0/24", "eth0"))
    other = host(DEFAULT, route("10.9.0.0/24", "eth0"))
    assert _are_near(THERE, same)
    assert _are_near(BACK, same)
    assert not _are_near(THERE, other)
    assert not _are_near(BACK, other)


def test_a_linux_node_is_astray_where_its_route_is_not_the_one_that_the_mode_has() -> None:
    tunnel = host(DEFAULT, route("192.168.1.0/26", "vxlan.calico", "192.168.1.1"))
    direct = host(DEFAULT, route("192.168.1.0/26", "eth0", "10.0.0.14"))
    assert _astray([THERE, BACK], tunnel, by_tunnel=True) == []
    assert _astray([THERE], direct, by_tunnel=False) == []
    assert _astray([THERE], tunnel, by_tunnel=False) == ["node l1 has another kind of route to w1"]
    assert _astray([BACK], direct, by_tunnel=True) == ["node l1 has another kind of route to w1"]


def change(*, sent: set[int], vsid: int = 4096, **pause: Any) -> OverlayChange:
    vni = SimpleNamespace(sent=lambda node: sent, vsid=lambda node: vsid)
    story: Any = SimpleNamespace(vni=vni)
    return OverlayChange(story, SimpleNamespace(**pause), on_lab=True)  # type: ignore[arg-type]


@pytest.mark.parametrize(("sent", "vsid"), [({4097}, 4096), ({4097}, 69633), ({69633}, 69633)])
def test_sixteen_bits_and_a_whole_number_that_the_network_has_are_left_to_the_paths(
    sent: set[int], vsid: int
) -> None:
    assert change(sent=sent, vsid=vsid)._of_large(NODE, 69633) is None


def test_a_whole_number_decides_nothing_while_the_network_has_another() -> None:
    found = change(sent={69633})._of_large(NODE, 69633)
    assert isinstance(found, EnvironmentBroken)
    assert "the whole VNI 69633, while the node's network has another" in str(found)


@pytest.mark.parametrize(
    ("sent", "told"), [({4999}, "[4999]"), (set(), "[]"), ({4097, 4999}, "[4097, 4999]")]
)
def test_any_other_number_is_neither_of_both(sent: set[int], told: str) -> None:
    found = change(sent=sent)._of_large(NODE, 69633)
    assert isinstance(found, Nonconformance)
    assert f"node w1  expected IsolationId 4097, or 69633, observed {told}\n" in str(found)


@pytest.mark.parametrize(
    ("late", "words", "kind"),
    [
        ([{}], "Windows does not support VXLANVNI < 4096", str),
        ([{}], "the handle is invalid", Nonconformance),
        ([{}], "", EnvironmentBroken),
    ],
)
def test_a_pod_that_waits_shows_the_limit_only_where_its_refusal_names_the_vni(
    late: list[Any], words: str, kind: type
) -> None:
    found = change(sent=set(), wait=lambda *_, **__: (late, 3.0), refusal=lambda pod: words)
    assert isinstance(found._of_small(NODE, "p", "Windows refuses it"), kind)


def test_a_pod_that_starts_shows_that_the_limit_is_gone() -> None:
    found = change(sent=set(), wait=lambda *_, **__: ([], 3.0))
    ruling: Any = found._of_small(NODE, "p", "Windows refuses it")
    assert ruling.verdict is ClaimVerdict.LIFTED


def test_a_named_cluster_is_cut_off_for_no_claim_and_each_node_says_so() -> None:
    sink = Sink()
    expect = an_expect(SimpleNamespace(clock=None), "VXLAN-9", sink=sink)
    vni = SimpleNamespace(facts=SimpleNamespace(by_os=lambda os: [NODE]))
    now = SimpleNamespace(linux_nodes=[], between=[])
    vni.hosts = None
    story = SimpleNamespace(vni=vni, windows=["w1"], expect=expect, now=now)
    told = OverlayChange(story, SimpleNamespace(), on_lab=False)  # type: ignore[arg-type]
    told.cross_subnet(because="-")
    told.another_port(because="-")
    told.small_vni(because="-")
    told.end()
    assert [(one.claim, one.target, one.verdict) for one in sink.decisions] == [
        (claim, "w1", ClaimVerdict.NOT_RUN) for claim in ("VXLAN-12", "VXLAN-11", "XVX-3")
    ]


def test_a_failed_limitation_stops_no_other_step_and_the_worst_failure_ends_the_test() -> None:
    tried: list[str] = []
    failures: dict[str, Exception] = {
        "VXLAN-11": EnvironmentBroken("a pod is gone"),
        "XVX-4": Nonconformance("XVX-4: open"),
    }

    class Expectation:
        context = Context()

        def __init__(self, claim: str) -> None:
            self.claim = claim

        def limitation(self, *_: Any) -> None:
            tried.append(self.claim)
            if error := failures.get(self.claim):
                raise error

    story: Any = SimpleNamespace(
        begin=lambda: 4096,
        now=SimpleNamespace(among=[]),
        expect=SimpleNamespace(context=Context(), of_claim=Expectation),
    )
    steps: Any = OverlayChange(story, SimpleNamespace(), on_lab=True)  # type: ignore[arg-type]
    for claim in ("VXLAN-11", "VXLAN-12", "XVX-4"):
        steps._limited(claim, lambda: None, [THERE], [], "-")
    assert tried == ["VXLAN-11", "VXLAN-12", "XVX-4"]
    with pytest.raises(Nonconformance, match="XVX-4: open") as caught:
        steps.end()
    assert caught.value.__notes__ == ["  also      a pod is gone"]
