# SPDX-License-Identifier: Apache-2.0
"""One failure for each choice of advice, with the whole advice that its message ends with.

Families of one group differ from one another in the input that their names show.  Two families,
at least, differ in nothing but one condition of the choice.

``python -m tests.unit.conformance.expect.golden_advice`` writes golden_advice.txt anew; read the
difference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

from conformance.errors import Nonconformance, ProbeBroken, SuiteError
from conformance.evidence.felix_cause import name_felix
from conformance.expect import excuses, machine_lag
from conformance.expect.context import Context, Pace
from conformance.expect.engine import decide
from conformance.expect.engine.decide import BrokenControl, Rule, Standing, Why, Wrong
from conformance.expect.explain.advice import Side
from conformance.expect.explain.between_nodes import Blamed
from conformance.expect.failure import failure
from conformance.expect.figures import PolicyChange
from conformance.expect.outcome import Outcome
from conformance.expect.owners import Nobody, Others, Runs
from conformance.expect.subjects.backends import Backends
from conformance.expect.subjects.fragments import Fragments
from conformance.expect.subjects.overlay import ADDRESSES as ADDRESSES_ONLY
from conformance.expect.subjects.overlay import VXLAN, Carrier, Overlay
from conformance.expect.subjects.pages import Pages
from conformance.expect.subjects.pod_startup import PodStartup
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Addressing, Target, Workload
from conformance.model.observation import Observation, Verdict
from conformance.model.stream import StreamState
from conformance.pods.new_pod import Stage
from conformance.settings import load_timings
from tests.unit.conformance.expect import stream_stand_ins as streams
from tests.unit.conformance.expect import test_resolution as dns
from tests.unit.conformance.expect.stand_in_world import StandInWorld
from tests.unit.conformance.expect.stand_ins import Answer, ScriptedProber, observation, workload
from tests.unit.conformance.expect.subjects.test_overlay import WELL, Nodes
from tests.unit.conformance.expect.subjects.test_pod_startup import NewPod

TEXTS = Path(__file__).with_suffix(".txt")
DO = re.compile(r"^  do +(.+)$", re.MULTILINE)
Result = Verdict | str
"""The result of one attempt; a text is the name of the pod that answers instead of a backend."""
UP, DROPPED, REFUSED = Verdict.CONNECTED, Verdict.TIMED_OUT, Verdict.REFUSED
UNREACHABLE, PROHIBITED, RESET = Verdict.UNREACHABLE, Verdict.PROHIBITED, Verdict.RESET
NO_NAME, DNS_FAILED = Verdict.NO_SUCH_NAME, Verdict.DNS_FAILED
ANOTHER = "ns/another-pod"
CLOSED, ARRIVES = Wrong(Why.CLOSED), Wrong(Why.OPEN)
ASTRAY, UNDECIDED = BrokenControl(Why.ASTRAY), BrokenControl(Why.CONTROL)
LEAK, NO_DENIAL, WAVERS = Wrong(Why.LEAK), Wrong(Why.NO_DENIAL), Wrong(Why.WAVERS)
NONE_BLAMED = Blamed()
NOBODY = Nobody()
TIMINGS = load_timings()

# --- pods, and the ways to address them -----------------------------------------------------------


def pod(name: str, node: str, number: int) -> Workload:
    """Return a pod of a node, whose operating system its name tells."""
    made = workload(name, "windows" if node.startswith("windows") else "linux")
    address, node_address = f"192.168.{number}.9", f"10.0.0.{number}"
    return replace(made, node=node, address=address, node_address=node_address)


CLIENT, WINDOWS_CLIENT = pod("client", "linux-1", 1), pod("client", "windows-1", 2)
SERVER, LINUX_SERVER = pod("server", "windows-2", 3), pod("server", "linux-2", 4)
SECOND, THIRD = pod("second", "windows-3", 5), pod("third", "windows-2", 3)
NEIGHBOUR = pod("neighbour", "linux-1", 1)
POD, UDP, LINUX_POD = SERVER.tcp(8080), SERVER.udp(8080), LINUX_SERVER.tcp(8080)
NODE = replace(SERVER, host_network=True).tcp(8080)
OUTSIDE = Target(host="203.0.113.9", port=443, protocol="tcp", path=Addressing.EXTERNAL)


def service(path: Addressing, host: str, *backends: Workload, at: Workload | None = None) -> Target:
    """Return a target that leads to port 8080 of some pods."""
    return Target(
        host=host,
        port=80,
        protocol="tcp",
        path=path,
        backends=backends or (SERVER,),
        name="Service web",
        backend_port=8080,
        at=at,
    )


CLUSTER_IP = service(Addressing.CLUSTER_IP, "10.96.0.7")
NAME = service(Addressing.NAME, "web.demo.svc.cluster.local")
ADDRESSES = {"pod address": POD, "node address": NODE}
SERVICES = {"ClusterIP": CLUSTER_IP, "name": NAME}
"""Targets by what a client calls; NodePorts come apart, by the node that is called."""


def node_port(called: Workload, *backends: Workload, at: Workload | None = None) -> Target:
    """Return the NodePort of a Service, at the node of a pod."""
    return service(Addressing.NODE_PORT, called.node_address, *backends, at=at)


# --- failures -------------------------------------------------------------------------------------


class Failing(Protocol):
    """What makes one failure."""

    def error(self) -> BaseException | None: ...


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """What is known of the cluster beside the path."""

    policies: tuple[str, ...] = ()
    """Names of policies that may be in force at the path's pods."""
    overlay: Blamed = NONE_BLAMED
    """What is wrong with what the overlay needs."""
    own: tuple[Answer, ...] = (DROPPED,)
    """What the server's own address answers, attempt by attempt."""
    side: Side | None = None
    """The end whose node enforces the test's policies; None: no policy was changed."""
    overwhelmed: bool = False
    """Whether the lab's machine was overwhelmed all the while."""
    others: Others = NOBODY
    """Owners of policies that are not the test's."""
    runs: Runs = NOBODY
    """Other runs that change the cluster."""

    def expecting(self, source: Workload) -> Expect:
        """Return expectations over this cluster."""
        prober = ScriptedProber({source.pod: list(self.own)})
        change = PolicyChange(what="apply it", at=0.0, enforced_at=self.side) if self.side else None
        world = StandInWorld(
            policies_there=lambda pods: self.policies,
            overlay=lambda source, target: self.overlay,
            change=lambda: change,
            others=self.others,
            runs=self.runs,
        )
        machine: Any = SimpleNamespace(overwhelmed=lambda since, now: self.overwhelmed, excused=0)
        context = Context(claims=("CONN-3",), world=world, pace=Pace(machine=machine))
        return Expect(prober, TIMINGS, context, prober.clock)


