"""Expectations about issues that can happen: they did, or they did not although something shows that they could."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from conformance.errors import Nonconformance
from conformance.expect import message
from conformance.expect.answered import as_wanted, telling, unexpected_backend
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt
from conformance.model.claim import ClaimVerdict
from conformance.model.counted import counted
from conformance.model.endpoint import Target, Workload
from conformance.timing import until

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided


@dataclass
class KnownIssue:
    """A known issue of one test; ways on which it does not happen are NOT_OBSERVED."""

    expect: Expect

    def may_fail(self, source: Workload, goals: Sequence[tuple[Target, Target]], *, because: str) -> None:
        """Connecting to the first of each two targets may fail, while the second connects; whether it did is recorded.

        It failed if it has not connected, several times in a row, by the time in which a change of a Service has to
        take effect: rules that came late are no failure.  Raises Nonconformance when another pod answers.
        """
        expect = self.expect
        beside = [witness for _, witness in goals]
        expect.control(source, beside, because=f"the witness: {because}")
        give_up = expect.timings.of(source.os).http_give_up
        attempts = [
            Attempt(source=source, target=target, kind=telling(target), give_up_after=give_up) for target, _ in goals
        ]
        ends = [source, *(backend for target, _ in goals for backend in target.backends)]
        patience = [expect.timings.of(system) for system in sorted({one.os for one in ends})]
        settled = until(
            lambda: expect.prober.observe(attempts),
            lambda seen: all(as_wanted(one, True) for one in seen),
            within=max(one.service_effect for one in patience),
            agree=max(one.agree for one in patience),
            every=min(one.poll_every for one in patience),
            description=because,
            clock=expect.clock,
        )
        expect.control(source, beside, because=f"the witness, again: {because}")
        wrong: list[Nonconformance] = []
        told = []
        for index, attempt in enumerate(attempts):
            seen = [round_[index] for round_ in settled.seen]
            told.append(f"{attempt.label}: {message.summary(seen)}")
            if unexpected_backend(seen[-1]):
                text = message.connectivity(
                    expect.context.claims, attempt, expected="CONNECTED, or no answer at all", because=because,
                    seen=seen, seconds=settled.seconds, further={},
                )  # fmt: skip
                wrong.append(Nonconformance(text, seen=seen))
                verdict, reason = ClaimVerdict.VIOLATED, text
            elif as_wanted(seen[-1], True):
                verdict = ClaimVerdict.NOT_OBSERVED
                reason = f"{attempt.label} connected {counted(len(seen), 'time')}, where it may fail"
            else:
                verdict, reason = ClaimVerdict.CONFIRMED, because
            expect.context.decided(source, attempt.target, verdict, reason, "behaviour")
        expect.context.attach("known issue", "\n".join(told))
        if wrong:
            raise wrong[0]
