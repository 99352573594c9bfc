"""Expectations about issues that can happen: they did, or they did not although something shows that they could."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from conformance.errors import Nonconformance
from conformance.expect import message
from conformance.expect.answered import as_wanted, impostor, telling
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt
from conformance.model.endpoint import Target, Workload
from conformance.timing import until

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided


@dataclass
class KnownIssue:
    """A known issue of one test; ``not_observed`` tells the report that it did not happen."""

    expect: Expect
    not_observed: Callable[[str], None]

    def may_fail(self, source: Workload, target: Target, *, beside: Target, because: str) -> None:
        """Connecting to ``target`` may fail, while ``beside`` connects; whether it did is recorded.

        It failed if it has not connected, several times in a row, by the time in which a change of a Service has to
        take effect: rules that came late are no failure.  Raises Nonconformance when another pod answers.
        """
        expect = self.expect
        expect.reachable(source, beside, because=f"the witness: {because}")
        give_up = expect.timings.of(source.os).http_give_up
        attempt = Attempt(source=source, target=target, kind=telling(target), give_up_after=give_up)
        patience = [expect.timings.of(system) for system in {one.os for one in (source, *target.backends)}]
        settled = until(
            lambda: expect.prober.observe([attempt])[0],
            lambda seen: as_wanted(seen, True),
            within=max(one.service_effect for one in patience),
            agree=max(one.agree for one in patience),
            every=min(one.poll_every for one in patience),
            what=because,
            clock=expect.clock,
        )
        expect.reachable(source, beside, because=f"the witness, again: {because}")
        expect.context.attach("known issue", f"{attempt.label}: {message.summary(settled.seen)}")
        if settled.met:
            self.not_observed(f"{attempt.label} connected {len(settled.seen)} times, where it may fail")
        elif impostor(settled.last):
            text = message.connectivity(
                expect.context.claims, attempt, expected="CONNECTED, or no answer at all", because=because,
                seen=settled.seen, seconds=settled.seconds, further={},
            )  # fmt: skip
            raise Nonconformance(text, seen=settled.seen)
