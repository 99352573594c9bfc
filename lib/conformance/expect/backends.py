"""Expectations about who answers behind a Service: each of its backends, and nobody else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from conformance.errors import Nonconformance
from conformance.expect import message
from conformance.expect.advice import kube_proxy
from conformance.expect.answered import unexpected_backend
from conformance.expect.guard import unless_changed
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt, Kind
from conformance.model.claim import ClaimVerdict
from conformance.model.counted import counted
from conformance.model.endpoint import Target, Workload
from conformance.model.observation import Observation, Verdict
from conformance.probe.protocol import same_pod
from conformance.timing import until

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided

AT_ONCE = 12
"""Connections of one source in a round.  By chance alone one of two backends gets none of them in 1 of 2,000 rounds;
then another round is asked."""


@dataclass
class Backends:
    """What one test expects of the pods behind Services."""

    expect: Expect

    def all_used(self, sources: Iterable[Workload], target: Target, *, because: str) -> None:
        """Each source's connections are answered by all backends of the target, and by no other pod.

        Decided for each source and backend, once as many rounds agree as verdicts need.  Raises Nonconformance.
        """
        expect = self.expect
        clients = list(sources)
        patience = [expect.timings.of(workload.os) for workload in clients]
        attempts = [
            Attempt(
                source=workload,
                target=target,
                kind=Kind.HTTP,
                give_up_after=expect.timings.of(workload.os).http_give_up,
            )
            for workload in clients
            for _ in range(AT_ONCE)
        ]
        settled = until(
            lambda: _by_source(expect.prober.observe(attempts)),
            lambda rounds: all(_right(seen, target) for seen in rounds),
            within=max(timings.service_effect for timings in patience),
            agree=max(timings.agree for timings in patience),
            every=min(timings.poll_every for timings in patience),
            agree_every=min(timings.agree_every for timings in patience),
            description=because,
            clock=expect.clock,
        )
        wrong = []
        for index, client in enumerate(clients):
            seen = [
                observation
                for round_ in settled.seen[-max(timings.agree for timings in patience) :]
                for observation in round_[index]
            ]
            sound = settled.converged or all(_right(round_[index], target) for round_ in settled.seen[-2:])
            if sound:
                expect.context.decided(client, target, ClaimVerdict.CONFIRMED, because)
                continue
            error = self._wrong(client, target, seen, settled.seconds, because)
            wrong.append(unless_changed(expect, [client, *target.backends], error))
        if wrong:
            raise wrong[0]

    def _wrong(
        self, client: Workload, target: Target, seen: Sequence[Observation], seconds: float, because: str
    ) -> Nonconformance:
        """What one source's connections deserve; decided for each backend that none of them got to."""
        expected = f"{'all of ' if len(target.backends) > 1 else ''}{_listed(target)} and no other"
        text = message.connectivity(
            self.expect.context.claims,
            seen[-1].attempt,
            expected=expected,
            because=because,
            seen=seen,
            seconds=seconds,
            further={"do": kube_proxy(client, target)},
            observed=_told(seen, target),
        )
        self.expect.context.decided(client, target, ClaimVerdict.VIOLATED, text)
        return Nonconformance(text, seen=seen)


def _by_source(seen: Sequence[Observation]) -> list[list[Observation]]:
    return [list(seen[start : start + AT_ONCE]) for start in range(0, len(seen), AT_ONCE)]


def _right(seen: Sequence[Observation], target: Target) -> bool:
    """All connected, each to a backend, and to each backend one."""
    if any(observation.verdict is not Verdict.CONNECTED or unexpected_backend(observation) for observation in seen):
        return False
    return all(any(same_pod(backend, observation.served_by) for observation in seen) for backend in target.backends)


def _listed(target: Target) -> str:
    return ", ".join(backend.pod for backend in target.backends)


def _told(seen: Sequence[Observation], target: Target) -> str:
    """Who never answered, who did and is no backend, and how else connections ended; then who answered how often."""
    answers = [observation for observation in seen if observation.verdict is Verdict.CONNECTED]
    silent = [pod.pod for pod in target.backends if not any(same_pod(pod, answer.served_by) for answer in answers)]
    others = Counter(_who(answer) for answer in answers if unexpected_backend(answer))
    failed = Counter(_who(observation) for observation in seen if observation.verdict is not Verdict.CONNECTED)
    right = Counter(_who(answer) for answer in answers if not unexpected_backend(answer))
    told = [f"{pod} never answered" for pod in silent]
    told += [f"{who} answered {counted(count, 'time')} although it is no backend" for who, count in others.items()]
    told += [f"{verdict} {counted(count, 'time')}" for verdict, count in failed.items()]
    beside = ", ".join(f"{who} {counted(count, 'time')}" for who, count in right.most_common())
    return f"{', '.join(told)}{f' ({beside})' if beside else ''}"


def _who(seen: Observation) -> str:
    named = seen.verdict is Verdict.CONNECTED and seen.served_by
    return seen.served_by.rpartition("/")[2] if named else seen.verdict.value
