# SPDX-License-Identifier: Apache-2.0
"""Expectations about who answers behind a Service: each of its backends, and nobody else."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from conformance.errors import Nonconformance
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
"""How often one of the backends may get none of a source's connections by chance alone, in as many rounds as verdicts
need: kube-proxy chooses at random, so of ``n`` backends some are missed by ``m`` connections with less than
``n * e^(-m/n)``."""
LARGE = 5000
"""Bytes of an answer that no packet holds: addresses have to be rewritten in each of several."""
ONE_PACKET = 1200
"""Bytes of a datagram that is not cut up: how Services lead pieces that name no port is nobody's promise."""
SEE_CONN_3 = "see CONN-3: what is lost by the pod's own address says nothing about Services"
NOBODY = frozenset({Verdict.TIMED_OUT, Verdict.REFUSED, Verdict.UNREACHABLE})
"""What it looks like that nobody is behind a Service: kube-proxy refuses, or leaves the packet to die.  A connection
that is reset or closed was one."""
KEPT_PORT = 40_000
"""From which datagrams leave as from one socket that is kept: below those that systems choose by themselves."""
AT_LEAST = 12
"""Connections of one source in a round, however few the backends are: a Service may still lead to one that went."""


@dataclass
class Backends(Subject):
    """What one test expects of the pods behind Services."""

    def all_used(self, sources: Sequence[Workload], *targets: Target, because: str) -> None:
        """Each source's connections are answered by all backends of the targets, the same of each, and by no other pod.

        Decided for each source, target and backend, once as many rounds agree as verdicts need.  Raises Nonconformance.
        """
        expect = self.expect
        pairs = [(client, target) for target in targets for client in sources]
        patience = [expect.timings.of(client.os) for client, _ in pairs]
        agree = max(timings.agree for timings in patience)
        at_once = _connections(len(targets[0].backends), agree)
        attempts = [
            expect.attempt(client, target, telling(target))
            for client, target in pairs
            for _ in range(at_once)
        ]
        row = _Row(targets[0], agree)
        polled = poll(
            expect,
            attempts,
            lambda seen: row.accepts(_by_source(seen, at_once)),
            because=because,
            several=patience,
        )
        rounds = [_by_source(seen, at_once) for seen in polled.settled.seen[-agree:]]

        def judge(index: int) -> Judged:
            client, target = pairs[index]
            seen = [one for round_ in rounds for one in round_[index]]
            if polled.converged or (_proper(seen) and _all_answered(seen, target)):
                return because
            error = self._failure(client, target, seen, polled.settled.seconds, because)
            observed = (
                "an answer of another pod"
                if any(map(unexpected_backend, seen))
                else "not all of them"
            )
            return Ruling(
                error=self.unless_changed(client, target, error),
                symptom=("the backends and no other", observed),
            )

        self.check("open", [(*pair, place) for place, pair in enumerate(pairs)], judge)

    def none(self, sources: Iterable[Workload], target: Target, *, because: str) -> None:
        """No source's connection to the target is answered any more: it has no backend.  Raises Nonconformance."""
        self._polled(
            [self._attempt(source, target, Kind.TCP) for source in sources],
            lambda one: one.verdict in NOBODY,
            "no connection",
            because,
        )

    def answer_a_kept_socket(
        self, sources: Iterable[Workload], target: Target, *, because: str
    ) -> None:
        """Datagrams that each source sends from one port, test after test, are answered by a backend of now.

        Raises Nonconformance.
        """
        attempts = [
            replace(self._attempt(source, target, Kind.UDP), from_port=KEPT_PORT)
            for source in sources
        ]
        self._polled(
            attempts, lambda one: as_wanted(one, True), "an answer of a backend of now", because
        )

    def answer_whole(self, pairs: Iterable[Pair], *, because: str) -> None:
        """What a client sends in :data:`LARGE` bytes, or in a datagram of one packet, comes back from a backend whole.

        Raises Nonconformance, ControlBroken where it does not by the backend's own address either.
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
        """Ask until enough rounds in a row are right, each path by itself; the last ``controls`` are theirs."""
        polled = poll(self.expect, attempts, lambda seen: all(map(right, seen)), because=because)
        decided = len(attempts) - controls

        def judge(index: int) -> Judged:
            attempt = attempts[index]
            target = attempt.target
            assert target is not None
            if polled.converged or polled.agreed(index, right):
                return because
            seen = polled.seen(index)
            wanted = f"{expected} of {attempt.payload} bytes" if attempt.payload else expected
            wrong: Exception
            if controls and not polled.agreed(decided + index, right):
                wrong = polled.broken_control(decided + index, wanted, {"do": SEE_CONN_3})
            else:
                told = polled.message(index, wanted, {"do": kube_proxy(attempt.source, target)})
                if target.protocol == "tcp" and all(
                    one.verdict in NOBODY for one in seen
                ):  # whatever its size is
                    told = replace(told, cause=closed([attempt], seen))
                wrong = Nonconformance(told, seen=seen)
            return Ruling(
                error=self.unless_changed(attempt.source, target, wrong),
                symptom=(wanted, str(seen[-1].verdict)),
            )

        self.check("behaviour", polled.cases()[:decided], judge)

    def _failure(
        self,
        client: Workload,
        target: Target,
        seen: Sequence[Observation],
        seconds: float,
        because: str,
    ) -> Nonconformance:
        """Return this source's failure; records a decision per backend it did not reach."""
        expected = f"{'all of ' if len(target.backends) > 1 else ''}{_listed(target)} and no other"
        text = message.explanation(
            self.expect.context.claims,
            seen[-1].attempt,
            expected=expected,
            because=because,
            seen=seen,
            seconds=seconds,
            further={"do": kube_proxy(client, target)},
            observed=_told(seen, target),
        )
        return Nonconformance(text, seen=seen)


