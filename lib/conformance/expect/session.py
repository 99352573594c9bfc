# SPDX-License-Identifier: Apache-2.0
"""What every expectation of one test is made with: how it asks, with which patience, and where it tells of it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from conformance.expect.context import Context
from conformance.expect.engine.answered import asked_for, default_kind
from conformance.expect.engine.names import Observer
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Target, Workload
from conformance.probe.asking import Asking
from conformance.settings import Timings
from conformance.timing import SYSTEM_CLOCK, Clock


class Prober(Observer, Protocol):
    """What expectations need of probing."""

    def asking(self) -> Asking:
        """For one expectation: attempts that are begun and heard one by one."""

    def unchanged(self, workloads: Iterable[Workload]) -> None:
        """Raises EnvironmentBroken when one of these pods is gone, restarted, replaced or not running."""


@dataclass(frozen=True, eq=False)
class Session:
    """One test's."""

    prober: Prober
    timings: Timings
    context: Context = field(default_factory=Context)
    clock: Clock = SYSTEM_CLOCK

    def attempt(
        self, source: Workload, target: Target, kind: Kind | None = None, *, want: bool = True
    ) -> Attempt:
        """One of this kind, or as a path that is to be open (``want``) or closed is asked, with its kind's patience."""
        kind = kind or default_kind(target, want=want)
        patience = self.timings.of(source.os)
        give_up = patience.http_give_up if kind is Kind.HTTP else patience.tcp_give_up
        return Attempt(
            source=source,
            target=target,
            kind=kind,
            give_up_after=give_up,
            request=asked_for(target, kind),
        )
