# SPDX-License-Identifier: Apache-2.0
"""Possible builds, source addresses, pages and issues are each decided as the documents demand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from conformance.errors import ControlBroken, MissingCapability, Nonconformance, ProbeBroken
from conformance.expect.addresses import Addresses, among
from conformance.expect.subjects.builds import Builds
from conformance.expect.subjects.known_issue import KnownIssue
from conformance.expect.subjects.pages import Pages
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt, Kind
from conformance.model.builds import BuildUnderCalico
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.facts import Fact, Facts
from conformance.model.observation import Observation, Verdict
from conformance.settings import load_timings
from tests.unit.conformance.builders import a_node, a_workload, an_expect, some_facts
from tests.unit.conformance.expect.stand_ins import Answer, ScriptedProber, target

UP, DROPPED = Verdict.CONNECTED, Verdict.TIMED_OUT


def facts(
    calico: str | None = "v3.31.2", install: str | None = "operator", tunnel: str = ""
) -> Facts:
    told = {"projectcalico.org/IPv4VXLANTunnelAddr": tunnel} if tunnel else {}
    node = a_node("windows-1", "windows", kernel_version="10.0.20348.2762", annotations=told)
    return some_facts(node, calico_version=calico, install=install)


@pytest.mark.parametrize(
    ("calico", "build", "listed"),
    [
        ("v3.31.2", (17763, 1432), True),
        ("v3.31.2", (17763, 1431), False),
        ("v3.31.2", (20348, 169), True),
        ("v3.31.2", (20348, 168), False),
        ("v3.31.2", (26100, 1), False),
        ("v3.23.0", (19042, 1), True),
        ("v3.23.0", (20348, 2000), False),
        ("v3.18.0", (18362, 1), True),
        ("v3.18.0", (17763, 1), True),
        ("v3.21.5", (19041, 1), True),
        (None, (20348, 169), True),
    ],
)
def test_a_build_is_listed_by_the_row_of_its_calico_version(
    calico: str | None, build: tuple[int, int], listed: bool
) -> None:
    assert Builds(facts(calico)).listed(BuildUnderCalico(build, calico)) is listed


def test_a_build_is_judged_by_the_calico_of_its_own_node() -> None:
    two = facts("v3.31.2")
    old = replace(two.nodes[0], name="windows-2", windows_build=(19042, 1))
    mixed = replace(
        two, nodes=(*two.nodes, old), calico_on_nodes={"windows-2": Fact("v3.23.0", "its image")}
    )
    builds = Builds(mixed)
    assert builds.calico == "v3.31.2 and v3.23.0"
    assert "19043 under Calico v3.23.0" in builds.row
    assert builds.listed(BuildUnderCalico((19042, 1), "v3.23.0"))
    assert not builds.listed(BuildUnderCalico((19042, 1), "v3.31.2"))


@pytest.mark.parametrize(
    ("install", "runtime", "fits"),
    [
        ("operator", "containerd://1.7.24", True),
        ("operator", "containerd://1.6.0", True),
        ("operator", "containerd://1.5.18", False),
        ("operator", "docker://20.10.21", False),
        ("manifest", "docker://20.10.21", False),
        ("manifest", "containerd://1.5.18", False),
        ("manual", "docker://20.10.21", True),
        ("manual", "cri-o://1.30.0", False),
        (None, "containerd://1.5.0", True),
    ],
)
def test_a_runtime_fits_the_way_of_installation(
    install: str | None, runtime: str, fits: bool
) -> None:
    assert Builds(facts(install=install)).runtime_fits(runtime) is fits


@pytest.mark.parametrize(
    ("install", "version", "recent"),
    [
        ("operator", "v3.27.0", True),
        ("operator", "v3.26.4", False),
        ("manual", "v3.12.0", True),
        (None, "v3.11.3", False),
    ],
)
def test_the_floor_depends_on_the_way_of_installation(
    install: str | None, version: str, recent: bool
) -> None:
    assert Builds(facts(install=install)).recent(version) is recent


def test_a_node_is_seen_under_its_own_address_or_its_tunnels() -> None:
    pod = a_workload("pod", "windows")
    assert Addresses(facts()).of_node(pod) == ["10.0.0.11"]
    assert Addresses(facts(tunnel="192.168.7.65")).of_node(pod) == ["10.0.0.11", "192.168.7.65"]


def test_a_windows_pod_may_appear_under_its_nodes_source_vip_and_a_linux_pod_may_not() -> None:
    known = Addresses(facts(tunnel="192.168.7.65"))
    assert known.behind(a_workload("pod", "windows"))[-1] == "192.168.7.66"
    assert "192.168.7.66" not in known.behind(a_workload("pod", "linux"))


def carried(plane: str, *networks: str, platform: str = "self-managed") -> Addresses:
    known = facts()
    node = replace(known.nodes[0], plane=Fact(plane, "-"), pod_networks=networks)
    return Addresses(replace(known, nodes=(node,), platform=Fact(platform, "-")))


def test_without_an_overlay_a_windows_host_has_an_address_in_its_pods_network() -> None:
    known = carried("l2bridge", "192.168.7.64/26", "fd00::/122")
    assert known.of_node(a_workload("pod", "windows")) == ["10.0.0.11", "192.168.7.66"]
    assert known.of_node(a_workload("pod", "linux")) == ["10.0.0.11"]
    assert known.behind(a_workload("pod", "windows"))[1:] == ["10.0.0.11", "192.168.7.66"]
    assert "192.168.7.66 (host endpoint of windows-1)" in known.named(
        "192.168.7.66", a_workload("pod", "windows")
    )


def test_in_flannels_overlay_the_source_vip_is_any_of_the_pod_cidr() -> None:
    allowed = carried("overlay", "10.244.3.0/24").behind(a_workload("pod", "windows"))
    assert allowed[1:] == ["10.0.0.11", "10.244.3.0/24"]
    assert among("10.244.3.2", allowed)
    assert not among("10.244.4.2", allowed)


@pytest.mark.parametrize(
    ("platform", "expected"),
    [("rke2", ("10.0.0.11", "10.42.1.66")), ("self-managed", ("10.0.0.11",))],
)
def test_rke2_alone_names_a_source_vip_without_an_overlay(
    platform: str, expected: tuple[str, ...]
) -> None:
    known = carried("l2bridge", "10.42.1.64/26", platform=platform)
    assert known.through_service(a_workload("pod", "windows"), a_workload("server")) == expected


def expecting(**answers: list[Answer]) -> Expect:
    prober = ScriptedProber(answers)
    return Expect(prober, load_timings(), clock=prober.clock)


def answer(status: int, body: bytes) -> Answer:
    def make(attempt: Attempt, _: int) -> Observation:
        return Observation(
            attempt=attempt, verdict=UP, at=0.0, seconds=0.01, status=status, body=body
        )

    return make


def test_a_page_is_shown_when_status_and_text_are_right() -> None:
    client = a_workload("client")
    Pages(expecting(client=[answer(200, b"<H1>Hello</H1>")])).show(
        client, [target()], "<H1>Hello", because="x"
    )
    for wrong in (answer(200, b"<H1>Other</H1>"), answer(500, b"<H1>Hello</H1>")):
        with pytest.raises(
            Nonconformance,
            match=r"expected HTTP 200 and '<H1>Hello', observed HTTP .*\(12[12] tries, 30\.[02] s\)",
        ):
            Pages(expecting(client=[wrong])).show(client, [target()], "<H1>Hello", because="x")


def by_port(
    answers: dict[int, Verdict], *, late: int = 0, who: str = ""
) -> Callable[[Attempt, int], Observation]:
    """The verdict that each port gives; port 80 drops everything in rounds before ``late``."""

    def make(attempt: Attempt, number: int) -> Observation:
        assert attempt.target
        port = attempt.target.port
        verdict = DROPPED if port == 80 and number < late else answers[port]
        served_by = who if port == 80 and attempt.kind is Kind.HTTP else ""
        return Observation(
            attempt=attempt, verdict=verdict, at=0.0, seconds=0.01, served_by=served_by
        )

    return make


def issue(*, late: int = 0, who: str = "", **ports: Verdict) -> tuple[KnownIssue, list[Decision]]:
    kept: list[Decision] = []
    answers = {int(port[1:]): verdict for port, verdict in ports.items()}
    prober = ScriptedProber({"client": [by_port(answers, late=late, who=who)]})
    return KnownIssue(an_expect(prober, kept=kept)), kept


CLIENT, POD = a_workload("client"), a_workload("server")
GOALS = [(POD.tcp(80), POD.tcp(81))]


def test_an_issue_that_happens_is_confirmed_and_one_that_does_not_is_told() -> None:
    happens, kept = issue(p80=DROPPED, p81=UP)
    happens.may_fail(CLIENT, GOALS, because="x")
    assert [seen.verdict for seen in kept] == [ClaimVerdict.CONFIRMED]
    absent, kept = issue(p80=UP, p81=UP)
    absent.may_fail(CLIENT, GOALS, because="x")
    assert [seen.verdict for seen in kept] == [ClaimVerdict.NOT_OBSERVED]


def test_each_way_of_an_issue_is_a_decision_of_its_own() -> None:
    some, kept = issue(p80=DROPPED, p81=UP, p82=UP)
    some.may_fail(CLIENT, [*GOALS, (POD.tcp(82), POD.tcp(81))], because="x")
    assert [seen.verdict for seen in kept] == [ClaimVerdict.CONFIRMED, ClaimVerdict.NOT_OBSERVED]


def test_rules_that_come_late_are_not_the_issue() -> None:
    late, kept = issue(late=6, p80=UP, p81=UP)
    late.may_fail(CLIENT, GOALS, because="x")
    assert [seen.verdict for seen in kept] == [ClaimVerdict.NOT_OBSERVED]


def test_another_pod_that_answers_is_neither_the_issue_nor_its_absence() -> None:
    led_astray, kept = issue(who="ns/another-pod", p80=UP, p81=UP)
    with pytest.raises(Nonconformance, match="observed an answer of ns/another-pod"):
        led_astray.may_fail(CLIENT, GOALS, because="x")
    assert [seen.verdict for seen in kept] == [ClaimVerdict.VIOLATED]


def test_an_issue_without_its_witness_decides_nothing() -> None:
    broken, kept = issue(p80=DROPPED, p81=DROPPED)
    with pytest.raises(ControlBroken, match="the witness"):
        broken.may_fail(CLIENT, GOALS, because="x")
    assert kept == []


def test_what_a_look_into_each_node_tells_is_decided_for_it_alone() -> None:
    told = {
        "old": Fact(True, "ended"), "renewed": Fact(False, "it was renewed"), "young": Fact[bool](None, "too young")
    }  # fmt: skip
    nodes = [replace(facts().nodes[0], name=name) for name in told]
    read, kept = issue()
    read.may_be_read(told.__getitem__, on=nodes, because="x", do="y")
    assert {(seen.target, seen.verdict.value, seen.reason) for seen in kept if seen.target} == {
        ("old", "CONFIRMED", "x (ended)"), ("renewed", "NOT_OBSERVED", "it was renewed"),
        ("young", "NOT_RUN", "too young"),
    }  # fmt: skip
    with pytest.raises(MissingCapability, match="too young; y"):
        read.may_be_read(told.__getitem__, on=nodes[2:], because="x", do="y")


def test_a_look_that_breaks_leaves_its_node_open() -> None:
    def read(node: str) -> Fact[bool]:
        raise ProbeBroken(f"{node} does not answer")

    issues, kept = issue()
    with pytest.raises(ProbeBroken):
        issues.may_be_read(read, on=facts().nodes, because="x", do="y")
    assert [seen.verdict for seen in kept] == [ClaimVerdict.INCONCLUSIVE]


def test_a_witness_that_works_only_after_the_issue_was_looked_for_shows_nothing() -> None:
    asked: set[int] = set()

    def answer_of_a_network_that_comes_up(attempt: Attempt, number: int) -> Observation:
        assert attempt.target
        asked.add(attempt.target.port)
        return by_port({80: DROPPED, 81: UP if 80 in asked else DROPPED})(attempt, number)

    prober, kept = ScriptedProber({"client": [answer_of_a_network_that_comes_up]}), list[Decision]()
    starting = KnownIssue(an_expect(prober, kept=kept))
    with pytest.raises(ControlBroken, match="the witness: x"):
        starting.may_fail(CLIENT, GOALS, because="x")
    assert asked == {81}
    assert kept == []
