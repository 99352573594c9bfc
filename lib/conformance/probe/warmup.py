# SPDX-License-Identifier: Apache-2.0
"""Waits until new pods have a network: their first seconds show nothing about conformance.

New Windows pods have no network for 4 to 40 s (containerd#8340, azure-container-networking#299),
and their first DNS queries time out (aks-engine#189). The warm-up decides nothing. A pod that stays
without a network may be the subject of a claim, so the claims decide, and the warm-up only reports
its observations.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Target, Workload
from conformance.model.observation import Observation, Verdict
from conformance.settings import Timings
from conformance.timing import SYSTEM_CLOCK, Clock, until

ANSWERED = frozenset({Verdict.CONNECTED, Verdict.REFUSED, Verdict.RESOLVED, Verdict.NO_SUCH_NAME})
"""Verdicts that only a working network gives; the claims decide whether they are right."""
LOOK_AFTER = 10.0
"""The interval, in seconds, between two checks whether pods without a network still exist: on a
dead node no pod ever gets a network."""


class Observer(Protocol):
    """The part of a prober that the warm-up needs."""

    def observe(self, batch: Sequence[Attempt]) -> list[Observation]:
        """Return one observation per attempt, in order."""

    def unchanged(self, workloads: Iterable[Workload]) -> None:
        """Raise EnvironmentBroken if one of these pods has changed, or its node died."""


@dataclass(frozen=True)
class Warmth:
    """The result of a warm-up."""

    seconds: float
    cold: tuple[Observation, ...]
    """The last observations of pods that still had no network; empty: all pods have a network."""

    @property
    def line(self) -> str:
        if not self.cold:
            return f"all pods have a network after {self.seconds:.1f} s"
        names = ", ".join(
            f"{observation.attempt.label}: {observation.verdict} {observation.detail}".rstrip()
            for observation in self.cold[:3]
        )
        return (
            f"some pods have no network after {self.seconds:.0f} s: {names}; the tests of claims "
            "show whether this is a fault"
        )


def warm_up(
    prober: Observer,
    clients: Sequence[Workload],
    known_good: Target | None,
    name: str,
    *,
    timings: Timings,
    clock: Clock = SYSTEM_CLOCK,
) -> Warmth:
    """Wait until every client gets an answer from DNS (for ``name``) and from a server that should
    be open to this client.

    Raise ProbeBroken and EnvironmentBroken as probing does, and if a client's node died meanwhile.
    """
    questions: list[dict[str, Any]] = [{"kind": Kind.DNS, "query": name}]
    if known_good is not None:
        questions.append({"kind": Kind.TCP, "target": known_good})
    cold = [
        Attempt(source=client, give_up_after=timings.of(client.os).tcp_give_up, **asked)
        for client in clients
        for asked in questions
    ]
    if not cold:
        return Warmth(0.0, ())
    looked = clock.monotonic()

    def ask_the_cold() -> list[Observation]:
        """Repeat only the attempts without an answer so far, and return their observations."""
        nonlocal cold, looked
        if clock.monotonic() - looked > LOOK_AFTER:
            prober.unchanged(clients)
            looked = clock.monotonic()
        unanswered = [
            observation
            for observation in prober.observe(cold)
            if observation.verdict not in ANSWERED
        ]
        cold = [observation.attempt for observation in unanswered]
        return unanswered

    settled = until(
        ask_the_cold,
        lambda unanswered: not unanswered,
        within=max(timings.of(client.os).warm_up for client in clients),
        every=0.5,
        description="new pods have a network",
        clock=clock,
    )
    return Warmth(settled.seconds, tuple(settled.last))
