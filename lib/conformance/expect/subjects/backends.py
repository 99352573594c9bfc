# SPDX-License-Identifier: Apache-2.0
"""Expectations about the backends of a Service: each backend answers, and no other pod."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from conformance.errors import MissingCapability, Nonconformance
from conformance.expect.check import Judged, Ruling
from conformance.expect.engine.answered import as_wanted, echoed, telling, unexpected_backend
from conformance.expect.explain import message
from conformance.expect.explain.advice import kube_proxy
from conformance.expect.explain.cause import closed
from conformance.expect.poll import poll
from conformance.expect.subject import Subject
from conformance.model.attempt import Attempt, Kind
from conformance.model.counted import counted
from conformance.model.endpoint import Pair, Target, Workload
from conformance.model.observation import Observation, Verdict
from conformance.probe.protocol import same_pod

MISSED_BY_CHANCE = 1e-6
"""The accepted probability that a backend gets none of a source's connections by chance alone, in
all the rounds that a verdict needs. kube-proxy chooses at random, so the probability that ``m``
connections miss any of ``n`` backends is less than ``n * e^(-m/n)``."""
LARGE = 5000
"""The size in bytes of an answer that does not fit into one packet, so that addresses must be
rewritten in several packets."""
ONE_PACKET = 1200
"""The size in bytes of a datagram that is not fragmented. No document says how Services forward
fragments, which have no port."""
SEE_CONN_3 = "see CONN-3: packets that are lost at the pod's own address say nothing about Services"
NOBODY = frozenset({Verdict.TIMED_OUT, Verdict.REFUSED, Verdict.UNREACHABLE})
"""The verdicts of attempts at a Service without a backend: kube-proxy refuses or drops the packet.
A connection that is reset or closed had a backend."""
KEPT_PORT = 40_000
"""The source port of datagrams that simulate a socket that the client keeps. Systems choose only
higher ports themselves."""
AT_LEAST = 12
"""The least number of connections of a source in a round, even if there are few backends: a Service
may still lead to a removed backend."""


@dataclass
class Backends(Subject):
    """The expectations of a test about the pods behind Services."""

    def all_used(self, sources: Sequence[Workload], *targets: Target, because: str) -> None:
        """Expect all backends of each target, and no other pod, to answer each source's
        connections. All targets have the same backends.

        Raise Nonconformance.
        """
        self._used([(client, target) for target in targets for client in sources], because)

    def own_node_used(
        self, sources: Sequence[Workload], target: Target, *, because: str, nobody: str
    ) -> None:
        """Expect the backends on each source's own node, and no other pod, to answer the source's
        connections. If the source's node has no backend, expect no answer; ``nobody`` is the
        reason.

        Raise Nonconformance; MissingCapability if no node of a source has a backend.
        """
        local = [
            (source, replace(target, backends=own))
            for source in sources
            if (own := tuple(pod for pod in target.backends if pod.node == source.node))
        ]
        if not local:
            raise MissingCapability(
                "no client runs on a node with a backend", "cover more nodes: --max-nodes-per-os"
            )
        self._used(local, because)
        there = {source.node for source, _ in local}
        if elsewhere := [source for source in sources if source.node not in there]:
            self.none(elsewhere, target, because=nobody)

    def _used(self, pairs: Sequence[Pair], because: str) -> None:
        """Expect all backends of each pair's target, and no other pod, to answer the pair's source.

        Each pair is decided once enough rounds agree. Raise Nonconformance.
        """
        expect = self.expect
        patience = [expect.timings.of(client.os) for client, _ in pairs]
        agree = max(timings.agree for timings in patience)
        at_once = _connections(max(len(target.backends) for _, target in pairs), agree)
        attempts = [
            expect.attempt(client, target, telling(target))
            for client, target in pairs
            for _ in range(at_once)
        ]
        row = _Row([target for _, target in pairs], agree)
        polled = poll(
            expect,
            attempts,
            lambda observations: row.accepts(_by_source(observations, at_once)),
            because=because,
            all_timings=patience,
        )
        rounds = [_by_source(observations, at_once) for observations in polled.settled.observations]
        of_pair = [
            [each for round_ in rounds[-agree:] for each in round_[at]] for at in range(len(pairs))
        ]

        def judge(index: int) -> Judged:
            client, target = pairs[index]
            observations = of_pair[index]
            # A result that agreed once still counts, even if later rounds differ: the later rounds
            # were made for other paths. An answer of another pod always counts.
            if not any(map(unexpected_backend, observations)) and _agreed(
                [round_[index] for round_ in rounds], target, agree
            ):
                return because
            return Ruling(
                error=self.unless_changed(
                    client,
                    target,
                    self._failure(client, target, observations, polled.settled.seconds, because),
                ),
                symptom=(
                    "the backends and no other",
                    "an answer of another pod"
                    if any(map(unexpected_backend, observations))
                    else "not all of them",
                ),
            )

        # Attempts can time out for many reasons; an answer of another pod names the node to look
        # at. So cases with such an answer come first.
        cases = [(*pair, place) for place, pair in enumerate(pairs)]
        cases.sort(key=lambda case: not any(map(unexpected_backend, of_pair[case[2]])))
        self.check("open", cases, judge)

    def none(self, sources: Iterable[Workload], target: Target, *, because: str) -> None:
        """Expect the sources' connections to the target to get no answer any more: the target has
        no backend now. Raise Nonconformance."""
        self.lead_nowhere([(source, target) for source in sources], because=because)

    def lead_nowhere(self, pairs: Iterable[Pair], *, because: str) -> None:
        """Expect the connections of each source to its target to get no answer: the target has no
        backend. Raise Nonconformance."""
        self._polled(
            [self._attempt(source, target, Kind.TCP) for source, target in pairs],
            lambda observation: observation.verdict in NOBODY,
            "no connection",
            because,
        )

    def answer_a_kept_socket(
        self, sources: Iterable[Workload], target: Target, *, because: str
    ) -> None:
        """Expect an existing backend to answer the datagrams that each source sends from one port,
        which stays the same from test to test.

        Raise Nonconformance.
        """
        attempts = [
            replace(self._attempt(source, target, Kind.UDP), from_port=KEPT_PORT)
            for source in sources
        ]
        self._polled(
            attempts,
            lambda observation: as_wanted(observation, True),
            "an answer of a present backend",
            because,
        )

    def answer_whole(self, pairs: Iterable[Pair], *, because: str) -> None:
        """Expect a backend to return :data:`LARGE` bytes, or a datagram of one packet, unchanged.

        Raise Nonconformance; ControlBroken if the backend does not return this payload at its own
        address either.
        """
        asked = list(pairs)
        direct = [(source, _own(target)) for source, target in asked]
        attempts = [
            self._attempt(
                source,
                target,
                telling(target),
                payload=LARGE if target.protocol == "tcp" else ONE_PACKET,
            )
            for source, target in (*asked, *direct)
        ]
        self._polled(attempts, echoed, "an answer", because, controls=len(direct))

    def _attempt(
        self, source: Workload, target: Target, kind: Kind, *, payload: int = 0
    ) -> Attempt:
        return Attempt(
            source=source,
            target=target,
            kind=kind,
            give_up_after=self.expect.timings.of(source.os).http_give_up,
            payload=payload,
        )

    def _polled(
        self,
        attempts: Sequence[Attempt],
        right: Callable[[Observation], bool],
        expected: str,
        because: str,
        controls: int = 0,
    ) -> None:
        """Probe until enough rounds in a row are right. Each path is decided separately. The last
        ``controls`` attempts are controls."""
        polled = poll(
            self.expect,
            attempts,
            lambda observations: all(map(right, observations)),
            because=because,
        )
        decided = len(attempts) - controls

        def judge(index: int) -> Judged:
            attempt = attempts[index]
            target = attempt.target
            assert target is not None
            if polled.converged or polled.agreed(index, right):
                return because
            observations = polled.observations(index)
            wanted = f"{expected} of {attempt.payload} bytes" if attempt.payload else expected
            wrong: Exception
            if controls and not polled.agreed(decided + index, right):
                wrong = polled.broken_control(decided + index, wanted, {"do": SEE_CONN_3})
            else:
                text = polled.message(index, wanted, {"do": kube_proxy(attempt.source, target)})
                if target.protocol == "tcp" and all(
                    observation.verdict in NOBODY for observation in observations
                ):  # independent of the payload's size
                    text = replace(text, cause=closed([attempt], observations))
                wrong = Nonconformance(text, observations=observations)
            return Ruling(
                error=self.unless_changed(attempt.source, target, wrong),
                symptom=(wanted, str(observations[-1].verdict)),
            )

        self.check("behaviour", polled.cases()[:decided], judge)

    def _failure(
        self,
        client: Workload,
        target: Target,
        observations: Sequence[Observation],
        seconds: float,
        because: str,
    ) -> Nonconformance:
        """Return the failure of this source, with a description of its answers."""
        expected = f"{'all of ' if len(target.backends) > 1 else ''}{_listed(target)} and no other"
        text = message.explanation(
            self.expect.context.claims,
            observations[-1].attempt,
            expected=expected,
            because=because,
            observations=observations,
            seconds=seconds,
            further={"do": kube_proxy(client, target)},
            observed=_describe(observations, target),
        )
        return Nonconformance(text, observations=observations)


@dataclass
class _Row:
    """The latest rounds in a row in which every connection reached a backend, at most as many as
    must agree."""

    targets: Sequence[Target]
    """The target of each source, in the order of the sources."""
    agree: int
    rounds: list[list[list[Observation]]] = field(default_factory=list)

    def accepts(self, round_: list[list[Observation]]) -> bool:
        """Return whether enough rounds agree.

        Each connection of a round must reach a backend. When the row is complete, each source must
        also have reached each backend.
        """
        if not all(_proper(observations) for observations in round_):
            self.rounds.clear()
            return False
        self.rounds = [*self.rounds, round_][-self.agree :]
        return len(self.rounds) < self.agree or all(
            _all_answered([observation for part in parts for observation in part], target)
            for target, *parts in zip(self.targets, *self.rounds, strict=True)
        )


def _own(target: Target) -> Target:
    """Return the first backend of a Service as a target: the backend's own address, and the port to
    which the Service leads."""
    backend = target.backends[0]
    return (backend.udp if target.protocol == "udp" else backend.tcp)(target.backend_port)


def _connections(backends: int, rounds: int) -> int:
    """Return the number of connections that a source needs in each round to reach all backends
    within this number of rounds."""
    return max(
        AT_LEAST, math.ceil(backends * math.log(max(backends, 1) / MISSED_BY_CHANCE) / rounds)
    )


def _by_source(observations: Sequence[Observation], at_once: int) -> list[list[Observation]]:
    return [
        list(observations[start : start + at_once])
        for start in range(0, len(observations), at_once)
    ]


def _proper(observations: Sequence[Observation]) -> bool:
    """Return whether all attempts connected, each to a backend of the target."""
    return all(
        observation.verdict is Verdict.CONNECTED and not unexpected_backend(observation)
        for observation in observations
    )


def _agreed(rounds: Sequence[Sequence[Observation]], target: Target, agree: int) -> bool:
    """Return whether ``agree`` rounds in a row had answers from all backends and from no other
    pod."""
    rows = (
        [each for round_ in rounds[last - agree : last] for each in round_]
        for last in range(agree, len(rounds) + 1)
    )
    return any(_proper(row) and _all_answered(row, target) for row in rows)


def _all_answered(observations: Sequence[Observation], target: Target) -> bool:
    return all(_answered(backend, observations) for backend in target.backends)


def _listed(target: Target) -> str:
    return ", ".join(backend.pod for backend in target.backends)


def _describe(observations: Sequence[Observation], target: Target) -> str:
    """Describe which backends never answered, which other pods answered and how often, and how
    other attempts ended."""
    answers = [
        observation for observation in observations if observation.verdict is Verdict.CONNECTED
    ]
    others = Counter(
        " ".join(word.rpartition("/")[2] for word in wrong.split())
        for wrong in filter(None, map(unexpected_backend, answers))
    )
    failed = Counter(
        _who(observation)
        for observation in observations
        if observation.verdict is not Verdict.CONNECTED
    )
    right = Counter(_who(answer) for answer in answers if not unexpected_backend(answer))
    lines = [f"{pod.pod} never answered" for pod in target.backends if not _answered(pod, answers)]
    lines += [
        f"{who} answered {counted(count, 'time')} although it is not a backend"
        for who, count in others.items()
    ]
    lines += [f"{verdict} {counted(count, 'time')}" for verdict, count in failed.items()]
    beside = ", ".join(f"{who} {counted(count, 'time')}" for who, count in right.most_common())
    return f"{', '.join(lines)}{f' ({beside})' if beside else ''}"


def _answered(backend: Workload, observations: Iterable[Observation]) -> bool:
    return any(same_pod(backend, observation.served_by) for observation in observations)


def _who(observation: Observation) -> str:
    named = observation.verdict is Verdict.CONNECTED and observation.served_by
    return observation.served_by.rpartition("/")[2] if named else observation.verdict.value