ALONE = Cluster()


@dataclass(frozen=True)
class Route:
    """A path, and how its attempts ended."""

    target: Target | None
    """None: the source asks its resolver for a name."""
    observed: tuple[Result, ...]
    client: Workload = CLIENT
    given: float = 0.0
    """s.  Added to its budget since the machine was late."""

    def path(self, *, want: bool) -> decide.Path:
        """Return the path with its attempts, one each second; ``want``: it is to be open."""
        patience = TIMINGS.of(self.client.os)
        attempt = (
            Attempt(source=self.client, kind=Kind.DNS, give_up_after=5.0, query="web.demo.")
            if self.target is None
            else ALONE.expecting(self.client).attempt(self.client, self.target)
        )
        made = decide.Path(
            attempt, want, Rule.of(patience, [patience], within=60.0), given=self.given
        )
        for second, result in enumerate(self.observed):
            seen = (
                observation(attempt, result)
                if isinstance(result, Verdict)
                else observation(attempt, UP, served_by=result)
            )
            made.answer(made.ask(second), seen, at=second, error=0.0, came=second + 0.1)
        return made


@dataclass(frozen=True)
class NotOpen:
    """A path that is to be open and is not."""

    route: Route
    cluster: Cluster = ALONE
    standing: Standing = CLOSED
    removed: bool = False
    """Whether the policies were removed just now."""

    def error(self) -> Exception | None:
        return self._failure(self.route.path(want=True))

    def _failure(self, path: decide.Path) -> Exception | None:
        expect = self.cluster.expecting(self.route.client)
        outcomes = [Outcome(path, self.standing, is_control=False, because="it is so")]
        machine_lag.excuse(expect, outcomes, 0.0)
        excuses.excuse(expect, outcomes)
        return failure(expect, outcomes, seconds=60.0, removed=self.removed)


@dataclass(frozen=True)
class NotClosed(NotOpen):
    """A path that a policy is to close, and that no row of time-outs closes."""

    standing: Standing = ARRIVES
    controls: tuple[tuple[Route, ...], ...] = ()
    """Open paths of its source, and open paths to its target."""

    def error(self) -> Exception | None:
        path = self.route.path(want=False)
        path.controls = tuple(tuple(one.path(want=True) for one in kind) for kind in self.controls)
        return self._failure(path)


@dataclass(frozen=True)
class Raised:
    """A failure that an expectation raises."""

    expectation: Callable[[], object]

    def error(self) -> BaseException | None:
        try:
            self.expectation()
        except (Nonconformance, SuiteError) as error:
            return error
        return None


# --- rows -----------------------------------------------------------------------------------------


def not_open(
    target: Target | None, *observed: Result, client: Workload = CLIENT, **more: Any
) -> NotOpen:
    """Return the failure of a path that is to be open; ``more``: what the cluster is like."""
    return NotOpen(Route(target, observed, client), Cluster(**more))


def removed(target: Target | None, *observed: Result, **more: Any) -> NotOpen:
    """Return the failure of a path that is to be open again, since its policies were removed."""
    return replace(not_open(target, *observed, **more), removed=True)


def not_closed(
    target: Target | None,
    *observed: Result,
    client: Workload = CLIENT,
    standing: Standing = ARRIVES,
    **more: Any,
) -> NotClosed:
    """Return the failure of a path that a policy is to close; ``more``: the cluster."""
    return NotClosed(Route(target, observed, client), Cluster(**more), standing)


def control_lost(
    *controls: Route, to_target: Sequence[Route] = (), denied: NotClosed | None = None
) -> NotClosed:
    """Return the failure of a denial over its controls, of its source and of its target.

    ``denied``: the denial, where it is not one that the loss of its controls leaves undecided.
    """
    kinds = tuple(kind for kind in (controls, tuple(to_target)) if kind)
    undecided = not_closed(POD, *[DROPPED] * 4, standing=UNDECIDED)
    return replace(denied or undecided, controls=kinds)


def late(row: NotOpen, **more: Any) -> NotOpen:
    """Return the same failure after the machine was late; ``more``: what the cluster is like."""
    return replace(row, route=replace(row.route, given=30.0), cluster=Cluster(**more))


Took = float | Verdict | None
"""s.  How long an answer takes; None: there is none.  A verdict is another answer."""


@dataclass(frozen=True)
class Unresolved:
    """A name that does not resolve as it has to, over the answers of the cluster's DNS."""

    answer: Answer
    """What the question for the name itself gets."""
    server: Took = 0.003
    """What the Service of DNS answers about another name."""
    pods: tuple[Took, ...] = (0.003, 0.003)
    """The same of each DNS pod; empty: the pods are not known."""
    to: tuple[str, ...] = (dns.ADDRESS,)
    """The right answer; empty: there is no such record."""
    record: str = "A"
    is_known: bool = True
    """Whether the cluster's DNS is known, so that it is asked again."""
    at: tuple[Target, ...] = ()
    """Servers that are asked in place of the client's own."""
    is_restarted: bool = False
    """Whether the client's pod restarted meanwhile."""
    others: Others = NOBODY
    """Owners of policies that are not the test's."""

    def error(self) -> BaseException | None:
        known = (dns.Dns if self.pods else dns.NoDns) if self.is_known else type(None)
        restarted = {CLIENT.pod} if self.is_restarted else set()
        prober = ScriptedProber({CLIENT.pod: [self._answered]}, restarted=restarted)
        world = StandInWorld(dns=known, others=self.others)
        context = Context(claims=("CONN-6",), world=world)
        expect = Expect(prober, TIMINGS, context, prober.clock)
        asked = {"because": "DNS knows every Service", "record": self.record, "at": self.at}
        return Raised(lambda: expect.resolves(CLIENT, "web.demo", self.to, **asked)).error()

    def _answered(self, attempt: Attempt, number: int) -> Observation:
        if attempt.query != dns.KNOWN:
            assert callable(self.answer)
            return self.answer(attempt, number)
        target = attempt.target
        hosts = [dns.FIRST.address, dns.SECOND.address]
        took = self.pods[hosts.index(target.host)] if target else self.server
        if isinstance(took, Verdict):
            return observation(attempt, took)
        return dns.answered(attempt, 99.0 if took is None else took)