@dataclass
class _Row:
    """The latest rounds in which every connection got to a backend, at most as many as have to agree."""

    target: Target
    agree: int
    rounds: list[list[list[Observation]]] = field(default_factory=list)

    def accepts(self, round_: list[list[Observation]]) -> bool:
        """Whether a round agrees; one that completes the row does if each source got to each backend in the row."""
        if not all(_proper(seen) for seen in round_):
            self.rounds.clear()
            return False
        self.rounds = [*self.rounds, round_][-self.agree :]
        return len(self.rounds) < self.agree or all(
            _all_answered([seen for part in parts for seen in part], self.target)
            for parts in zip(*self.rounds, strict=True)
        )


def _own(target: Target) -> Target:
    """The address of a target's first backend, and the port that leads there."""
    backend = target.backends[0]
    return (backend.udp if target.protocol == "udp" else backend.tcp)(target.backend_port)


def _connections(backends: int, rounds: int) -> int:
    """How many connections a source needs in each round to get to all backends in these rounds."""
    in_all = backends * math.log(max(backends, 1) / MISSED_BY_CHANCE)
    return max(AT_LEAST, math.ceil(in_all / rounds))


def _by_source(seen: Sequence[Observation], at_once: int) -> list[list[Observation]]:
    return [list(seen[start : start + at_once]) for start in range(0, len(seen), at_once)]


def _proper(seen: Sequence[Observation]) -> bool:
    """All connected, each to a backend."""
    return all(one.verdict is Verdict.CONNECTED and not unexpected_backend(one) for one in seen)


def _all_answered(seen: Sequence[Observation], target: Target) -> bool:
    return all(_answered(backend, seen) for backend in target.backends)


def _listed(target: Target) -> str:
    return ", ".join(backend.pod for backend in target.backends)


def _told(seen: Sequence[Observation], target: Target) -> str:
    """Who never answered, who did and is no backend, and how else connections ended; then who answered how often."""
    answers = [one for one in seen if one.verdict is Verdict.CONNECTED]
    others = Counter(_who(answer) for answer in answers if unexpected_backend(answer))
    failed = Counter(_who(one) for one in seen if one.verdict is not Verdict.CONNECTED)
    right = Counter(_who(answer) for answer in answers if not unexpected_backend(answer))
    told = [f"{pod.pod} never answered" for pod in target.backends if not _answered(pod, answers)]
    told += [
        f"{who} answered {counted(count, 'time')} although it is no backend"
        for who, count in others.items()
    ]
    told += [f"{verdict} {counted(count, 'time')}" for verdict, count in failed.items()]
    beside = ", ".join(f"{who} {counted(count, 'time')}" for who, count in right.most_common())
    return f"{', '.join(told)}{f' ({beside})' if beside else ''}"


def _answered(backend: Workload, seen: Iterable[Observation]) -> bool:
    return any(same_pod(backend, one.served_by) for one in seen)


def _who(seen: Observation) -> str:
    named = seen.verdict is Verdict.CONNECTED and seen.served_by
    return seen.served_by.rpartition("/")[2] if named else seen.verdict.value
