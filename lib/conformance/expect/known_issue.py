"""Expectations about issues that can happen: they did, or they did not although something shows that they could."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from conformance.expect import message
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Target, Workload
from conformance.model.observation import Verdict
from conformance.timing import hold

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided


@dataclass
class KnownIssue:
    """A known issue of one test; ``not_observed`` tells the report that it did not happen."""

    expect: Expect
    not_observed: Callable[[str], None]

    def may_fail(self, source: Workload, target: Target, *, beside: Target, because: str) -> None:
        """Connecting to ``target`` may fail, while ``beside`` connects all the time; whether it did is recorded."""
        expect = self.expect
        expect.reachable(source, beside, because=f"the witness: {because}")
        patience = expect.timings.of(source.os)
        attempt = Attempt(source=source, target=target, kind=Kind.TCP, give_up_after=patience.tcp_give_up)
        held = hold(
            lambda: expect.prober.observe([attempt])[0],
            lambda seen: seen.verdict is Verdict.CONNECTED,
            seconds=patience.agree * patience.poll_every,
            every=patience.poll_every,
            what=because,
            clock=expect.clock,
        )
        expect.reachable(source, beside, because=f"the witness, again: {because}")
        expect.context.attach("known issue", f"{attempt.label}: {message.summary(held.seen)}")
        if held.met:
            self.not_observed(f"{attempt.label} connected {len(held.seen)} times, where it may fail")