def no_answer(attempt: Attempt, _: int) -> Observation:
    return dns.answered(attempt, 99.0)


def late_address(attempt: Attempt, _: int) -> Observation:
    return dns.answered(attempt, 3.1)


def wrong_address(attempt: Attempt, _: int) -> Observation:
    return replace(observation(attempt, Verdict.RESOLVED), answers=("203.0.113.9",))


def no_record(rcode: str, seconds: float = 0.003) -> Answer:
    """Return the answer that there is no such record, or no such name."""
    return lambda attempt, _: replace(
        observation(attempt, NO_NAME),
        rcode=rcode,
        seconds=seconds,
        detail=f"{attempt.query} {rcode}",
    )


def by_turns(*answers: Answer) -> Answer:
    """Return these answers one after the other, again and again."""

    def answer(attempt: Attempt, number: int) -> Observation:
        turn = answers[number % len(answers)]
        assert callable(turn)
        return turn(attempt, number)

    return answer


def right_address(attempt: Attempt, _: int) -> Observation:
    return dns.answered(attempt)


@dataclass
class Owner(Nobody):
    """Another owner of a policy that closes, or opens, paths by one protocol."""

    gives: str
    """``closed``, or ``open``."""
    by: str = "TCP"
    exempt: str = "exempt the suite's namespaces"

    def excuse(self, *way: object, protocol: str = "", **how: object) -> str:
        return "their policy may give it" if (way[2], protocol) == (self.gives, self.by) else ""


class OtherRun(Nobody):
    """Another run that is changing every node."""

    exempt = "wait until that run has ended"

    def excuse(self, *way: object, **how: object) -> str:
        return "another run is changing this node"


CLOSES, OPENS, OTHER_RUN = Owner("closed"), Owner("open"), OtherRun()


def reachable(
    target: Target, result: Answer, *, restarted: Sequence[str] = (), **world: Any
) -> Raised:
    """Return the failure of the whole expectation that a client reaches a target."""
    prober = ScriptedProber({CLIENT.pod: [result]}, restarted=set(restarted))
    context = Context(claims=("CONN-3",), world=StandInWorld(**world))
    expect = Expect(prober, TIMINGS, context, prober.clock)
    return Raised(lambda: expect.reachable(CLIENT, target, because="no policy forbids it"))


@dataclass(frozen=True)
class WithFelix:
    """A failure whose message then names Felix where it does not run."""

    failing: Failing
    down: tuple[str, ...]
    """Nodes on which Felix does not run."""

    def error(self) -> BaseException | None:
        error = self.failing.error()
        assert error is not None
        name_felix(error, ["linux-1", "windows-2"], lambda nodes: dict.fromkeys(self.down, "gone"))
        return error


@dataclass(frozen=True)
class StreamLost:
    """A stream between two pods that was lost and is not opened again in time."""

    client: Workload
    server: Workload
    too_late: bool = False
    """Whether nothing but the budget for a new stream is over."""
    given: float = 0.0
    """s.  Added to the budget since the machine was late."""
    overwhelmed: bool = False
    """Whether the lab's machine was overwhelmed all the while."""

    def error(self) -> Exception:
        expected = streams.Expectations(streams.ScriptedStreams(streams.LOST)).streams
        machine: Any = SimpleNamespace(overwhelmed=lambda *_: self.overwhelmed, excused=0)
        context = replace(expected.expect.context, pace=Pace(machine=machine))
        expected.expect = replace(expected.expect, context=context)
        expected._given = self.given
        state = StreamState(
            client=streams.end(self.client, "client", streams.RESET),
            server=streams.end(self.server, "server", streams.STALLED),
            target=self.server.tcp(9000),
            recovery_tries=1,
        )
        return expected.violation(state, "a new stream", "it is so", too_late=self.too_late)


def startup(client: Workload, answers: dict[int, Verdict], **world: Any) -> PodStartup:
    """Return expectations about new pods; ``answers``: by the port that the client asks."""

    def answer(attempt: Attempt, _: int) -> Observation:
        assert attempt.target is not None
        return observation(attempt, answers[attempt.target.port])

    prober = ScriptedProber({client.pod: [answer]})
    context = Context(claims=("XPOL-11",), world=StandInWorld(**world))
    return PodStartup(Expect(prober, TIMINGS, context, prober.clock))


def new_pod(
    made: Workload, answer: Verdict = UP, *, beside: Verdict = UP, stage: Stage = "done"
) -> Raised:
    """Return the failure of a new pod that is to be silent until its policy is there.

    ``beside``: what another pod answers; ``stage``: how far the new pod's first action comes.
    """
    return Raised(
        lambda: startup(CLIENT, {8080: answer, 80: beside}).accept_nothing(
            CLIENT, [NewPod([stage], pod=made)], beside=NEIGHBOUR.tcp(80), because="it is so"
        )
    )


def first_action(made: Workload, **world: Any) -> Raised:
    """Return the failure of a new pod whose first packet leaves before its policy is there."""
    return Raised(
        lambda: startup(made, {}, **world).sent_nothing([NewPod(pod=made)], POD, because="it is so")
    )


def never_ready(made: Workload) -> Raised:
    """Return the failure of a new pod that its kubelet does not reach."""
    beside = NEIGHBOUR.tcp(80)
    return Raised(
        lambda: startup(CLIENT, {8080: DROPPED, 80: UP}).become_ready(
            CLIENT, [NewPod(pod=made, readiness=False)], beside=beside, because="it is so"
        )
    )


def lost_by_size(target: Target, *lost: int) -> Raised:
    """Return the failure of datagrams, or transfers, of these sizes in bytes."""

    def answer(attempt: Attempt, _: int) -> Observation:
        size = attempt.payload or len(attempt.request)
        return observation(attempt, DROPPED if size in lost else UP)

    prober = ScriptedProber({CLIENT.pod: [answer]})
    expect = Expect(prober, TIMINGS, Context(claims=("CONN-3",)), prober.clock)
    return Raised(lambda: Fragments(expect).arrive([(CLIENT, target)], because="it is so"))


def page(target: Target) -> Raised:
    """Return the failure of a page that shows something else."""

    def other(attempt: Attempt, _: int) -> Observation:
        return replace(observation(attempt, UP), status=200, body=b"<h1>It works!</h1>")

    prober = ScriptedProber({CLIENT.pod: [other]})
    expect = Expect(prober, TIMINGS, Context(claims=("DEMO-9",)), prober.clock)
    return Raised(lambda: Pages(expect).show(CLIENT, [target], "Hello", because="it is so"))


