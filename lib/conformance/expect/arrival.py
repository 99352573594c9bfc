"""Expectations about a Windows pod's first seconds, before Felix has programmed it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from conformance.errors import ControlBroken, EnvironmentBroken, Nonconformance
from conformance.expect import message
from conformance.expect.same_pods import unless_changed
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Target, Workload
from conformance.model.observation import Observation, Verdict
from conformance.pods.newcomer import Stage
from conformance.timing import Settled, until

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided

REFUSALS = frozenset({Verdict.REFUSED, Verdict.RESET})
"""Answers of the pod, unless the client gets them from everybody."""


@dataclass(frozen=True)
class _Look:
    """What came back from the newcomer and, at the same moment, from the pod beside it."""

    newcomer: Observation
    beside: Observation
    stage: Stage

    @property
    def answered(self) -> bool:
        """Whether packets reached the newcomer."""
        verdict, up = self.newcomer.verdict, self.beside.verdict is Verdict.CONNECTED
        return verdict is Verdict.CONNECTED or (verdict in REFUSALS and up)


@dataclass
class Arrival:
    """What one test expects of a newcomer; ``not_observed`` tells the report that its egress was held back."""

    expect: Expect
    not_observed: Callable[[str], None]

    def takes_nothing(
        self, client: Workload, newcomer: Target, *, stage: Callable[[], Stage], beside: Target, because: str
    ) -> None:
        """From the first moment nothing of what ``client`` sends is answered, while ``beside`` answers it.

        Watches until the newcomer's first action is ``done``, and for a while after it was seen to begin: before that a
        new Windows pod may have no network at all.  A refusal is an answer: packets reached the pod.  Raises
        Nonconformance, ControlBroken, and EnvironmentBroken when the action does not end in time.
        """
        expect, patience, clock = self.expect, self.expect.timings.windows, self.expect.clock
        attempts = [self._attempt(client, target) for target in (newcomer, beside)]
        ran: list[float] = []

        def look() -> _Look:
            answers = expect.prober.observe(attempts)
            found = _Look(answers[0], answers[1], stage())
            if found.stage != "to start":
                ran.append(clock.monotonic())
            return found

        def enough(found: _Look) -> bool:
            if found.answered or found.beside.verdict is not Verdict.CONNECTED:
                return True
            return found.stage == "done" and clock.monotonic() - ran[0] >= patience.hold

        watched = until(
            look,
            enough,
            within=patience.image_pull + patience.pod_ready + patience.warm_up,
            every=patience.poll_every,
            what=because,
            clock=clock,
        )
        trouble = self._wrong(attempts, watched, because)
        if trouble is not None:
            raise unless_changed(expect, [client, *beside.backends], trouble)
        expect.context.record("seconds watched", round(watched.seconds, 3))
        expect.context.record("seconds watched since it ran", round(clock.monotonic() - ran[0], 3))

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
            line = message.headline(expect.context.claims, attempt, "TIMED_OUT", settled.seen, settled.seconds)
            trouble = ControlBroken(
                f"control failed: {line}: its egress policy is not in force, so its first action says nothing",
                control=attempt.label,
                seen=settled.seen,
            )
            raise unless_changed(expect, [newcomer, *target.backends], trouble)
        expect.context.attach("first action", f"{attempt.label}: {'CONNECTED' if connected else 'TIMED_OUT'}")
        if not connected:
            self.not_observed(
                f"{attempt.label} got no answer to its first attempt ({attempt.give_up_after:g} s), where it may "
                "connect; whether that was denied or lost is not told"
            )

    # --- how ----------------------------------------------------------------------------------------------------------

    def _attempt(self, source: Workload, target: Target) -> Attempt:
        give_up = self.expect.timings.of(source.os).tcp_give_up
        return Attempt(source=source, target=target, kind=Kind.TCP, give_up_after=give_up)

    def _wrong(self, attempts: list[Attempt], watched: Settled[_Look], because: str) -> Exception | None:
        """What the looks deserve; None: nothing is wrong."""
        claims, last = self.expect.context.claims, watched.last
        seen, beside = [one.newcomer for one in watched.seen], [one.beside for one in watched.seen]
        if last.answered:
            further = {
                "beside": f"{attempts[1].label} {message.summary(beside)}",
                "do": "look for the ACL of priority 65500 (In, Block) on the new endpoint: Get-HnsEndpoint on its node",
            }
            text = message.connectivity(
                claims, attempts[0], expected="TIMED_OUT", because=because, seen=seen, seconds=watched.seconds,
                further=further,
            )  # fmt: skip
            return Nonconformance(text, seen=seen)
        if last.beside.verdict is not Verdict.CONNECTED:
            line = message.headline(claims, attempts[1], "CONNECTED", beside, watched.seconds)
            text = f"control failed: {line}; a dead client would look like a denial"
            return ControlBroken(text, control=attempts[1].label, seen=beside)
        line = message.headline(claims, attempts[0], "TIMED_OUT", seen, watched.seconds)
        if not watched.met:
            return EnvironmentBroken(f"{line}: its first action was still {last.stage}")
        if last.newcomer.verdict is not Verdict.TIMED_OUT:
            text = f"control failed: {line}: that is neither an answer of the pod nor a silent drop"
            return ControlBroken(text, control=attempts[0].label, seen=seen)
        return None
