# SPDX-License-Identifier: Apache-2.0
"""Builders of single failures of an expectation, for tests of the advice at the end of the
failure's message.

Each builder takes only the facts on which the choice of the advice may depend.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Protocol

from conformance.errors import Nonconformance, SuiteError
from conformance.evidence.felix_cause import name_felix
from conformance.expect import excuses, machine_lag
from conformance.expect.case import Case
from conformance.expect.context import Context, Pace
from conformance.expect.engine import path
from conformance.expect.engine.decide import BrokenControl, Standing, Wrong
from conformance.expect.engine.path import Rule, Why
from conformance.expect.explain.advice import Side
from conformance.expect.explain.between_nodes import Blamed
from conformance.expect.failure import failure
from conformance.expect.figures import PolicyChange
from conformance.expect.outcome import Outcome
from conformance.expect.owners import ForeignPolicyView, NoForeignChanges, Runs
from conformance.expect.subjects.overlay import VXLAN, Carrier, Overlay
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Addressing, Target, Workload
from conformance.model.observation import Verdict
from conformance.settings import load_timings
from tests.unit.conformance.builders import a_workload
from tests.unit.conformance.expect.stand_in_world import StandInWorld
from tests.unit.conformance.expect.stand_ins import Answer, ScriptedProber, observation
from tests.unit.conformance.expect.subjects.test_overlay import WELL, Nodes

Result = Verdict | str
"""The result of one attempt; a text is the name of a pod that answers and is not a backend."""
UP, DROPPED, REFUSED = Verdict.CONNECTED, Verdict.TIMED_OUT, Verdict.REFUSED
UNREACHABLE, PROHIBITED, RESET = Verdict.UNREACHABLE, Verdict.PROHIBITED, Verdict.RESET
NO_NAME, DNS_FAILED = Verdict.NO_SUCH_NAME, Verdict.DNS_FAILED
ANOTHER = "ns/another-pod"
CLOSED, ARRIVES = Wrong(Why.CLOSED), Wrong(Why.OPEN)
ASTRAY, UNDECIDED = BrokenControl(Why.ASTRAY), BrokenControl(Why.CONTROL)
LEAK, NO_DENIAL, WAVERS = Wrong(Why.LEAK), Wrong(Why.NO_DENIAL), Wrong(Why.WAVERS)
NONE_BLAMED = Blamed()
NOBODY = NoForeignChanges()
TIMINGS = load_timings()

# --- pods, and the ways to address them -----------------------------------------------------------


def pod(name: str, node: str, number: int) -> Workload:
    """Return a pod on a node; the node's name shows its operating system."""
    made = a_workload(name, "windows" if node.startswith("windows") else "linux")
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
"""Targets by the address that a client uses; NodePorts are separate, since they depend on the
node."""


def node_port(called: Workload, *backends: Workload, at: Workload | None = None) -> Target:
    """Return a Service's NodePort on the node of a pod."""
    return service(Addressing.NODE_PORT, called.node_address, *backends, at=at)


# --- paths ----------------------------------------------------------------------------------------


class Failing(Protocol):
    """The cause of one failure."""

    def error(self) -> BaseException | None: ...


def expecting(
    answers: dict[str, list[Answer]], *, restarted: Sequence[str] = (), **world: Any
) -> Expect:
    """Return expectations over scripted answers; ``restarted``: pods that have been replaced
    meanwhile."""
    prober = ScriptedProber(answers, restarted=set(restarted))
    context = Context(claims=("CONN-3",), world=StandInWorld(**world))
    return Expect(prober, TIMINGS, context, prober.clock)


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The facts about the cluster in addition to the path."""

    policies: tuple[str, ...] = ()
    """The names of policies that may be in force at the path's pods."""
    overlay: Blamed = NONE_BLAMED
    """Faults of parts that the overlay needs."""
    own: tuple[Answer, ...] = (DROPPED,)
    """The answers at the server's own address, attempt by attempt."""
    side: Side | None = None
    """The end of the path whose node enforces the test's policies; None: no policy was changed."""
    overwhelmed: bool = False
    """True if the lab's machine was overwhelmed all the time."""
    others: ForeignPolicyView = NOBODY
    """Owners of policies other than the test's."""
    runs: Runs = NOBODY
    """Other runs that change the cluster."""

    def expecting(self, source: Workload) -> Expect:
        """Return expectations over this cluster."""
        change = PolicyChange(what="apply it", at=0.0, enforced_at=self.side) if self.side else None
        made = expecting(
            {source.pod: list(self.own)},
            policies_there=lambda pods: self.policies,
            overlay=lambda source, target: self.overlay,
            change=lambda: change,
            others=self.others,
            runs=self.runs,
        )
        machine: Any = SimpleNamespace(overwhelmed=lambda *_, **__: self.overwhelmed, excused=0)
        return replace(made, context=replace(made.context, pace=Pace(machine=machine)))


ALONE = Cluster()


