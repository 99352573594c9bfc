"""Names that are to resolve: asked for by pods of either system, each by its own resolver settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from conformance.errors import Nonconformance
from conformance.expect import message
from conformance.expect.poll import Polling, poll
from conformance.model.attempt import Attempt, Kind
from conformance.model.claim import ClaimVerdict
from conformance.model.endpoint import Workload
from conformance.model.observation import Observation, Verdict

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided


class Told(Protocol):
    """Where decisions go (``conformance.expect.traffic.Context``)."""

    @property
    def claims(self) -> tuple[str, ...]: ...

    @property
    def decided(self) -> Callable[[Workload, None, ClaimVerdict, str, Literal["behaviour"]], None]:
        """Says what was decided about one source."""


class Asks(Polling, Protocol):
    """What asking for names needs of a test's expectations."""

    @property
    def context(self) -> Told: ...


def resolves(
    expect: Asks,
    sources: Sequence[Workload],
    name: str,
    to: Sequence[str],
    *,
    because: str,
    record: str,
    over_tcp: bool = False,
) -> None:
    """The name resolves for each source to exactly these answers, as often as verdicts must agree.

    Without answers in ``to``, a server that knows says that there is no such record.  Each source is a decision of its
    own; raises Nonconformance for the first that is wrong.
    """
    wanted = sorted(to)
    attempts = [
        Attempt(
            source=source,
            kind=Kind.DNS,
            give_up_after=expect.timings.of(source.os).dns_give_up,
            query=name,
            record=record,
            dns_over_tcp=over_tcp,
        )
        for source in sources
    ]

    def right(seen: Observation) -> bool:
        if not wanted:
            return seen.verdict is Verdict.NO_SUCH_NAME
        return seen.verdict is Verdict.RESOLVED and sorted(seen.answers) == wanted

    def all_right(seen: Sequence[Observation]) -> bool:
        return all(map(right, seen))

    polled = poll(expect, attempts, all_right, because=because)
    answers = [seen for _, seen in polled]
    # A source whose answers never come makes every round as long as its give-up time, so that few fit: the others,
    # right at the end of it, are asked again without it.
    slowed = [index for index, seen in enumerate(answers) if right(seen[-1]) and not polled.agreed(index, right)]
    if slowed:
        again = poll(expect, [attempts[index] for index in slowed], all_right, because=because)
        for index, (_, seen) in zip(slowed, again, strict=True):
            answers[index] += seen
    wrong: list[Nonconformance] = []
    for attempt, seen in zip(attempts, answers, strict=True):
        if len(seen) >= polled.agree and all(map(right, seen[-polled.agree :])):
            expect.context.decided(attempt.source, None, ClaimVerdict.CONFIRMED, because, "behaviour")
            continue
        over = " over TCP" if over_tcp else ""
        reason = f"{attempt.label}  observed {message.summary(seen)}{over}"
        expect.context.decided(attempt.source, None, ClaimVerdict.VIOLATED, reason, "behaviour")
        text = message.connectivity(
            expect.context.claims,
            attempt,
            expected=f"RESOLVED to {', '.join(wanted)}{over}" if wanted else f"{Verdict.NO_SUCH_NAME.value}{over}",
            because=because,
            seen=seen,
            seconds=polled.settled.seconds,
            further={"do": "compare with the Service and with CoreDNS' log in kube-system"},
        )
        wrong.append(Nonconformance(text, seen=seen))
    if wrong:
        raise wrong[0]