def answered_whole(*, by_service: Verdict, own: Verdict) -> Raised:
    """Return the failure of a long answer, by a Service and by the server's own address."""

    def answer(attempt: Attempt, _: int) -> Observation:
        return observation(attempt, by_service if attempt.target == CLUSTER_IP else own)

    prober = ScriptedProber({CLIENT.pod: [answer]})
    expect = Expect(prober, TIMINGS, Context(claims=("CONN-4",)), prober.clock)
    asked = [(CLIENT, CLUSTER_IP)]
    return Raised(lambda: Backends(expect).answer_whole(asked, because="it is so"))


def overlay(
    nodes: Nodes = WELL, by: Carrier = VXLAN, *, inside: Verdict = UP, node: Verdict = REFUSED
) -> Raised:
    """Return the failure of a path between nodes; ``inside`` one of them, and to a ``node``."""
    to_far = CLIENT, SERVER.tcp(8080)
    to_near = replace(NEIGHBOUR, pod="inside"), CLIENT.tcp(8080)
    to_node = replace(CLIENT, pod="node", host_network=True)
    answers: dict[str, list[Answer]] = {CLIENT.pod: [DROPPED], SERVER.pod: [DROPPED]}
    prober = ScriptedProber(answers | {"inside": [inside], "node": [node]})
    expect = Expect(prober, TIMINGS, Context(claims=("VXLAN-4",)), prober.clock)
    carried = Overlay(expect, nodes, by)
    return Raised(
        lambda: carried.passes(between=[to_far], within=[to_near], node=to_node, because="it is so")
    )


# --- families -------------------------------------------------------------------------------------

NO_ROUTE = Blamed(("route of node linux-1 to block 192.168.3.0/26 of node windows-2: no route",))
NO_SESSION = replace(NO_ROUTE, by="sessions", see="BGP-1")
FABRIC = Blamed(see="the fabric")
DENY, COMPANY = "NetworkPolicy ns/deny (v1)", "GlobalNetworkPolicy company-wide (v3)"
AGENT_GONE = ProbeBroken("the agent is gone")
TWO = service(Addressing.CLUSTER_IP, "10.96.0.7", SERVER, SECOND)
ON_ONE_NODE = service(Addressing.CLUSTER_IP, "10.96.0.7", SERVER, THIRD)
OWN = service(Addressing.CLUSTER_IP, "10.96.0.7", CLIENT)
HEADLESS = service(Addressing.NAME, "web.demo.svc.cluster.local", SERVER, SECOND)
BARE = replace(CLUSTER_IP, backends=())


def first_only(attempt: Attempt, _: int) -> Observation:
    """Answer at the first backend's own address alone."""
    is_first = attempt.target is not None and attempt.target.host == SERVER.address
    return observation(attempt, UP if is_first else DROPPED)


def listening(port: int, protocol: str) -> Answer:
    """Return the answers of a pod that listens at one port alone."""

    def answer(attempt: Attempt, _: int) -> Observation:
        target = attempt.target
        listens = target is not None and (target.port, target.protocol) == (port, protocol)
        return observation(attempt, UP if listens else DROPPED)

    return answer


