"""Expectations about what a web server says, not only that it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from conformance.errors import Nonconformance
from conformance.expect import message
from conformance.expect.guard import unless_changed
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt, Kind
from conformance.model.claim import ClaimVerdict
from conformance.model.endpoint import Target, Workload
from conformance.model.observation import Observation, Verdict
from conformance.timing import until

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided


@dataclass
class Pages:
    """Expectations of one test about pages."""

    expect: Expect

    def show(self, source: Workload, targets: Sequence[Target], text: str, *, because: str) -> None:
        """Each target answers with status 200 and a page that contains ``text``, as often as verdicts must agree."""
        self.expect.reachable(source, targets, because=because, kind=Kind.HTTP)
        wrong = [one for one in (self._shown(source, target, text, because) for target in targets) if one is not None]
        if wrong:
            raise wrong[0]

    def _shown(self, source: Workload, target: Target, text: str, because: str) -> Exception | None:
        """What one target's page deserves; None: it is right."""
        expect, patience = self.expect, self.expect.timings.of(source.os)
        attempt = Attempt(source=source, target=target, kind=Kind.HTTP, give_up_after=patience.http_give_up)
        settled = until(
            lambda: expect.prober.observe([attempt])[0],
            lambda seen: seen.verdict is Verdict.CONNECTED and seen.status == 200 and text in _page(seen),
            within=patience.service_effect,
            agree=patience.agree,
            every=patience.poll_every,
            description=because,
            clock=expect.clock,
        )
        if settled.converged:
            expect.context.decided(source, target, ClaimVerdict.CONFIRMED, because, "behaviour")
            return None
        wrong = Nonconformance(
            message.connectivity(
                expect.context.claims,
                attempt,
                expected=f"HTTP 200 and {text!r}",
                because=because,
                seen=settled.seen,
                seconds=settled.seconds,
                observed=message.tally([_said(seen, text) for seen in settled.seen]),
                further={
                    "page": f"{_said(settled.last, text)}: {' '.join(_page(settled.last).split())[:200] or 'empty'}"
                },
            ),
            seen=settled.seen,
        )
        verdict = unless_changed(expect, [source, *target.backends], wrong)
        violated = isinstance(verdict, Nonconformance)
        word = ClaimVerdict.VIOLATED if violated else ClaimVerdict.INCONCLUSIVE
        expect.context.decided(source, target, word, str(verdict), "behaviour")
        return verdict


def _page(seen: Observation) -> str:
    return seen.body.decode("utf-8", errors="replace")


def _said(seen: Observation, text: str) -> str:
    """One answer, in a few words."""
    if seen.verdict is not Verdict.CONNECTED:
        return seen.verdict.value
    return f"HTTP {seen.status}{' without it' if seen.status == 200 and text not in _page(seen) else ''}"