@dataclass(frozen=True)
class Route:
    """A path and the results of its attempts."""

    target: Target | None
    """The target; None: the source asks its resolver for a name."""
    observed: tuple[Result, ...]
    client: Workload = CLIENT
    given: float = 0.0
    """s. The time that was added to its budget because the machine was late."""

    def path(self, *, want: bool) -> path.Path:
        """Return the path with its attempts, one per second; ``want``: the path should be open."""
        patience = TIMINGS.of(self.client.os)
        attempt = (
            Attempt(source=self.client, kind=Kind.DNS, give_up_after=5.0, query="web.demo.")
            if self.target is None
            else ALONE.expecting(self.client).attempt(self.client, self.target, want=want)
        )
        made = path.Path(
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
    """A path that should be open and is not."""

    route: Route
    cluster: Cluster = ALONE
    standing: Standing = CLOSED
    removed: bool = False
    """True if the policies have just been removed."""

    def error(self) -> Exception | None:
        return self._failure(self.route.path(want=True))

    def _failure(self, path: path.Path) -> Exception | None:
        expect = self.cluster.expecting(self.route.client)
        outcomes = [Outcome(path, self.standing, is_control=False, because="it is so")]
        machine_lag.excuse(expect, outcomes, 0.0)
        excuses.excuse(expect, outcomes)
        return failure(expect, outcomes, seconds=60.0, removed=self.removed)


@dataclass(frozen=True)
class NotClosed(NotOpen):
    """A path that a policy should close, and on which time-outs do not persist."""

    standing: Standing = ARRIVES
    controls: tuple[tuple[Route, ...], ...] = ()
    """Open paths from its source, and open paths to its target."""

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


def not_open(
    target: Target | None, *observed: Result, client: Workload = CLIENT, **more: Any
) -> NotOpen:
    """Return the failure of a path that should be open; ``more``: facts about the cluster."""
    return NotOpen(Route(target, observed, client), Cluster(**more))


def not_reopened(target: Target | None, *observed: Result, **more: Any) -> NotOpen:
    """Return the failure of a path that should be open again after its policies were removed."""
    return replace(not_open(target, *observed, **more), removed=True)


def not_closed(
    target: Target | None,
    *observed: Result,
    client: Workload = CLIENT,
    standing: Standing = ARRIVES,
    **more: Any,
) -> NotClosed:
    """Return the failure of a path that a policy should close; ``more``: facts about the
    cluster."""
    return NotClosed(Route(target, observed, client), Cluster(**more), standing)


def control_lost(
    *controls: Route, to_target: Sequence[Route] = (), denied: NotClosed | None = None
) -> NotClosed:
    """Return the failure of a denial whose controls, from its source and to its target, failed.

    ``denied``: the denial, unless it is one that failed controls leave undecided.
    """
    kinds = tuple(kind for kind in (controls, tuple(to_target)) if kind)
    undecided = not_closed(POD, *[DROPPED] * 4, standing=UNDECIDED)
    return replace(denied or undecided, controls=kinds)


def on_late_machine(row: NotOpen, **more: Any) -> NotOpen:
    """Return the same failure on a machine that was late; ``more``: facts about the cluster."""
    return replace(row, route=replace(row.route, given=30.0), cluster=Cluster(**more))


# --- other owners, and Felix ----------------------------------------------------------------------


@dataclass
class Owner(NoForeignChanges):
    """Another owner of a policy that closes or opens paths of one protocol."""

    gives: str
    """The effect of the policy: ``closed`` or ``open``."""
    by: str = "TCP"
    exempt: str = "exempt the suite's namespaces"

    def excuse(self, *way: object, **how: object) -> str:
        given = (way[2], how["protocol"])
        return "a foreign policy may give it" if given == (self.gives, self.by) else ""


class OtherRun(NoForeignChanges):
    """Another run that is changing every node."""

    exempt = "wait until that run has ended"

    def excuse(self, *way: object, **how: object) -> str:
        return "another run is changing this node"


CLOSES, OPENS, OTHER_RUN = Owner("closed"), Owner("open"), OtherRun()


def reachable(
    target: Target, result: Answer, *, restarted: Sequence[str] = (), **world: Any
) -> Raised:
    """Return the failure of the expectation that a client reaches a target."""

    def expectation() -> None:
        expect = expecting({CLIENT.pod: [result]}, restarted=restarted, **world)
        expect.reachable(CLIENT, target, because="it is so")

    return Raised(expectation)


@dataclass(frozen=True)
class WithFelix:
    """A failure whose message also names the nodes on which Felix does not run."""

    failing: Failing
    down: tuple[str, ...]
    """Nodes on which Felix does not run."""

    def error(self) -> BaseException | None:
        error = self.failing.error()
        assert error is not None
        name_felix(error, ["linux-1", "windows-2"], lambda nodes: dict.fromkeys(self.down, "gone"))
        return error


def overlay(
    nodes: Nodes = WELL, by: Carrier = VXLAN, *, inside: Verdict = UP, node: Verdict = REFUSED
) -> Raised:
    """Return the failure of a path between nodes. ``inside`` and ``node`` are the results of
    attempts to a pod of the same node, and to the other node itself."""
    inside_pod = replace(NEIGHBOUR, pod="inside")
    to_node = replace(CLIENT, pod="node", host_network=True)
    answers: dict[str, list[Answer]] = {
        CLIENT.pod: [DROPPED],
        SERVER.pod: [DROPPED],
        "inside": [inside],
        "node": [node],
    }

    def expectation() -> None:
        Overlay(expecting(answers), nodes, by).passes(
            Case(CLIENT, SERVER, tcp=8080, open=True, because="it is so"),
            Case(inside_pod, CLIENT, tcp=8080, open=True, witness=True, because="it is so"),
            node=to_node,
        )

    return Raised(expectation)
