# SPDX-License-Identifier: Apache-2.0
"""The source address that a server saw by ClusterIP, and a policy's effect on it, decide about
nodes that the claim concerns."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from conformance.errors import (
    ControlBroken,
    MissingCapability,
    Nonconformance,
    NotAboutThisCluster,
    ProbeBroken,
)
from conformance.expect.addresses import Addresses
from conformance.expect.subjects.service_source import ServiceSource
from conformance.expect.subjects.windows_nodes import WindowsNodes
from conformance.model.attempt import Attempt, Kind
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.endpoint import Addressing, Workload
from conformance.model.facts import Fact, Facts, NodeFacts
from conformance.model.observation import Observation, Verdict
from conformance.pods.groups import PodPairs
from conformance.pods.placement import Placement
from conformance.pods.services import Service
from tests.unit.conformance.builders import a_node, a_workload, an_expect, some_facts
from tests.unit.conformance.expect.stand_ins import ScriptedProber, observation, told

UP, DROPPED = Verdict.CONNECTED, Verdict.TIMED_OUT
OLD, ABLE, NEW = (17763, 1397), (17763, 1432), (20348, 2762)
CLIENT = a_workload("client", "windows", address="192.168.0.70")
STRANGER = a_workload("stranger", "windows", address="192.168.0.71")
SERVER = a_workload("server", address="192.168.0.9")
SERVICE = Service(
    name="web",
    namespace="ns",
    domain="x",
    cluster_ip="10.96.0.9",
    node_port=None,
    backends=(SERVER,),
)
OWN, SOURCE_VIP, NODE = CLIENT.address, "192.168.0.66", "10.0.0.11"


def node(
    name: str, build: tuple[int, int], *, schedulable: bool = True, dsr: bool | None = True
) -> NodeFacts:
    tunnel = {"projectcalico.org/IPv4VXLANTunnelAddr": "192.168.0.65"}
    known = {"windows_build": build, "annotations": tunnel, "dsr": Fact(dsr, "stand-in")}
    return a_node(name, "windows", schedulable=schedulable, **known)


def facts(*nodes: NodeFacts, plane: str | None = "overlay") -> Facts:
    return some_facts(*(replace(node, plane=Fact(plane, "stand-in")) for node in nodes))


@dataclass
class Town:
    """A client, its neighbour, and a server that says whom it sees."""

    by_service: str = SOURCE_VIP
    at_times: str = ""
    """Seen by ClusterIP instead, every second time."""
    directly: str = OWN
    datagrams: str = ""
    """Seen of these by ClusterIP; empty: the same."""
    admitted: dict[tuple[str, Addressing], bool] = field(default_factory=dict)
    """Under the policy: (pod, addressing) that gets through; empty: no policy is in force."""
    kept: list[Decision] = field(default_factory=list)

    def source(self, dsr: bool | None = False, **about: Any) -> ServiceSource:
        prober = ScriptedProber({"client": [self._answer], "stranger": [self._answer]})
        expect = an_expect(prober, "SVC-1", kept=self.kept)
        known = facts(node("windows-1", NEW, dsr=dsr), **about)
        there = windows_nodes(known)
        (there.with_dsr if dsr else there.without_dsr)()
        return ServiceSource(
            expect,
            known,
            PodPairs([(CLIENT, SERVER)]),
            STRANGER,
            lambda _: SERVICE.by_address,
            there,
        )

    def _answer(self, attempt: Attempt, number: int) -> Observation:
        assert attempt.target
        path = attempt.target.path
        if attempt.target.host == CLIENT.address:  # no policy selects it
            return observation(attempt, UP)
        if self.admitted and not self.admitted.get((attempt.source.pod, path)):
            return observation(attempt, DROPPED)
        by_service = self.at_times if self.at_times and number % 2 else self.by_service
        by_service = self.datagrams or by_service if attempt.kind is Kind.UDP else by_service
        seen = self.directly if path is Addressing.POD_IP else by_service
        return observation(
            attempt, UP, seen_client=seen if attempt.source.pod == "client" else STRANGER.address
        )


BY_ADDRESS, BY_SERVICE = ("client", Addressing.POD_IP), ("client", Addressing.CLUSTER_IP)
ALONE, EVERYWHERE = {BY_ADDRESS: True}, {BY_ADDRESS: True, BY_SERVICE: True}


def limited(town: Town, under: dict[tuple[str, Addressing], bool], **about: Any) -> None:
    source = town.source(**about)
    source.is_rewritten(because="no DSR")
    town.admitted = under
    source.admits_by_address_alone(because="the policy names the client")


def capable(town: Town, under: dict[tuple[str, Addressing], bool]) -> None:
    source = town.source(dsr=True)
    source.is_kept(because="DSR")
    town.admitted = under
    source.admits_everywhere(because="the policy names the client")


def test_a_hidden_client_that_the_policy_does_not_know_confirms_the_limitation() -> None:
    town = Town()
    limited(town, ALONE)
    assert told(town.kept) == []


def test_a_client_that_is_seen_and_admitted_lifts_it() -> None:
    town = Town(by_service=OWN)
    limited(town, EVERYWHERE)
    assert "the server saw the pod's own address 192.168.0.70" in told(town.kept)[0]


def test_a_client_that_is_seen_and_not_admitted_is_a_violation() -> None:
    town = Town(by_service=OWN)
    with pytest.raises(Nonconformance, match="expected CONNECTED, observed TIMED_OUT"):
        limited(town, ALONE)
    assert told(town.kept) == []


def test_a_hidden_client_that_is_admitted_all_the_same_is_a_violation() -> None:
    with pytest.raises(Nonconformance, match="expected TIMED_OUT, observed CONNECTED"):
        limited(Town(), EVERYWHERE)


@pytest.mark.parametrize("plane", ["overlay", "l2bridge"])
def test_another_address_than_the_planes_is_a_violation(plane: str) -> None:
    right, wrong = (SOURCE_VIP, NODE) if plane == "overlay" else (NODE, SOURCE_VIP)
    with pytest.raises(Nonconformance) as raised:
        limited(Town(by_service=wrong), ALONE, plane=plane)
    first, *rest = str(raised.value).splitlines()
    assert first.startswith("SVC-1: windows-1 to Service web (80/tcp): ")
    whose = {SOURCE_VIP: "source VIP of windows-1", NODE: "address of node windows-1"}
    assert (
        f"expected source {right} ({whose[right]}), observed source {wrong} ({whose[wrong]}) ("
        in first
    )
    assert any("--enable-dsr False" in line for line in rest)
    limited(Town(by_service=right), ALONE, plane=plane)


def test_a_client_that_is_seen_and_admitted_confirms_dsr() -> None:
    capable(Town(by_service=OWN), EVERYWHERE)


def test_a_rewritten_source_violates_dsr() -> None:
    with pytest.raises(
        Nonconformance,
        match=r"source 192\.168\.0\.70 .ns/client., observed source 192\.168\.0\.66 ",
    ):
        capable(Town(), EVERYWHERE)


def test_datagrams_whose_source_is_rewritten_violate_dsr_too() -> None:
    with pytest.raises(
        Nonconformance,
        match=r"80/udp.*expected source 192.168.0.70 .*, observed source 192.168.0.66",
    ):
        capable(Town(by_service=OWN, datagrams=SOURCE_VIP), EVERYWHERE)


def test_a_neighbour_that_is_admitted_too_violates_both() -> None:
    stranger = {("stranger", Addressing.POD_IP): True, ("stranger", Addressing.CLUSTER_IP): True}
    with pytest.raises(Nonconformance, match="stranger"):
        capable(Town(by_service=OWN), EVERYWHERE | stranger)
    with pytest.raises(Nonconformance, match="stranger"):
        limited(Town(), ALONE | stranger)


def test_a_source_that_is_rewritten_at_times_violates_dsr() -> None:
    with pytest.raises(
        Nonconformance,
        match=r"source 192\.168\.0\.70 .ns/client., observed source 192\.168\.0\.66 ",
    ):
        capable(Town(by_service=OWN, at_times=SOURCE_VIP), EVERYWHERE)


def test_a_source_that_is_rewritten_by_pod_address_too_decides_nothing() -> None:
    first = r"SVC-1: windows-1 to linux-1 .*: control failed: .* source .*70, observed source 10.0.0.11 .* \(3 tries, "
    with pytest.raises(ControlBroken, match=first) as broken:
        limited(Town(directly=NODE), ALONE)
    assert "  do    see NAT-1 first" in str(broken.value)


def test_a_source_that_is_now_kept_and_now_not_is_a_violation_and_no_lifted_limitation() -> None:
    @dataclass
    class Wavering(Town):
        asked: int = 0

        def _answer(self, attempt: Attempt, round_: int) -> Observation:
            self.asked += 1
            self.by_service = (OWN, SOURCE_VIP)[self.asked % 2]
            return super()._answer(attempt, round_)

    with pytest.raises(
        Nonconformance, match=r"observed source 192\.168\.0\..* 2 times, .* 1 time, last .*3 tries"
    ):
        limited(Wavering(), ALONE)


def test_a_server_that_does_not_say_whom_it_saw_decides_nothing() -> None:
    with pytest.raises(ProbeBroken, match="did not report the client's address"):
        limited(Town(by_service=""), ALONE)


@pytest.mark.parametrize(
    ("plane", "host_network", "expected"),
    [
        ("overlay", False, SOURCE_VIP), ("overlay", True, NODE), ("l2bridge", False, NODE), ("l2bridge", True, NODE),
    ],
)  # fmt: skip
def test_the_address_follows_from_plane_and_backend(
    plane: str, host_network: bool, expected: str
) -> None:
    backend: Workload = replace(SERVER, host_network=host_network)
    assert Addresses(facts(node("windows-1", NEW), plane=plane)).through_service(
        CLIENT, backend
    ) == (expected,)


def test_no_address_is_guessed_for_a_plane_that_is_not_known() -> None:
    with pytest.raises(MissingCapability, match="depends on an unknown value"):
        Addresses(facts(node("windows-1", NEW), plane=None)).through_service(CLIENT, SERVER)


@pytest.mark.parametrize("host_network", [False, True])
def test_in_flannels_overlay_the_address_is_what_kube_proxy_was_told(host_network: bool) -> None:
    flannel = replace(node("windows-1", NEW), annotations={})
    known = Addresses(facts(flannel), lambda name: Fact("10.244.2.9", f"command line on {name}"))
    backend = replace(SERVER, host_network=host_network)
    assert known.through_service(CLIENT, backend) == ((NODE if host_network else "10.244.2.9"),)
    silent = Addresses(
        facts(flannel), lambda name: Fact(None, f"no HostProcess pod runs on {name}")
    )
    with pytest.raises(
        MissingCapability,
        match=r"kube-proxy's --source-vip \(no HostProcess pod runs on windows-1\)",
    ):
        silent.through_service(CLIENT, SERVER)


def own_node(plane: str, **town: Any) -> tuple[ServiceSource, Town]:
    there = Town(**town)
    source = there.source(plane=plane)
    source.pod_pairs = PodPairs([(CLIENT, replace(SERVER, node=CLIENT.node))])
    return source, there


def test_without_an_overlay_a_backend_on_the_clients_node_is_another_claims_matter() -> None:
    source, _ = own_node("l2bridge", by_service=NODE)
    with pytest.raises(
        NotAboutThisCluster, match=r"reach backends there with the node's address.*see XSVC-5"
    ):
        source.is_rewritten(because="no DSR")
    source, _ = own_node("l2bridge", by_service=SOURCE_VIP)
    with pytest.raises(
        Nonconformance, match=r"expected source 10\.0\.0\.11"
    ):  # the address itself is decided
        source.is_rewritten(because="no DSR")


def test_where_the_source_is_kept_or_an_overlay_is_it_stays_this_claims() -> None:
    for plane, seen, under in (("overlay", SOURCE_VIP, ALONE), ("l2bridge", OWN, EVERYWHERE)):
        source, town = own_node(plane, by_service=seen)
        source.is_rewritten(because="no DSR")
        town.admitted = under
        source.admits_by_address_alone(because="the policy names the client")
    assert told(town.kept)


def windows_nodes(known: Facts) -> WindowsNodes:
    return WindowsNodes(
        known,
        Placement(known),
        lambda name: next(item.dsr for item in known.nodes if item.name == name),
    )


def nodes(*there: NodeFacts) -> WindowsNodes:
    return windows_nodes(facts(*there))


def test_in_a_mixed_cluster_each_claim_gets_its_node() -> None:
    mixed = nodes(node("old", OLD), node("new", NEW), node("off", NEW, dsr=False))
    assert (mixed.with_dsr(), mixed.without_dsr()) == (("new",), ("old", "off"))
    assert mixed.undecided == {}
    assert mixed.of_build(">=17763 <17763.1432") == ("old",)
    assert nodes(node("new", NEW), node("able", ABLE), node("old", OLD)).all() == (
        "new",
        "able",
        "old",
    )


def test_without_the_flag_no_node_has_it_and_the_claim_is_not_about_the_cluster() -> None:
    plain = nodes(node("new", NEW, dsr=False), node("old", OLD))
    assert plain.without_dsr() == ("new", "old")
    with pytest.raises(
        NotAboutThisCluster, match=r"uses direct server return \(new: stand-in; old: its build"
    ):
        plain.with_dsr()


def test_a_node_of_which_it_is_not_known_is_looked_at_and_not_judged() -> None:
    unknown = nodes(node("old", OLD), node("new", NEW, dsr=None))
    assert unknown.without_dsr() == ("old", "new")
    assert unknown.undecided == {"new": "stand-in"}
    assert unknown.with_dsr() == ("new",)


@pytest.mark.parametrize("seen", [OWN, SOURCE_VIP])
def test_where_it_is_not_known_the_source_that_was_seen_is_named_and_nothing_decided(
    seen: str,
) -> None:
    town = Town(by_service=seen)
    source = town.source(dsr=None)
    words = rf"node windows-1 uses direct server return is not known; the server saw source {re.escape(seen)} "
    with pytest.raises(MissingCapability, match=words):
        source.is_kept(because="DSR")
    with pytest.raises(MissingCapability, match=words):
        town.source(dsr=None).is_rewritten(because="no DSR")
    assert ClaimVerdict.NOT_RUN in {item.verdict for item in town.kept}
    assert ClaimVerdict.VIOLATED not in {item.verdict for item in town.kept}


def test_a_cordoned_node_is_not_taken_for_the_claims_about_it() -> None:
    cordoned = nodes(node("old", OLD, schedulable=False), node("new", NEW))
    with pytest.raises(MissingCapability, match=r"of build >=17763 <17763.1432"):
        cordoned.of_build(">=17763 <17763.1432")
