"""Expectations about a Windows pod's first seconds, before Felix has programmed it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from conformance.errors import ControlBroken, Nonconformance
from conformance.expect import message
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Target, Workload
from conformance.model.observation import Observation, Verdict
from conformance.timing import hold, until

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided


@dataclass
class Arrival:
    """What one test expects of a newcomer; ``not_observed`` tells the report that its egress was held back."""

    expect: Expect
    not_observed: Callable[[str], None]

    def takes_nothing(self, client: Workload, newcomer: Target, *, beside: Target, because: str) -> None:
        """From the first moment nothing of what ``client`` sends is answered, while ``beside`` answers it.

        A refusal is an answer: packets reached the pod.  Raises Nonconformance, ControlBroken.
        """
        expect, patience = self.expect, self.expect.timings.windows
        attempts = [self._attempt(client, target) for target in (newcomer, beside)]
        held = hold(
            lambda: expect.prober.observe(attempts),
            lambda seen: [one.verdict for one in seen] == [Verdict.TIMED_OUT, Verdict.CONNECTED],
            seconds=patience.hold,
            every=patience.poll_every,
            what=because,
            clock=expect.clock,
        )
        seen, control = ([round_[index] for round_ in held.seen] for index in (0, 1))
        if seen[-1].verdict is not Verdict.TIMED_OUT:
            further = {
                "beside": f"{beside.label} {message.summary(control)}",
                "do": "look for the ACL of priority 65500 (In, Block) on the new endpoint: Get-HnsEndpoint on its node",
            }
            raise Nonconformance(self._words(attempts[0], because, seen, held.seconds, further), seen=seen)
        if control[-1].verdict is not Verdict.CONNECTED:
            raise ControlBroken(
                f"{attempts[1].label}: {message.summary(control)}; a dead client would look like a denial",
                control=attempts[1].label,
                seen=control,
            )
        expect.context.record("seconds watched", round(held.seconds, 3))

    def may_have_sent(self, newcomer: Workload, target: Target, *, connected: bool, because: str) -> None:
        """The pod's first action may have got through; its policy, as a witness shows, lets nothing through.

        Raises ControlBroken when the policy does not take effect at all.
        """
        expect, patience = self.expect, self.expect.timings.windows
        attempt = self._attempt(newcomer, target)
        settled = until(
            lambda: expect.prober.observe([attempt])[0],
            lambda seen: seen.verdict is Verdict.TIMED_OUT,
            within=patience.policy_effect,
            agree=patience.agree,
            every=patience.poll_every,
            what=because,
            clock=expect.clock,
        )
        if not settled.met:
            raise ControlBroken(
                f"{attempt.label}: {message.summary(settled.seen)} {settled.seconds:.0f} s after the pod came; its "
                "egress policy is not in force, so its first action says nothing",
                control=attempt.label,
                seen=settled.seen,
            )
        expect.context.attach("first action", f"{attempt.label}: {'CONNECTED' if connected else 'TIMED_OUT'}")
        if not connected:
            self.not_observed(f"{attempt.label} was denied from the first attempt, where it may connect")

    def _attempt(self, source: Workload, target: Target) -> Attempt:
        give_up = self.expect.timings.of(source.os).tcp_give_up
        return Attempt(source=source, target=target, kind=Kind.TCP, give_up_after=give_up)

    def _words(
        self, attempt: Attempt, because: str, seen: Sequence[Observation], seconds: float, further: dict[str, str]
    ) -> str:
        return message.connectivity(
            self.expect.context.claims,
            attempt,
            expected="TIMED_OUT",
            because=because,
            seen=seen,
            seconds=seconds,
            further=further,
        )
