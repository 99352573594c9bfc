"""Names that are to resolve: asked for by pods of either system, each by its own resolver settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from conformance.errors import Nonconformance
from conformance.expect import message
from conformance.expect.names import Observer
from conformance.model.attempt import Attempt, Kind
from conformance.model.claim import ClaimVerdict
from conformance.model.endpoint import Workload
from conformance.model.observation import Observation, Verdict
from conformance.settings import Timings
from conformance.timing import Clock, Settled, until

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided


class Told(Protocol):
    """Where decisions go (``conformance.expect.traffic.Context``)."""

    @property
    def claims(self) -> tuple[str, ...]: ...

    @property
    def decided(self) -> Callable[[Workload, None, ClaimVerdict, str, Literal["behaviour"]], None]:
        """Says what was decided about one source."""


class Asks(Protocol):
    """What asking for names needs of a test's expectations."""

    @property
    def prober(self) -> Observer: ...

    @property
    def timings(self) -> Timings: ...

    @property
    def clock(self) -> Clock: ...

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
    systems = sorted({one.os for one in sources})
    patience = [expect.timings.of(system) for system in systems]
    wanted = sorted(to)
    attempts = [
        Attempt(
            source=one,
            kind=Kind.DNS,
            give_up_after=expect.timings.of(one.os).dns_give_up,
            query=name,
            record=record,
            dns_over_tcp=over_tcp,
        )
        for one in sources
    ]

    def right(seen: Observation) -> bool:
        if not wanted:
            return seen.verdict is Verdict.NO_SUCH_NAME
        return seen.verdict is Verdict.RESOLVED and sorted(seen.answers) == wanted

    agree = max(one.agree for one in patience)

    def ask(asked: Sequence[Attempt]) -> Settled[list[Observation]]:
        return until(
            lambda: expect.prober.observe(asked),
            lambda seen: all(map(right, seen)),
            within=max(one.service_effect for one in patience),
            agree=agree,
            every=min(one.poll_every for one in patience),
            description=because,
            clock=expect.clock,
        )

    settled = ask(attempts)
    answers = list(map(list, zip(*settled.seen, strict=True)))
    # A source whose answers never come makes every round as long as its give-up time, so that few fit: the others,
    # right at the end of it, are asked again without it.
    slowed = [index for index, seen in enumerate(answers) if right(seen[-1]) and not _agreed(seen, right, agree)]
    if slowed:
        for round_ in ask([attempts[index] for index in slowed]).seen:
            for index, answer in zip(slowed, round_, strict=True):
                answers[index].append(answer)
    wrong: list[Nonconformance] = []
    for attempt, seen in zip(attempts, answers, strict=True):
        if _agreed(seen, right, agree):
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
            seconds=settled.seconds,
            further={"do": "compare with the Service and with CoreDNS' log in kube-system"},
        )
        wrong.append(Nonconformance(text, seen=seen))
    if wrong:
        raise wrong[0]


def _agreed(seen: Sequence[Observation], right: Callable[[Observation], bool], agree: int) -> bool:
    """Whether the newest answers of one source are right, as many as must agree."""
    return len(seen) >= agree and all(map(right, seen[-agree:]))
