# SPDX-License-Identifier: Apache-2.0
"""Causes of single failures about streams, the start of pods, sizes and pages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from conformance.expect.case import Case
from conformance.expect.context import Pace
from conformance.expect.owners import ForeignPolicyView, Runs
from conformance.expect.subjects.backends import Backends
from conformance.expect.subjects.fragments import Fragments
from conformance.expect.subjects.pages import Pages
from conformance.expect.subjects.pod_startup import PodStartup
from conformance.model.attempt import Attempt
from conformance.model.endpoint import Target, Workload
from conformance.model.observation import Observation, Verdict
from conformance.model.stream import StreamState, StreamVerdict
from conformance.pods.new_pod import Stage
from tests.unit.conformance.expect import stream_stand_ins as streams
from tests.unit.conformance.expect.failing import (
    CLIENT,
    CLUSTER_IP,
    DROPPED,
    NEIGHBOUR,
    NOBODY,
    POD,
    SERVER,
    UP,
    Raised,
    expecting,
)
from tests.unit.conformance.expect.stand_in_world import StandInWorld
from tests.unit.conformance.expect.stand_ins import Answer, observation
from tests.unit.conformance.expect.subjects.test_pod_startup import NewPod


@dataclass(frozen=True)
class StreamLost:
    """A stream between two pods that was lost and is not opened again in time."""

    client: Workload
    server: Workload
    too_late: bool = False
    """True if the only fault is that the budget for a new stream is over."""
    given: float = 0.0
    """s. The time that was added to the budget because the machine was late."""
    overwhelmed: bool = False
    """True if the lab's machine was overwhelmed all the time."""
    others: ForeignPolicyView = NOBODY
    runs: Runs = NOBODY
    ends: tuple[StreamVerdict, StreamVerdict] = (streams.RESET, streams.STALLED)
    """The states of the client's end and of the server's end."""

    def error(self) -> Exception:
        expected = streams.Expectations(streams.ScriptedStreams(streams.LOST)).streams
        machine: Any = SimpleNamespace(overwhelmed=lambda *_: self.overwhelmed, excused=0)
        world = StandInWorld(others=self.others, runs=self.runs)
        context = replace(expected.expect.context, pace=Pace(machine=machine), world=world)
        expected.expect = replace(expected.expect, context=context)
        expected._given = self.given
        state = StreamState(
            client=streams.end(self.client, "client", self.ends[0]),
            server=streams.end(self.server, "server", self.ends[1]),
            target=self.server.tcp(9000),
            recovery_tries=1,
        )
        return expected.violation(state, "a new stream", "it is so", too_late=self.too_late)


def startup(client: Workload, answers: dict[int, Verdict], **world: Any) -> PodStartup:
    """Return expectations about new pods; ``answers``: by the port to which the client connects."""

    def answer(attempt: Attempt, _: int) -> Observation:
        assert attempt.target is not None
        return observation(attempt, answers[attempt.target.port])

    return PodStartup(expecting({client.pod: [answer]}, **world))


def new_pod(
    made: Workload, answer: Verdict = UP, *, beside: Verdict = UP, stage: Stage = "done"
) -> Raised:
    """Return the failure of a new pod that should send nothing until its policy is in place.

    ``beside``: the answers of another pod; ``stage``: how far the new pod's first action gets.
    """
    return Raised(
        lambda: startup(CLIENT, {8080: answer, 80: beside}).accept_nothing(
            CLIENT, [NewPod([stage], pod=made)], beside=NEIGHBOUR.tcp(80), because="it is so"
        )
    )


def first_action(made: Workload, **world: Any) -> Raised:
    """Return the failure of a new pod that sends its first packet before its policy is in place."""
    return Raised(
        lambda: startup(made, {}, **world).sent_nothing([NewPod(pod=made)], POD, because="it is so")
    )


def never_ready(made: Workload) -> Raised:
    """Return the failure of a new pod that its kubelet cannot reach."""
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

    def expectation() -> None:
        subject = Fragments(expecting({CLIENT.pod: [answer]}))
        subject.arrive(Case(CLIENT, target, open=True, because="it is so"))

    return Raised(expectation)


def page(target: Target) -> Raised:
    """Return the failure of a page with unexpected content."""

    def other(attempt: Attempt, _: int) -> Observation:
        return replace(observation(attempt, UP), status=200, body=b"<h1>It works!</h1>")

    def expectation() -> None:
        subject = Pages(expecting({CLIENT.pod: [other]}))
        subject.show(CLIENT, [target], "Hello", because="it is so")

    return Raised(expectation)


def answered_whole(*, by_service: Verdict, own: Verdict) -> Raised:
    """Return the failure of a long answer through a Service and from the server's own address."""

    def answer(attempt: Attempt, _: int) -> Observation:
        return observation(attempt, by_service if attempt.target == CLUSTER_IP else own)

    def expectation() -> None:
        subject = Backends(expecting({CLIENT.pod: [answer]}))
        subject.answer_whole([(CLIENT, CLUSTER_IP)], because="it is so")

    return Raised(expectation)


def first_only(attempt: Attempt, _: int) -> Observation:
    """Answer only at the first backend's own address."""
    is_first = attempt.target is not None and attempt.target.host == SERVER.address
    return observation(attempt, UP if is_first else DROPPED)


def listening(port: int, protocol: str) -> Answer:
    """Return the answers of a pod that listens at only one port."""

    def answer(attempt: Attempt, _: int) -> Observation:
        target = attempt.target
        listens = target is not None and (target.port, target.protocol) == (port, protocol)
        return observation(attempt, UP if listens else DROPPED)

    return answer
