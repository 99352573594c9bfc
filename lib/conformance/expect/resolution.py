# SPDX-License-Identifier: Apache-2.0
"""Expectations that names resolve, for pods of both operating systems, each with its own resolver
settings."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from conformance.errors import EnvironmentBroken, Nonconformance, UsageProblem, first_line
from conformance.expect.check import Judged, Ruling, check
from conformance.expect.engine.answered import DNS_UNTOLD
from conformance.expect.excuses import changed
from conformance.expect.explain import cause as cause_of_path
from conformance.expect.explain import message
from conformance.expect.explain.dns_servers import (
    COMPARE,
    SEARCHED,
    DnsAnswers,
    listen,
    telling_otherwise,
)
from conformance.expect.guard import undecided
from conformance.expect.poll import poll
from conformance.expect.session import Session
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Target, Workload
from conformance.model.explanation import Explanation
from conformance.model.observation import Observation, Verdict

DENIED = (
    "look for template or rewrite rules in CoreDNS' Corefile, and for another DNS server between "
    "pods and CoreDNS (RFC 8020: resolvers such as musl's conclude from NXDOMAIN that the name "
    "has no records at all, and use no A record)"
)
"""Advice about a name for which the server answers that it has no record of a type."""


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
    """Expect the name to resolve for each source to exactly these answers, in time.

    Enough answers in a row must be right (``agree`` of the timings). If ``to`` is empty, a server
    that knows the name must answer that there is no such record. For an A query, "no such name"
    (NXDOMAIN) is also right; for other records it is wrong, since the queried names have an A
    record.

    Resolvers query the bare name last, and the cluster's DNS forwards that query to a server
    outside the cluster. A refusal by that server is also right, since it has no such name either.

    Each server in ``at`` is asked in place of the server in the source's own resolver settings.
    Each source at each server has a decision of its own. Raise Nonconformance for the first wrong
    decision, UsageProblem if there is no source.
    """
    if not sources:
        raise UsageProblem(f"no client can resolve {name}: the group of clients is empty")
    asked = _Question(expect, name, sorted(to), record, " over TCP" if over_tcp else "", because)
    attempts = asked.attempts(sources, at or [None], over_tcp=over_tcp)
    answers, agree, seconds = asked.ask(attempts)
    held = [
        len(observations) >= agree and all(map(asked.right, observations[-agree:]))
        for observations in answers
    ]
    doubtful = [
        attempt
        for attempt, sound, observations in zip(attempts, held, answers, strict=True)
        if not sound and any(map(asked.is_late, observations))
    ]
    at_times = [
        attempt.label
        for attempt, observations in zip(attempts, answers, strict=True)
        if asked.is_answered_at_times(observations)
    ]
    received = listen(expect, doubtful, expect.context.world.dns, at_times)

    def judge(place: int) -> Judged:
        if held[place]:
            return f"{because}; {DNS_UNTOLD}"
        attempt = attempts[place]
        return asked.failure(attempt, answers[place], received.get(attempt.label), seconds)

    cases = [(attempt.source, attempt.target, place) for place, attempt in enumerate(attempts)]
    check(expect.context, "behaviour", cases, judge)


@dataclass(frozen=True)
class _Question:
    """A question, and its right answer."""

    session: Session
    name: str
    wanted: list[str]
    record: str
    over: str
    """``over TCP`` if the query uses TCP, else empty."""
    because: str

    @property
    def exists(self) -> bool:
        """Return whether the name should exist, but have no record of the queried type."""
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

    def is_answered(self, observation: Observation) -> bool:
        """Return whether the answer is right, even if it was late."""
        if not self.wanted:
            none = observation.verdict is Verdict.NO_SUCH_NAME and not (
                self.exists and _denied(observation)
            )
            return none or (not self.exists and self._refused_beyond(observation))
        return (
            observation.verdict is Verdict.RESOLVED and sorted(observation.answers) == self.wanted
        )

    def is_late(self, observation: Observation) -> bool:
        """Return whether there was no answer in time, or the right answer came too late."""
        return observation.verdict is Verdict.DNS_FAILED or (
            self.is_answered(observation) and not self.right(observation)
        )

    def is_answered_at_times(self, observations: Sequence[Observation]) -> bool:
        """Return whether some attempts got the right answer, while agents reported ``no answer``
        for other attempts."""
        silent = (each.detail.startswith("no answer") for each in observations)
        return any(map(self.is_answered, observations)) and any(silent)

    def _refused_beyond(self, observation: Observation) -> bool:
        """Return whether a server refused the query for the bare name, and not a query for a name
        with a suffix. The agent's message shows the refused name."""
        pattern = rf"(REFUSED|SERVFAIL) from \S+ for {re.escape(self.name)}"
        return (
            observation.verdict is Verdict.DNS_FAILED
            and re.fullmatch(pattern, observation.detail) is not None
        )

    def slow(self, attempt: Attempt) -> float:
        """Return the number of seconds after which an answer is late."""
        return self.session.timings.of(attempt.source.os).dns_slow

    def right(self, observation: Observation) -> bool:
        """Return whether the answer is right and in time."""
        return self.is_answered(observation) and observation.seconds <= self.slow(
            observation.attempt
        )

    def ask(self, attempts: Sequence[Attempt]) -> tuple[list[list[Observation]], int, float]:
        """Ask until enough answers in a row are right. Return the answers, the number of answers
        that must agree, and the seconds.

        A source without answers makes every round as long as its give-up time, so that few rounds
        fit. Therefore the sources whose last answers are right are asked again, without the sources
        that get no answers.
        """

        def all_right(observations: Sequence[Observation]) -> bool:
            return all(map(self.right, observations))

        polled = poll(self.session, attempts, all_right, because=self.because, of_open_paths=True)
        answers = [observations for _, observations in polled]
        slowed = [
            index
            for index, observations in enumerate(answers)
            if self.right(observations[-1]) and not polled.agreed(index, self.right)
        ]
        if slowed:
            again = poll(
                self.session, [attempts[index] for index in slowed], all_right, because=self.because
            )
            for index, (_, observations) in zip(slowed, again, strict=True):
                answers[index] += observations
        return answers, polled.agree, polled.settled.seconds

    def failure(
        self,
        attempt: Attempt,
        observations: Sequence[Observation],
        cause: DnsAnswers | None,
        seconds: float,
    ) -> Ruling:
        """Return the decision about a source that got no right answer. ``cause``: the answers of
        DNS servers that had more time; None: these servers were not asked."""
        context = self.session.context
        last = observations[-1]
        otherwise = (
            {}
            if cause
            else telling_otherwise(self.session, attempt, self.is_answered, context.world.dns)
        )
        too_late = self.is_answered(last) and not self.right(last)
        observed = f"{message.summary(observations)}{_named(last if too_late else None, cause)}"
        if otherwise:
            observed += f"; DNS pods that answer differently from the rest: {', '.join(otherwise)}"
        is_slow = too_late or (cause is not None and cause.answered_late and not cause.silent)
        within = f" within {self.slow(attempt):g} s" if is_slow else ""
        text = message.explanation(
            context.claims,
            attempt,
            expected=self._right_answer + self.over + within,
            because=self.because,
            observations=observations,
            seconds=seconds,
            further=cause.lines if cause else self._lines(last, otherwise),
            observed=observed,
            so=f"{self.name} has an A record, which NXDOMAIN denies"
            if (self.exists and _denied(last))
            else "",
        )
        error: Exception = self._violation(text, observations)
        if gone := changed(self.session, attempt):
            error = EnvironmentBroken(message.explained(text, by=str(gone)))
        elif by := undecided(self.session, text, attempt, observations):
            error = by
        reason = f"{attempt.label}  observed {observed}{self.over}"
        return Ruling(
            reason if isinstance(error, Nonconformance) else first_line(error),
            error=error,
            symptom=(self._right_answer, observed),
        )

    def _violation(self, text: Explanation, observations: Sequence[Observation]) -> Nonconformance:
        """Return the failure. Names that get no answer on a node share a cause."""
        violation = Nonconformance(text, observations=observations)
        last = observations[-1]
        if last.verdict is Verdict.DNS_FAILED:
            violation.cause = cause_of_path.unresolved([last.attempt])
        return violation

    @property
    def _right_answer(self) -> str:
        """Return the right answer in the words of messages."""
        if self.wanted:
            return f"RESOLVED to {', '.join(self.wanted)}"
        if self.exists:
            return f"an empty answer (NOERROR, no {self.record})"
        return str(Verdict.NO_SUCH_NAME)

    def _lines(self, last: Observation, otherwise: Mapping[str, str]) -> dict[str, str]:
        """Return a message's lines: the DNS pods that answer ``otherwise``, and the advice."""
        of_pods = "; ".join(f"{pod}: {answer}" for pod, answer in otherwise.items())
        lines = {"DNS pods": of_pods} if otherwise else {}
        return lines | {"do": _advice(last, self.wanted, self.exists)}


def _denied(observation: Observation) -> bool:
    """Return whether a server answered that the name has no record of any type."""
    return observation.verdict is Verdict.NO_SUCH_NAME and observation.rcode == "NXDOMAIN"


def _named(late: Observation | None, cause: DnsAnswers | None) -> str:
    """Return the text to add to the verdicts in a first line. It describes a slow answer
    (``late``), or the findings about the DNS servers (``cause``)."""
    if late is not None:
        return f", slow: answered after {late.seconds:.1f} s"
    if cause is not None and cause.silent:
        return f"; silent DNS pods: {cause.named_silent}"
    if cause is not None and cause.answered_late:
        return (
            f"; a later query for {cause.server.attempt.query} is answered after "
            f"{cause.server.seconds:.1f} s"
        )
    if cause is not None and cause.share:
        return ", for a share of all queries to the DNS Service"
    if cause is not None and cause.answered:
        return f", while {cause.server.attempt.query} is answered"
    return ""


def _advice(observation: Observation, wanted: Sequence[str], exists: bool) -> str:
    if exists and _denied(observation):
        return DENIED
    if wanted and observation.verdict is Verdict.NO_SUCH_NAME:
        return SEARCHED
    return COMPARE