NOTHING_NEARER: dict[str, Failing] = {
    "nothing observed": not_open(POD),
    "nothing observed, within one node": not_open(NEIGHBOUR.tcp(80)),
    "nothing observed, two servers": not_open(TWO),
    "nothing observed, two servers of one node": not_open(ON_ONE_NODE),
    "nothing observed, outside": not_open(OUTSIDE),
    "no target": not_open(None, DROPPED),
    "DNS_FAILED": not_open(NAME, DNS_FAILED),
    "NO_SUCH_NAME": not_open(NAME, NO_NAME),
    "DNS_FAILED after a connection": not_open(NAME, UP, DNS_FAILED),
    "UNREACHABLE": not_open(POD, UNREACHABLE),
    "PROHIBITED": not_open(POD, PROHIBITED),
    "PROHIBITED, another client": not_open(POD, PROHIBITED, client=WINDOWS_CLIENT),
    "RESET": not_open(POD, RESET),
    "RESET, within one node": not_open(NEIGHBOUR.tcp(80), RESET),
    "TIMED_OUT, outside": not_open(OUTSIDE, DROPPED),
    "TIMED_OUT, then REFUSED": not_open(POD, DROPPED, REFUSED),
    "TIMED_OUT, outside, after a connection": not_open(OUTSIDE, UP, DROPPED),
    "REFUSED, outside": not_open(OUTSIDE, REFUSED),
    **{
        f"REFUSED, {way}": not_open(target, REFUSED)
        for way, target in {**ADDRESSES, **SERVICES}.items()
    },
    "REFUSED, pod address, two servers": not_open(replace(POD, backends=(SERVER, SECOND)), REFUSED),
    "REFUSED, two servers by name": not_open(HEADLESS, REFUSED),
    **{
        f"another pod answers, {way}": not_open(target, ANOTHER)
        for way, target in {**ADDRESSES, **SERVICES}.items()
    },
    "another pod answered, and then the server": not_open(CLUSTER_IP, ANOTHER, UP),
    "the server answered, and then another pod": not_open(CLUSTER_IP, UP, ANOTHER),
}
KUBE_PROXY: dict[str, Failing] = {
    "ClusterIP, Linux client": not_open(CLUSTER_IP, REFUSED),
    "ClusterIP, Windows client": not_open(CLUSTER_IP, REFUSED, client=WINDOWS_CLIENT),
    "NodePort of the server's node": not_open(node_port(SERVER), REFUSED),
    "NodePort of the server's node, Linux": not_open(
        node_port(LINUX_SERVER, LINUX_SERVER), REFUSED
    ),
    "NodePort of the client's node": not_open(node_port(CLIENT), REFUSED),
    "NodePort of the client's node, Windows": not_open(
        node_port(WINDOWS_CLIENT), REFUSED, client=WINDOWS_CLIENT
    ),
    "NodePort of a third node": not_open(node_port(SECOND), REFUSED),
    "NodePort of a third node, with a pod there": not_open(node_port(SECOND, at=SECOND), REFUSED),
    "NodePort of a third node, another pod answers": not_open(node_port(SECOND), ANOTHER),
    "NodePort, another pod answers": not_open(node_port(SERVER), ANOTHER),
    "NodePort that the second server's node has": not_open(
        node_port(SECOND, SERVER, SECOND), REFUSED
    ),
}
NEAREST: dict[str, Failing] = {
    "pod address": not_open(POD, DROPPED),
    "pod address, after a connection": not_open(POD, UP, DROPPED),
    "pod address, before a connection": not_open(POD, DROPPED, UP),
    "pod address, no server known": not_open(replace(POD, backends=()), DROPPED),
    "pod address, one policy": not_open(POD, DROPPED, policies=(DENY,)),
    "pod address, two policies": not_open(POD, DROPPED, policies=(DENY, COMPANY)),
    "pod address, no route": not_open(POD, DROPPED, overlay=NO_ROUTE),
    "pod address, no session": not_open(POD, DROPPED, overlay=NO_SESSION),
    "pod address, no route and a policy": not_open(
        POD, DROPPED, overlay=NO_ROUTE, policies=(DENY,)
    ),
    "pod address, fabric": not_open(POD, DROPPED, overlay=FABRIC),
    "pod address, fabric and one policy": not_open(POD, DROPPED, overlay=FABRIC, policies=(DENY,)),
    "pod address, fabric and two policies": not_open(
        POD, DROPPED, overlay=FABRIC, policies=(DENY, COMPANY)
    ),
    "pod address, nodes not read": not_open(
        POD, DROPPED, overlay=Blamed(unread="routes of node linux-1 could not be read")
    ),
    "pod address, UNREACHABLE and no route": not_open(POD, UNREACHABLE, overlay=NO_ROUTE),
    "pod address, UNREACHABLE and a policy": not_open(POD, UNREACHABLE, policies=(DENY,)),
    "pod address, REFUSED, no route and a policy": not_open(
        POD, REFUSED, overlay=NO_ROUTE, policies=(DENY,)
    ),
    "node address": not_open(NODE, DROPPED),
    "node address, one policy": not_open(NODE, DROPPED, policies=(DENY,)),
    "node address, fabric": not_open(NODE, DROPPED, overlay=FABRIC),
    "node address, no route": not_open(NODE, DROPPED, overlay=NO_ROUTE),
    "outside, one policy": not_open(OUTSIDE, DROPPED, policies=(DENY,)),
    "ClusterIP, no server known": not_open(BARE, DROPPED),
    **{
        f"{way}, server closed": not_open(target, DROPPED)
        for way, target in {**SERVICES, "NodePort": node_port(SERVER)}.items()
    },
    **{
        f"{way}, server open": not_open(target, DROPPED, own=(UP,))
        for way, target in {**SERVICES, "NodePort": node_port(SERVER)}.items()
    },
    "ClusterIP, server open at the second attempt": not_open(
        CLUSTER_IP, DROPPED, own=(DROPPED, UP)
    ),
    "ClusterIP, server open at the third attempt": not_open(
        CLUSTER_IP, DROPPED, own=(DROPPED, DROPPED, UP)
    ),
    "ClusterIP, server refuses": not_open(CLUSTER_IP, DROPPED, own=(REFUSED,)),
    "ClusterIP, server unreachable": not_open(CLUSTER_IP, DROPPED, own=(UNREACHABLE,)),
    "ClusterIP, server cannot be asked": not_open(CLUSTER_IP, DROPPED, own=(AGENT_GONE,)),
    "ClusterIP, server open at its own port alone": not_open(
        CLUSTER_IP, DROPPED, own=(listening(8080, "tcp"),)
    ),
    "ClusterIP, server open at the Service's port alone": not_open(
        CLUSTER_IP, DROPPED, own=(listening(80, "tcp"),)
    ),
    "ClusterIP, server open at the same port": not_open(
        replace(CLUSTER_IP, backend_port=0), DROPPED, own=(listening(80, "tcp"),)
    ),
    "ClusterIP, server open by UDP alone": not_open(
        CLUSTER_IP, DROPPED, own=(listening(8080, "udp"),)
    ),
    "ClusterIP by UDP, server open by UDP alone": not_open(
        replace(CLUSTER_IP, protocol="udp"), DROPPED, own=(listening(8080, "udp"),)
    ),
    "ClusterIP UNREACHABLE, server open": not_open(CLUSTER_IP, UNREACHABLE, own=(UP,)),
    "ClusterIP UNREACHABLE, server closed": not_open(CLUSTER_IP, UNREACHABLE),
    "ClusterIP REFUSED, server closed": not_open(CLUSTER_IP, REFUSED),
    "ClusterIP, one policy": not_open(CLUSTER_IP, DROPPED, policies=(DENY,)),
    "ClusterIP, two policies": not_open(CLUSTER_IP, DROPPED, policies=(DENY, COMPANY)),
    "ClusterIP, one policy, server open": not_open(
        CLUSTER_IP, DROPPED, policies=(DENY,), own=(UP,)
    ),
    "ClusterIP, no route": not_open(CLUSTER_IP, DROPPED, overlay=NO_ROUTE),
    "ClusterIP, no route, server open": not_open(CLUSTER_IP, DROPPED, overlay=NO_ROUTE, own=(UP,)),
    "ClusterIP, no route and a policy": not_open(
        CLUSTER_IP, DROPPED, overlay=NO_ROUTE, policies=(DENY,)
    ),
    "ClusterIP, fabric": not_open(CLUSTER_IP, DROPPED, overlay=FABRIC),
    "ClusterIP, two servers closed": not_open(TWO, DROPPED),
    "ClusterIP, two servers of one node closed": not_open(ON_ONE_NODE, DROPPED),
    "ClusterIP, one of two servers open": not_open(TWO, DROPPED, own=(first_only,)),
}
REMOVED: dict[str, Failing] = {
    "TIMED_OUT": removed(POD, DROPPED),
    "TIMED_OUT, enforced at the source": removed(POD, DROPPED, side="source"),
    "TIMED_OUT, enforced at the target": removed(POD, DROPPED, side="target"),
    "TIMED_OUT, after a connection": removed(POD, UP, DROPPED),
    "TIMED_OUT, before a connection": removed(POD, DROPPED, UP),
    "TIMED_OUT, another policy there": removed(POD, DROPPED, policies=(DENY,)),
    "TIMED_OUT, no route": removed(POD, DROPPED, overlay=NO_ROUTE),
    "TIMED_OUT, no route and another policy": removed(
        POD, DROPPED, overlay=NO_ROUTE, policies=(DENY,)
    ),
    "TIMED_OUT, ClusterIP, server open": removed(CLUSTER_IP, DROPPED, own=(UP,)),
    "TIMED_OUT, ClusterIP, server open, another policy there": removed(
        CLUSTER_IP, DROPPED, own=(UP,), policies=(DENY,)
    ),
    "TIMED_OUT, outside, another policy there": removed(OUTSIDE, DROPPED, policies=(DENY,)),
    "REFUSED": removed(POD, REFUSED),
    "UNREACHABLE": removed(POD, UNREACHABLE),
    "nothing observed": removed(POD),
}
NOT_CLOSED: dict[str, Failing] = {
    "CONNECTED": not_closed(POD, UP),
    "CONNECTED, enforced at both ends": not_closed(POD, UP, side="both"),
    "CONNECTED, enforced at the source": not_closed(POD, UP, side="source"),
    "CONNECTED, enforced at the target": not_closed(POD, UP, side="target"),
    "CONNECTED, Linux server": not_closed(LINUX_POD, UP),
    "CONNECTED, Linux server, enforced at the target": not_closed(LINUX_POD, UP, side="target"),
    "CONNECTED, Windows client": not_closed(POD, UP, client=WINDOWS_CLIENT),
    "CONNECTED, Windows client, enforced at the source": not_closed(
        POD, UP, client=WINDOWS_CLIENT, side="source"
    ),
    "CONNECTED, Windows client, Linux server": not_closed(LINUX_POD, UP, client=WINDOWS_CLIENT),
    "CONNECTED, within one node": not_closed(NEIGHBOUR.tcp(8080), UP),
    "CONNECTED, within one node, enforced at the target": not_closed(
        NEIGHBOUR.tcp(8080), UP, side="target"
    ),
    "CONNECTED, own Service": not_closed(OWN, UP),
    "CONNECTED, two servers": not_closed(TWO, UP, side="target"),
    "CONNECTED, outside": not_closed(OUTSIDE, UP),
    "CONNECTED, outside, enforced at the target": not_closed(OUTSIDE, UP, side="target"),
    "CONNECTED, no target, enforced at the target": not_closed(None, UP, side="target"),
    "CONNECTED, UDP": not_closed(UDP, UP),
    "CONNECTED, ClusterIP": not_closed(CLUSTER_IP, UP),
    "CONNECTED, NodePort": not_closed(node_port(SERVER), UP),
    "CONNECTED after a denial": not_closed(POD, DROPPED, UP, standing=LEAK),
    "CONNECTED, a policy there and no route": not_closed(
        POD, UP, policies=(DENY,), overlay=NO_ROUTE
    ),
    "REFUSED": not_closed(POD, REFUSED),
    "REFUSED, then CONNECTED": not_closed(POD, REFUSED, UP),
    "CONNECTED, then REFUSED": not_closed(POD, UP, REFUSED),
    "REFUSED and undecided": not_closed(POD, REFUSED, standing=UNDECIDED),
    "UNREACHABLE, which is no denial": not_closed(POD, UNREACHABLE, standing=NO_DENIAL),
    "UNREACHABLE and undecided": not_closed(POD, UNREACHABLE, standing=UNDECIDED),
    "REFUSED, then CONNECTED, and undecided": not_closed(POD, REFUSED, UP, standing=UNDECIDED),
    "DNS_FAILED": not_closed(NAME, DNS_FAILED, standing=ASTRAY),
    "another pod answers": not_closed(CLUSTER_IP, ANOTHER, standing=ASTRAY),
    "TIMED_OUT, without any control": not_closed(POD, DROPPED, standing=UNDECIDED),
    "TIMED_OUT, without any control, a policy there": not_closed(
        POD, DROPPED, standing=UNDECIDED, policies=(DENY,)
    ),
}
OPEN = Route(POD, (UP, UP), NEIGHBOUR)
WAVERING = Route(POD, (UP, DROPPED), NEIGHBOUR)
DEAD = Route(POD, (DROPPED, DROPPED), NEIGHBOUR)
ARRIVING = not_closed(POD, UP)
LED_NOWHERE = not_closed(NAME, DNS_FAILED, standing=ASTRAY)
CONTROLS: dict[str, Failing] = {
    "each attempt connected": control_lost(OPEN),
    "each attempt connected, packets arrive": control_lost(OPEN, denied=ARRIVING),
    "each attempt connected, the name led nowhere": control_lost(OPEN, denied=LED_NOWHERE),
    "each attempt connected, Windows client": control_lost(Route(POD, (UP,), WINDOWS_CLIENT)),
    "some attempts connected": control_lost(WAVERING),
    "another pod answered": control_lost(Route(POD, (ANOTHER,), NEIGHBOUR)),
    "never asked": control_lost(Route(POD, (), NEIGHBOUR)),
    "no attempt connected, outside": control_lost(Route(OUTSIDE, (DROPPED,), NEIGHBOUR)),
    "no attempt connected, no target": control_lost(Route(None, (DROPPED,), NEIGHBOUR)),
    "no attempt connected, two servers": control_lost(Route(TWO, (DROPPED,), NEIGHBOUR)),
    "the best of its source's connected": control_lost(
        DEAD, OPEN, to_target=[replace(WAVERING, client=SECOND)]
    ),
    "the best of its target's connected": control_lost(
        Route(LINUX_POD, (UP, DROPPED, DROPPED)), to_target=[WAVERING, OPEN]
    ),
    "the worst of two of its source's": control_lost(
        Route(LINUX_POD, (UP, UP, DROPPED)), Route(POD, (UP, DROPPED, DROPPED))
    ),
}
LATE: dict[str, Failing] = {
    "closed": late(not_open(POD, DROPPED), overwhelmed=True),
    "closed, machine was not overwhelmed": late(not_open(POD, DROPPED)),
    "closed, given no more time": not_open(POD, DROPPED, overwhelmed=True),
    "open": late(not_closed(POD, UP), overwhelmed=True),
    "open, machine was not overwhelmed": late(not_closed(POD, UP)),
    "open after a denial": late(not_closed(POD, DROPPED, UP, standing=LEAK), overwhelmed=True),
    "no denial": late(not_closed(POD, UNREACHABLE, standing=NO_DENIAL), overwhelmed=True),
    "undecided": late(not_closed(POD, REFUSED, standing=UNDECIDED), overwhelmed=True),
    "wavers": late(replace(not_open(POD, UP, DROPPED), standing=WAVERS), overwhelmed=True),
}
NAMES: dict[str, Failing] = {
    "no answer, DNS answers": Unresolved(no_answer),
    "no answer, DNS answers, pods not known": Unresolved(no_answer, pods=()),
    "no answer, one DNS pod silent": Unresolved(no_answer, pods=(0.003, None)),
    "no answer, one DNS pod silent, DNS late": Unresolved(no_answer, 3.1, (0.003, None)),
    "no answer, one DNS pod silent, DNS too": Unresolved(no_answer, None, (0.003, None)),
    "no answer, DNS late": Unresolved(no_answer, 3.1),
    "no answer, DNS late, pods not known": Unresolved(no_answer, 3.1, ()),
    "no answer, DNS late, all pods silent": Unresolved(no_answer, 3.1, (None, None)),
    "no answer, all DNS pods silent": Unresolved(no_answer, 0.003, (None, None)),
    "no answer, DNS and all its pods silent": Unresolved(no_answer, None, (None, None)),
    "no answer, DNS silent": Unresolved(no_answer, None),
    "no answer, DNS silent, pods not known": Unresolved(no_answer, None, ()),
    "no answer, nothing known of DNS": Unresolved(no_answer, is_known=False),
    "wrong address": Unresolved(wrong_address),
    "NXDOMAIN": Unresolved(no_record("NXDOMAIN")),
    "NOERROR": Unresolved(no_record("NOERROR")),
    "NXDOMAIN and a wrong address by turns": Unresolved(
        by_turns(no_record("NXDOMAIN"), wrong_address)
    ),
    "a wrong address and NXDOMAIN by turns": Unresolved(
        by_turns(wrong_address, no_record("NXDOMAIN"))
    ),
    "a wrong address and the right one by turns": Unresolved(
        by_turns(wrong_address, right_address)
    ),
    "no answer, their policy closes UDP": Unresolved(no_answer, others=Owner("closed", "UDP")),
    "no answer, their policy closes TCP": Unresolved(no_answer, others=CLOSES),
    "no answer, the client's pod restarted": Unresolved(no_answer, is_restarted=True),
    "late, DNS answers": Unresolved(late_address),
    "late, DNS late": Unresolved(late_address, 3.1),
    "late, nothing known of DNS": Unresolved(late_address, is_known=False),
    "no answer, DNS answers NO_SUCH_NAME": Unresolved(no_answer, NO_NAME),
    "no answer, DNS silent, one pod answers NO_SUCH_NAME": Unresolved(
        no_answer, None, (None, NO_NAME)
    ),
    "no answer, one server asked": Unresolved(no_answer, at=(dns.FIRST.udp(53),)),
    "no answer, one server asked, another DNS pod silent": Unresolved(
        no_answer, pods=(0.003, None), at=(dns.FIRST.udp(53),)
    ),
    "no answer, one server asked, which is silent": Unresolved(
        no_answer, pods=(None, 0.003), at=(dns.FIRST.udp(53),)
    ),
    "no A wanted, an address": Unresolved(wrong_address, to=()),
    "no A wanted, NXDOMAIN late": Unresolved(no_record("NXDOMAIN", 3.1), to=(), is_known=False),
    "AAAA wanted, NXDOMAIN": Unresolved(no_record("NXDOMAIN"), record="AAAA"),
    "no AAAA wanted, NXDOMAIN": Unresolved(no_record("NXDOMAIN"), to=(), record="AAAA"),
    "no AAAA wanted, NOERROR late": Unresolved(
        no_record("NOERROR", 3.1), to=(), record="AAAA", is_known=False
    ),
    "no AAAA wanted, an address": Unresolved(wrong_address, to=(), record="AAAA"),
    "no AAAA wanted, no answer": Unresolved(no_answer, to=(), record="AAAA", is_known=False),
}
OTHERS: dict[str, Failing] = {
    "their policy closes, nothing observed": not_open(POD, others=CLOSES),
    "their policy closes, TIMED_OUT": not_open(POD, DROPPED, others=CLOSES),
    "their policy closes, RESET": not_open(POD, RESET, others=CLOSES),
    "their policy closes, RESET, then TIMED_OUT": not_open(POD, RESET, DROPPED, others=CLOSES),
    "their policy closes, TIMED_OUT, then RESET": not_open(POD, DROPPED, RESET, others=CLOSES),
    "their policy closes, path wavers": replace(
        not_open(POD, UP, DROPPED, others=CLOSES), standing=WAVERS
    ),
    "their policy closes, CONNECTED": not_closed(POD, UP, others=CLOSES),
    "their policy closes UDP, TIMED_OUT": not_open(POD, DROPPED, others=Owner("closed", "UDP")),
    "their policy closes UDP, TIMED_OUT by UDP": not_open(
        UDP, DROPPED, others=Owner("closed", "UDP")
    ),
    "their policy closes UDP, TIMED_OUT by name": not_open(
        NAME, DROPPED, others=Owner("closed", "UDP")
    ),
    "their policy closes UDP, DNS_FAILED": not_open(
        NAME, DNS_FAILED, others=Owner("closed", "UDP")
    ),
    "their policy closes UDP, DNS_FAILED, then TIMED_OUT": not_open(
        NAME, DNS_FAILED, DROPPED, others=Owner("closed", "UDP")
    ),
    "their policy opens, CONNECTED": not_closed(POD, UP, others=OPENS),
    "their policy opens, nothing observed": not_closed(POD, others=OPENS),
    "their policy opens, CONNECTED after a denial": not_closed(
        POD, DROPPED, UP, standing=LEAK, others=OPENS
    ),
    "their policy opens, REFUSED": not_closed(POD, REFUSED, others=OPENS),
    "their policy opens, no denial": not_closed(POD, UNREACHABLE, standing=NO_DENIAL, others=OPENS),
    "their policy opens, undecided": not_closed(POD, REFUSED, standing=UNDECIDED, others=OPENS),
    "their policy opens, TIMED_OUT": not_open(POD, DROPPED, others=OPENS),
    "another run, nothing observed": not_open(POD, runs=OTHER_RUN),
    "another run, TIMED_OUT": not_open(POD, DROPPED, runs=OTHER_RUN),
    "another run, RESET": not_open(POD, RESET, runs=OTHER_RUN),
    "another run, UNREACHABLE": not_open(POD, UNREACHABLE, runs=OTHER_RUN),
    "another run, TIMED_OUT, then UNREACHABLE": not_open(POD, DROPPED, UNREACHABLE, runs=OTHER_RUN),
    "another run, UNREACHABLE, then TIMED_OUT": not_open(POD, UNREACHABLE, DROPPED, runs=OTHER_RUN),
    "another run, UNREACHABLE, TIMED_OUT, UNREACHABLE": not_open(
        POD, UNREACHABLE, DROPPED, UNREACHABLE, runs=OTHER_RUN
    ),
    "another run, another pod answered": not_open(POD, ANOTHER, DROPPED, runs=OTHER_RUN),
    "another run, CONNECTED": not_closed(POD, UP, runs=OTHER_RUN),
    "another run, their policy closes, TIMED_OUT": not_open(
        POD, DROPPED, others=CLOSES, runs=OTHER_RUN
    ),
    "first action of a new pod": first_action(SERVER),
    "first action of a new pod, their policy opens": first_action(SERVER, others=OPENS),
    "first action of a new pod, their policy closes": first_action(SERVER, others=CLOSES),
    "nothing restarted": reachable(POD, DROPPED),
    "the client's pod restarted": reachable(POD, DROPPED, restarted=[CLIENT.pod]),
    "the server's pod restarted": reachable(POD, DROPPED, restarted=[SERVER.pod]),
}
FELIX: dict[str, Failing] = {
    "runs": WithFelix(reachable(POD, DROPPED), ()),
    "does not run on the server's node": WithFelix(reachable(POD, DROPPED), ("windows-2",)),
    "does not run on the client's node": WithFelix(reachable(POD, DROPPED), ("linux-1",)),
    "does not run, path not closed": WithFelix(not_closed(POD, UP), ("windows-2",)),
    "does not run, message without lines": WithFelix(first_action(SERVER), ("windows-2",)),
}
STREAMS: dict[str, Failing] = {
    "Linux to Windows": StreamLost(CLIENT, SERVER),
    "Linux to Linux": StreamLost(CLIENT, LINUX_SERVER),
    "Windows to Linux": StreamLost(WINDOWS_CLIENT, LINUX_SERVER),
    "Windows to Windows": StreamLost(WINDOWS_CLIENT, SERVER),
    "within a Windows node": StreamLost(SERVER, THIRD),
    "too late, overwhelmed": StreamLost(CLIENT, SERVER, True, 4.0, True),
    "too late, not overwhelmed": StreamLost(CLIENT, SERVER, True, 4.0),
    "too late, given no more time": StreamLost(CLIENT, SERVER, True, overwhelmed=True),
    "not too late, overwhelmed": StreamLost(CLIENT, SERVER, given=4.0, overwhelmed=True),
}
NEW_PODS: dict[str, Failing] = {
    "answers, Windows": new_pod(SERVER),
    "answers, Linux": new_pod(LINUX_SERVER),
    "UNREACHABLE": new_pod(SERVER, UNREACHABLE),
    "answers, and the client is dead": new_pod(SERVER, beside=DROPPED),
    "silent, and the client is dead": new_pod(SERVER, DROPPED, beside=DROPPED),
    "silent, and its first action never ends": new_pod(SERVER, DROPPED, stage="acting"),
    "UNREACHABLE, and its first action never ends": new_pod(SERVER, UNREACHABLE, stage="acting"),
    "silent, the client is dead, and its first action never ends": new_pod(
        SERVER, DROPPED, beside=DROPPED, stage="acting"
    ),
    "sends, Windows": first_action(WINDOWS_CLIENT),
    "sends, Linux": first_action(CLIENT),
    "never Ready, Windows": never_ready(SERVER),
    "never Ready, Linux": never_ready(LINUX_SERVER),
}
SIZES: dict[str, Failing] = {
    "large datagram": lost_by_size(UDP, 12000),
    "large datagram, and small ones": lost_by_size(UDP, 12000, 576),
    "datagram of one packet": lost_by_size(UDP, *range(600, 700)),
    "transfer": lost_by_size(POD, 1_200_000),
    "transfer, and small ones": lost_by_size(POD, 1_200_000, 576),
}
PAGES: dict[str, Failing] = {
    "of a pod": page(POD),
    "of two pods": page(TWO),
    "of a server outside": page(OUTSIDE),
}
ANSWERS: dict[str, Failing] = {
    "lost by the Service": answered_whole(by_service=DROPPED, own=UP),
    "lost by the server's own address too": answered_whole(by_service=DROPPED, own=DROPPED),
}
LACKING = Nodes({("linux-1", "windows-2"): "no route"})
OVERLAY: dict[str, Failing] = {
    "VXLAN, nothing lacks": overlay(),
    "no overlay, nothing lacks": overlay(by=ADDRESSES_ONLY),
    "VXLAN, no route": overlay(LACKING),
    "no overlay, no route": overlay(LACKING, ADDRESSES_ONLY),
    "VXLAN, nodes not read": overlay(Nodes(broken=True)),
    "VXLAN, nothing connects inside a node": overlay(inside=DROPPED),
    "VXLAN, node not reached": overlay(node=DROPPED),
}
GROUPS = {
    "to be open": NOTHING_NEARER,
    "kube-proxy": KUBE_PROXY,
    "to be open, TIMED_OUT": NEAREST,
    "policies removed": REMOVED,
    "to be closed": NOT_CLOSED,
    "control lost": CONTROLS,
    "machine late": LATE,
    "name": NAMES,
    "others": OTHERS,
    "Felix": FELIX,
    "stream lost": STREAMS,
    "new pod": NEW_PODS,
    "size": SIZES,
    "page": PAGES,
    "long answer": ANSWERS,
    "between nodes": OVERLAY,
}
FAMILIES = {
    f"{group}: {family}": failing
    for group, families in GROUPS.items()
    for family, failing in families.items()
}


def advice_of(family: str) -> str:
    """Return the advice that the failure of a family ends with, line by line."""
    error = FAMILIES[family].error()
    found = DO.findall(str(error))
    if not found:
        raise ValueError(f"{family}: no advice in {error!r}")
    return "\n    ".join(found)


def written() -> dict[str, str]:
    """Return the golden advice by family."""
    entries = TEXTS.read_text(encoding="utf-8").split("\n\n")
    return {
        family: advice for family, _, advice in (one.strip().partition("\n    ") for one in entries)
    }


if __name__ == "__main__":
    TEXTS.write_text(
        "\n".join(f"{family}\n    {advice_of(family)}\n" for family in FAMILIES), encoding="utf-8"
    )
