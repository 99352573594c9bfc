# SPDX-License-Identifier: Apache-2.0
"""Another pod's answer is no success on any kind of path; if the answer does not name the pod,
the decision says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from conformance.errors import ControlBroken, Nonconformance, ProbeBroken, SuiteError
from conformance.expect.case import Case
from conformance.expect.context import Context, Sink
from conformance.expect.owners import NoForeignChanges, lost_by
from conformance.expect.subjects.commands import Commands
from conformance.expect.subjects.fragments import Fragments
from conformance.expect.subjects.overlay import Overlay
from conformance.expect.subjects.pages import Pages
from conformance.expect.subjects.ping import ExternalPaths
from conformance.expect.subjects.sizes import SMALLEST, Sizes
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.endpoint import Addressing, Target, Workload
from conformance.model.facts import Fact
from conformance.model.observation import Observation, Verdict
from conformance.pods.groups import PodPairs
from conformance.settings import load_timings
from tests.unit.conformance.builders import a_workload, an_expect
from tests.unit.conformance.expect.network import Network
from tests.unit.conformance.expect.stand_in_world import StandInWorld
from tests.unit.conformance.expect.stand_ins import ScriptedProber, observation

CLIENT, FAR_CLIENT = a_workload("client"), a_workload("far-client", "windows")
NODE = a_workload("node", host_network=True, node_address="10.0.0.10")
SERVER = a_workload("server", "windows", address="192.168.9.9", node_address="10.0.0.14")
NGINX = a_workload("nginx", address="192.168.0.7")
ANOTHER = "ns/another-pod"
NAMELESS = "a server that does not report its name"
BECAUSE = "nothing forbids it"
UNKNOWN = "it is not known which pod answered"


def service(host: str, path: Addressing, protocol: str = "tcp") -> Target:
    return Target(
        host=host, port=80, protocol=protocol, path=path, backends=(SERVER,), backend_port=8080, name="Service web"  # type: ignore[arg-type]
    )  # fmt: skip


TELLING = [
    pytest.param(CLIENT, SERVER.tcp(8080), id="pod by its address"),
    pytest.param(CLIENT, SERVER.udp(8080), id="pod by its address, UDP"),
    pytest.param(NODE, SERVER.tcp(8080), id="node to pod"),
    pytest.param(CLIENT, service("10.96.0.9", Addressing.CLUSTER_IP), id="ClusterIP"),
    pytest.param(CLIENT, service("10.96.0.9", Addressing.CLUSTER_IP, "udp"), id="ClusterIP, UDP"),
    pytest.param(NODE, service("10.0.0.14", Addressing.NODE_PORT), id="NodePort"),
    pytest.param(CLIENT, service("web.ns.svc.cluster.local", Addressing.NAME), id="name"),
    pytest.param(SERVER, service("10.96.0.9", Addressing.CLUSTER_IP), id="own Service"),
    pytest.param(CLIENT, SERVER.tcp(80), id="the page of the Windows demo"),
]
"""Paths to servers that name themselves."""


@dataclass
class Town:
    """A network in which one server answers in the place of another, and what is decided there."""

    servers: dict[str, str] = field(default_factory=dict)
    kept: list[Decision] = field(default_factory=list)

    def expect(self) -> Expect:
        network = Network(load_timings(), servers=self.servers)
        return an_expect(network, "CONN-3", kept=self.kept)

    @property
    def decided(self) -> list[tuple[ClaimVerdict, str]]:
        return [(seen.verdict, seen.reason) for seen in self.kept]


@pytest.mark.parametrize(("source", "target"), TELLING)
def test_a_path_is_open_when_its_own_server_answers(source: Workload, target: Target) -> None:
    town = Town()
    town.expect().reachable(source, target, because=BECAUSE)
    assert town.decided == [(ClaimVerdict.CONFIRMED, BECAUSE)]


@pytest.mark.parametrize(
    ("who", "named"), [(ANOTHER, ANOTHER), ("", NAMELESS), ("/half", NAMELESS)]
)
@pytest.mark.parametrize(("source", "target"), TELLING)
def test_a_path_is_not_open_when_another_server_answers(
    source: Workload, target: Target, who: str, named: str
) -> None:
    town = Town({target.host: who})
    with pytest.raises(
        Nonconformance, match=f"expected an answer of .*, observed an answer of {named}"
    ):
        town.expect().reachable(source, target, because=BECAUSE)
    assert [verdict for verdict, _ in town.decided] == [ClaimVerdict.VIOLATED]


@pytest.mark.parametrize(("source", "target"), TELLING)
def test_another_server_s_answer_is_no_control_either(source: Workload, target: Target) -> None:
    with pytest.raises(ControlBroken, match=f"observed an answer of {ANOTHER}"):
        Town({target.host: ANOTHER}).expect().control(source, target, because=BECAUSE)


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (
            Target(host="10.0.0.11", port=10250, protocol="tcp", path=Addressing.NODE_IP),
            "a node's own port names no pod",
        ),
        (
            Target(host="198.51.100.10", port=80, protocol="tcp", path=Addressing.EXTERNAL),
            "no server outside the cluster reports its name",
        ),
        (SERVER.tcp(9000), "a bare connection names no pod"),
    ],
    ids=["pod to node", "beyond the cluster", "streams' port"],
)
def test_where_nobody_says_who_answered_the_decision_says_that(target: Target, why: str) -> None:
    town = Town()
    town.expect().reachable(CLIENT, target, because=BECAUSE)
    assert town.decided == [
        (ClaimVerdict.CONFIRMED, f"{BECAUSE}; it is not known which pod answered: {why}")
    ]


def test_a_web_server_that_names_no_pod_is_said_not_to() -> None:
    town = Town({NGINX.address: ""})
    town.expect().reachable(CLIENT, NGINX.tcp(80), because=BECAUSE)
    why = "it is not known which pod answered: the server at this target does not report its pod"
    assert town.decided == [(ClaimVerdict.CONFIRMED, f"{BECAUSE}; {why}")]


def test_a_closed_path_says_nothing_of_who_answers() -> None:
    town = Town()
    expect = town.expect()
    network = expect.prober
    assert isinstance(network, Network)
    expect.control(CLIENT, [SERVER.tcp(8080), NGINX.tcp(80)], because=BECAUSE)
    network.says(CLIENT, SERVER.tcp(8080), lambda _: False)
    expect.matrix(
        Case(CLIENT, NGINX, tcp=80, open=True, because=BECAUSE),
        Case(CLIENT, SERVER, tcp=8080, open=False, because=BECAUSE),
    )
    assert (ClaimVerdict.CONFIRMED, BECAUSE) in town.decided


class Nodes:
    """Nodes that have what the overlay needs."""

    def deviations(self, node: str, toward: str) -> dict[str, Fact[str]]:
        return {}


def larger(expect: Expect) -> None:
    Fragments(expect).arrive(Case(CLIENT, SERVER, udp=8080, open=True, because=BECAUSE))


def whole(expect: Expect) -> object:
    return Sizes(expect).carries([(CLIENT, SERVER)], because=BECAUSE)


def over_the_overlay(expect: Expect) -> object:
    case = Case(CLIENT, SERVER, tcp=8080, open=True, because=BECAUSE)
    return Overlay(expect, Nodes()).passes(case, node=NODE)


@pytest.mark.parametrize("decide", [larger, whole, over_the_overlay])
def test_large_packets_and_the_overlay_are_judged_by_the_server_s_own_answers(
    decide: Callable[[Expect], object],
) -> None:
    with pytest.raises(SuiteError, match=ANOTHER) as broken:
        decide(Town({SERVER.address: ANOTHER}).expect())
    assert isinstance(broken.value, ControlBroken)


@pytest.mark.parametrize(("decide", "error"), [(larger, Nonconformance), (whole, ProbeBroken)])
def test_a_large_datagram_that_another_pod_answers_has_not_arrived(
    decide: Callable[[Expect], object], error: type[Exception]
) -> None:
    def answer(attempt: Attempt, _: int) -> Observation:
        small = len(attempt.request) < SMALLEST
        return observation(attempt, Verdict.CONNECTED, **({} if small else {"served_by": ANOTHER}))

    prober = ScriptedProber({"client": [answer], "server": [answer]})
    expect = an_expect(prober, "CONN-3")
    with pytest.raises((error, ControlBroken), match=f"an answer of {ANOTHER}"):
        decide(expect)


def test_a_page_that_another_pod_shows_is_not_the_servers() -> None:
    rounds: list[str] = []

    def page(attempt: Attempt, number: int) -> Observation:
        rounds.append("")
        own = len(rounds) <= load_timings().windows.agree
        seen = observation(attempt, Verdict.CONNECTED, **({} if own else {"served_by": ANOTHER}))
        return replace(seen, status=200, body=b"<H1>hello</H1>")

    prober = ScriptedProber({"client": [page]})
    expect = an_expect(prober, "DEMO-9")
    with pytest.raises(Nonconformance, match=f"observed an answer of {ANOTHER}"):
        Pages(expect).show(CLIENT, [SERVER.tcp(80)], "hello", because=BECAUSE)


def test_a_name_s_answer_is_said_to_come_from_a_server_that_nobody_can_tell() -> None:
    kept: list[Decision] = []
    prober = ScriptedProber(
        {
            "client": [
                lambda attempt, _: replace(
                    observation(attempt, Verdict.RESOLVED), answers=("10.96.0.9",)
                )
            ]
        }
    )
    expect = an_expect(prober, kept=kept)
    expect.resolves(CLIENT, "web.ns.svc.cluster.local", ["10.96.0.9"], because=BECAUSE)
    told = (
        "it is not known which pod answered: "
        "answers from DNS servers do not name the pod that sends them"
    )
    assert [seen.reason for seen in kept] == [f"{BECAUSE}; {told}"]


@dataclass
class Ended:
    output: str
    exit_code: int = 0
    seconds: float = 1.0


def test_a_ping_and_a_command_are_said_to_name_nobody() -> None:
    kept: list[Decision] = []
    context = Context(sink=Sink(kept))

    def run(source: Workload, argv: Sequence[str], within: float) -> Ended:
        if argv[0] == "nc":
            return Ended(f"{argv[2]} ({argv[2]}:80) open")
        return Ended(f"PING\n64 bytes from {argv[-1]}: seq=0\n3 packets transmitted")

    commands = Commands(run, load_timings(), context)
    expect = replace(Town().expect(), context=context)
    ExternalPaths(expect, commands, None).ping(PodPairs([(CLIENT, SERVER)]), because=BECAUSE)
    commands.nc_opens([(CLIENT, SERVER.tcp(80))], because=BECAUSE)
    assert [seen.reason for seen in kept] == [
        f"{BECAUSE}; {UNKNOWN}: a ping reply names an address, but no pod",
        f"{BECAUSE}; {UNKNOWN} this command: the output does not name the server",
    ]


class Disrupted(NoForeignChanges):
    """Another run with an open change that touches every path."""

    exempt = "wait"

    def look(self) -> None: ...

    def excuse(self, nodes: Sequence[str], since: float | None = None) -> str:
        return "run other is changing the cluster"


@pytest.mark.parametrize("verdict", [*Verdict])
def test_another_runs_change_explains_each_way_in_which_a_path_is_lost(verdict: Verdict) -> None:
    attempt = Town().expect().attempt(CLIENT, SERVER.tcp(8080))
    is_explained = bool(lost_by(Disrupted(), attempt, [observation(attempt, verdict)]))
    answered = {Verdict.CONNECTED, Verdict.RESOLVED, Verdict.NO_SUCH_NAME}
    assert is_explained is (verdict not in answered)


def test_another_runs_change_excuses_no_other_pods_answer() -> None:
    expect = Town(servers={SERVER.address: ANOTHER}).expect()
    beside = replace(expect, context=replace(expect.context, world=StandInWorld(runs=Disrupted())))
    with pytest.raises(Nonconformance, match=ANOTHER):
        beside.reachable(CLIENT, SERVER.tcp(8080), because=BECAUSE)
    attempt = expect.attempt(CLIENT, SERVER.tcp(8080))
    lost = observation(attempt, Verdict.TIMED_OUT)
    elsewhere = observation(attempt, Verdict.CONNECTED, served_by=ANOTHER)
    assert lost_by(Disrupted(), attempt, [lost])
    assert not any(
        lost_by(Disrupted(), attempt, seen) for seen in ([elsewhere, lost], [lost, elsewhere], [])
    )
