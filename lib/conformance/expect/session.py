# SPDX-License-Identifier: Apache-2.0
"""The tools that every expectation of a test uses: its probes, its timings, its reports."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

from conformance.expect.context import Context
from conformance.expect.engine.answered import asked_for, default_kind
from conformance.expect.engine.names import Observer
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Target, Workload
from conformance.probe.asking import Asking
from conformance.settings import Timings
from conformance.timing import SYSTEM_CLOCK, Clock


class Prober(Observer, Protocol):
    """The part of a prober that expectations need."""

    def asking(self) -> Asking:
        """Return an object for the attempts of an expectation; each attempt begins and ends by
        itself."""

    def unchanged(self, workloads: Iterable[Workload]) -> None:
        """Raise EnvironmentBroken if one of these pods is deleted, restarted, replaced or not
        running.
        """


@dataclass(frozen=True, eq=False)
class Session:
    """The tools of a test's expectations."""

    prober: Prober
    timings: Timings
    context: Context = field(default_factory=Context)
    clock: Clock = SYSTEM_CLOCK

    def of_claim(self, claim: str) -> Self:
        """Return a copy of these tools whose messages and decisions are about a single claim of the
        test."""
        return replace(self, context=replace(self.context.of_part("", claim), claims=(claim,)))

    def attempt(
        self, source: Workload, target: Target, kind: Kind | None = None, *, want: bool = True
    ) -> Attempt:
        """Return an attempt of this kind, with the time-out of the kind. Without a kind, use the
        default kind for a path that should be open (``want``) or closed."""
        kind = kind or default_kind(target, want=want)
        return Attempt(
            source=source,
            target=target,
            kind=kind,
            give_up_after=self.timings.of(source.os).give_up(kind),
            request=asked_for(target, kind),
        )
