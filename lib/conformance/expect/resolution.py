# SPDX-License-Identifier: Apache-2.0
"""Names that are to resolve: asked for by pods of either system, each by its own resolver settings."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from conformance.errors import EnvironmentBroken, Nonconformance, first_line
from conformance.expect.check import Judged, Ruling, check
from conformance.expect.engine.answered import DNS_UNTOLD
from conformance.expect.excuses import changed
from conformance.expect.explain import message
from conformance.expect.explain.dns_servers import (
    COMPARE,
    SEARCHED,
    Heard,
    listen,
    telling_otherwise,
)
from conformance.expect.guard import excused
from conformance.expect.poll import poll
from conformance.expect.session import Session
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Target, Workload
from conformance.model.observation import Observation, Verdict

DENIED = (
    "look for template or rewrite rules in CoreDNS' Corefile, and for another DNS server between pods and CoreDNS (RFC "
    "8020: resolvers such as musl's take NXDOMAIN for the end of the name and use no A record)"
)
"""What to do about a name that is denied because it has no records of one type."""


def resolves(
    expect: Session,
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
    Last of all resolvers ask for the bare name, which the cluster's DNS forwards: that the server beyond refuses it is
    as good, for it has no such name either.
    With servers in ``at`` each of them is asked, in place of the one that the source's own resolver settings name.
    Each source, at each server, is a decision of its own; raises Nonconformance for the first that is wrong.
    """
    asked = _Question(expect, name, sorted(to), record, " over TCP" if over_tcp else "", because)
    attempts = asked.attempts(sources, at or [None], over_tcp=over_tcp)
    answers, agree, seconds = asked.ask(attempts)
    held = [len(seen) >= agree and all(map(asked.right, seen[-agree:])) for seen in answers]
    late = [
        any(
            each.verdict is Verdict.DNS_FAILED or (asked.told(each) and not asked.right(each))
            for each in seen
        )
        for seen in answers
    ]
    doubtful = [
        attempt
        for attempt, sound, late_ in zip(attempts, held, late, strict=True)
        if late_ and not sound
    ]
    heard = listen(expect, doubtful, expect.context.world.dns)

    def judge(place: int) -> Judged:
        if held[place]:
            return f"{because}; {DNS_UNTOLD}"
        attempt = attempts[place]
        return asked.failure(attempt, answers[place], heard.get(attempt.label), seconds)

    cases = [(one.source, one.target, place) for place, one in enumerate(attempts)]
    check(expect.context, "behaviour", cases, judge)


