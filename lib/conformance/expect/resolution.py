"""Names that are to resolve: asked for by pods of either system, each by its own resolver settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from conformance.errors import Nonconformance
from conformance.expect.engine.answered import DNS_UNTOLD
from conformance.expect.explain import message
from conformance.expect.explain.dns_servers import COMPARE, SEARCHED, Heard, Servers, listen, telling_otherwise
from conformance.expect.poll import Polling, poll
from conformance.model.attempt import Attempt, Kind
from conformance.model.claim import ClaimVerdict
from conformance.model.endpoint import Target, Workload
from conformance.model.observation import Observation, Verdict

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided

DENIED = (
    "look for template or rewrite rules in CoreDNS' Corefile, and for another DNS server between pods and CoreDNS (RFC "
    "8020: resolvers such as musl's take NXDOMAIN for the end of the name and use no A record)"
)
"""What to do about a name that is denied because it has no records of one type."""


class Told(Protocol):
    """Where decisions go (``conformance.expect.traffic.Context``)."""

    @property
    def claims(self) -> tuple[str, ...]: ...

    @property
    def decided(self) -> Callable[[Workload, Target | None, ClaimVerdict, str, Literal["behaviour"]], None]:
        """Says what was decided about one source, and one server where it was named."""

    @property
    def dns(self) -> Callable[[], Servers | None]:
        """The cluster's DNS, for messages; None: not known."""


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
    at: Sequence[Target] = (),
) -> None:
    """The name resolves for each source to exactly these answers, in time, as often as verdicts must agree.

    Without answers in ``to``, a server that knows says that there is no such record: to an A question also that there
    is no such name (NXDOMAIN); other records are asked for of names that have an A record, which NXDOMAIN would deny.
    With servers in ``at`` each of them is asked, in place of the one that the source's own resolver settings name.
    Each source, at each server, is a decision of its own; raises Nonconformance for the first that is wrong.
    """
    wanted = sorted(to)
    exists = not wanted and record != "A"
    servers: Sequence[Target | None] = at or [None]
    attempts = [
        Attempt(
            source=source,
            target=server,
            kind=Kind.DNS,
            give_up_after=expect.timings.of(source.os).dns_give_up,
            query=name,
            record=record,
            dns_over_tcp=over_tcp,
        )
        for source in sources
        for server in servers
    ]

    def told(seen: Observation) -> bool:
        if not wanted:
            return seen.verdict is Verdict.NO_SUCH_NAME and not (exists and _denied(seen))
        return seen.verdict is Verdict.RESOLVED and sorted(seen.answers) == wanted

    def slow(attempt: Attempt) -> float:
        return expect.timings.of(attempt.source.os).dns_slow

    def right(seen: Observation) -> bool:
        return told(seen) and seen.seconds <= slow(seen.attempt)

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
    held = [len(seen) >= polled.agree and all(map(right, seen[-polled.agree :])) for seen in answers]
    late = [any(_unanswered(each) or (told(each) and not right(each)) for each in seen) for seen in answers]
    doubtful = [attempt for attempt, sound, late_ in zip(attempts, held, late, strict=True) if late_ and not sound]
    heard = listen(expect, doubtful, expect.context.dns)
    wrong: list[Nonconformance] = []
    over = " over TCP" if over_tcp else ""
    for attempt, seen, sound in zip(attempts, answers, held, strict=True):
        if sound:
            reason = f"{because}; {DNS_UNTOLD}"
            expect.context.decided(attempt.source, attempt.target, ClaimVerdict.CONFIRMED, reason, "behaviour")
            continue
        cause = heard.get(attempt.label)
        otherwise = {} if cause else telling_otherwise(expect, attempt, told, expect.context.dns)
        too_late = told(seen[-1]) and not right(seen[-1])
        observed = f"{message.summary(seen)}{_named(seen[-1] if too_late else None, cause)}"
        observed += f", and DNS pod {', '.join(otherwise)} tells otherwise than the rest" if otherwise else ""
        reason = f"{attempt.label}  observed {observed}{over}"
        expect.context.decided(attempt.source, attempt.target, ClaimVerdict.VIOLATED, reason, "behaviour")
        nothing = f"an empty answer (NOERROR, no {record})" if exists else str(Verdict.NO_SUCH_NAME)
        right_answer = f"RESOLVED to {', '.join(wanted)}" if wanted else nothing
        is_slow = too_late or (cause is not None and cause.answered_late and not cause.silent)
        within = f" within {slow(attempt):g} s" if is_slow else ""
        text = message.connectivity(
            expect.context.claims,
            attempt,
            expected=right_answer + over + within,
            because=because,
            seen=seen,
            seconds=polled.settled.seconds,
            further=cause.lines if cause else {**_of_pods(otherwise), "do": _advice(seen[-1], wanted, exists)},
            observed=observed,
            so=f"{name} has an A record, which NXDOMAIN denies" if exists and _denied(seen[-1]) else "",
        )
        wrong.append(Nonconformance(text, seen=seen))
    if wrong:
        raise wrong[0]


def _unanswered(seen: Observation) -> bool:
    return seen.verdict is Verdict.DNS_FAILED


def _denied(seen: Observation) -> bool:
    """Whether a server that knows said that there is no such name, with any record."""
    return seen.verdict is Verdict.NO_SUCH_NAME and seen.rcode == "NXDOMAIN"


def _named(late: Observation | None, cause: Heard | None) -> str:
    """What a first line says beyond the verdicts: that answers are slow, or who is silent; ``late``: a slow answer."""
    if late is not None:
        return f", slow: answered after {late.seconds:.1f} s"
    if cause is not None and cause.silent:
        return f", and DNS pod {cause.named_silent} is silent"
    if cause is not None and cause.answered_late:
        return f"; asked again, {cause.server.attempt.query} is answered after {cause.server.seconds:.1f} s"
    if cause is not None and cause.answered:
        return f", while {cause.server.attempt.query} is answered"
    return ""


def _of_pods(otherwise: dict[str, str]) -> dict[str, str]:
    return {"DNS pods": "; ".join(f"{pod}: {told}" for pod, told in otherwise.items())} if otherwise else {}


def _advice(seen: Observation, wanted: Sequence[str], exists: bool) -> str:
    if exists and _denied(seen):
        return DENIED
    if wanted and seen.verdict is Verdict.NO_SUCH_NAME:
        return SEARCHED
    return COMPARE