@dataclass(frozen=True)
class _Question:
    """What is asked, and what the right answer is."""

    session: Session
    name: str
    wanted: list[str]
    record: str
    over: str
    """``over TCP``, where it is."""
    because: str

    @property
    def exists(self) -> bool:
        """Whether the name exists and only this record of it does not."""
        return not self.wanted and self.record != "A"

    def attempts(
        self, sources: Sequence[Workload], servers: Sequence[Target | None], *, over_tcp: bool
    ) -> list[Attempt]:
        return [
            Attempt(
                source=source,
                target=server,
                kind=Kind.DNS,
                query=self.name,
                record=self.record,
                dns_over_tcp=over_tcp,
                give_up_after=self.session.timings.of(source.os).dns_give_up,
            )
            for source in sources
            for server in servers
        ]

    def told(self, seen: Observation) -> bool:
        """Whether the answer is right, however late."""
        if not self.wanted:
            none = seen.verdict is Verdict.NO_SUCH_NAME and not (self.exists and _denied(seen))
            return none or (not self.exists and self._refused_beyond(seen))
        return seen.verdict is Verdict.RESOLVED and sorted(seen.answers) == self.wanted

    def _refused_beyond(self, seen: Observation) -> bool:
        """Whether the bare name alone is what a server had no answer to, in the words of the agents."""
        said = rf"(REFUSED|SERVFAIL) from \S+ for {re.escape(self.name)}"
        return seen.verdict is Verdict.DNS_FAILED and re.fullmatch(said, seen.detail) is not None

    def slow(self, attempt: Attempt) -> float:
        """s.  A later answer is late."""
        return self.session.timings.of(attempt.source.os).dns_slow

    def right(self, seen: Observation) -> bool:
        """Whether the answer is right, and in time."""
        return self.told(seen) and seen.seconds <= self.slow(seen.attempt)

    def ask(self, attempts: Sequence[Attempt]) -> tuple[list[list[Observation]], int, float]:
        """Ask until as many answers as must agree are right: each attempt's answers, how many must agree, seconds.

        A source whose answers never come makes every round as long as its give-up time, so that few fit: the others,
        right at the end of it, are asked again without it.
        """

        def all_right(seen: Sequence[Observation]) -> bool:
            return all(map(self.right, seen))

        polled = poll(self.session, attempts, all_right, because=self.because)
        answers = [seen for _, seen in polled]
        slowed = [
            index
            for index, seen in enumerate(answers)
            if self.right(seen[-1]) and not polled.agreed(index, self.right)
        ]
        if slowed:
            again = poll(
                self.session, [attempts[index] for index in slowed], all_right, because=self.because
            )
            for index, (_, seen) in zip(slowed, again, strict=True):
                answers[index] += seen
        return answers, polled.agree, polled.settled.seconds

    def failure(
        self, attempt: Attempt, seen: Sequence[Observation], cause: Heard | None, seconds: float
    ) -> Ruling:
        """Decide that a source got no right answer of a server; ``cause``: what it heard when it waited longer."""
        context = self.session.context
        last = seen[-1]
        otherwise = (
            {} if cause else telling_otherwise(self.session, attempt, self.told, context.world.dns)
        )
        too_late = self.told(last) and not self.right(last)
        observed = f"{message.summary(seen)}{_named(last if too_late else None, cause)}"
        if otherwise:
            observed += f", and DNS pod {', '.join(otherwise)} tells otherwise than the rest"
        is_slow = too_late or (cause is not None and cause.answered_late and not cause.silent)
        within = f" within {self.slow(attempt):g} s" if is_slow else ""
        text = message.explanation(
            context.claims,
            attempt,
            expected=self._right_answer + self.over + within,
            because=self.because,
            seen=seen,
            seconds=seconds,
            further=cause.lines if cause else self._lines(last, otherwise),
            observed=observed,
            so=f"{self.name} has an A record, which NXDOMAIN denies"
            if (self.exists and _denied(last))
            else "",
        )
        said: Exception = Nonconformance(text, seen=seen)
        if gone := changed(self.session, attempt):
            said = EnvironmentBroken(message.explained(text, by=str(gone)))
        elif by := excused(self.session, text, attempt, seen, want=True):
            said = by
        reason = f"{attempt.label}  observed {observed}{self.over}"
        return Ruling(reason if isinstance(said, Nonconformance) else first_line(said), error=said)

    @property
    def _right_answer(self) -> str:
        """As messages write it."""
        if self.wanted:
            return f"RESOLVED to {', '.join(self.wanted)}"
        if self.exists:
            return f"an empty answer (NOERROR, no {self.record})"
        return str(Verdict.NO_SUCH_NAME)

    def _lines(self, last: Observation, otherwise: Mapping[str, str]) -> dict[str, str]:
        """Return a message's lines about DNS pods that answer ``otherwise``, and what to do."""
        of_pods = "; ".join(f"{pod}: {told}" for pod, told in otherwise.items())
        lines = {"DNS pods": of_pods} if otherwise else {}
        return lines | {"do": _advice(last, self.wanted, self.exists)}


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


def _advice(seen: Observation, wanted: Sequence[str], exists: bool) -> str:
    if exists and _denied(seen):
        return DENIED
    if wanted and seen.verdict is Verdict.NO_SUCH_NAME:
        return SEARCHED
    return COMPARE
