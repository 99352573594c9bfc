# SPDX-License-Identifier: Apache-2.0
"""Causes of single failures about a name: no answer, a wrong address, a missing record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from conformance.expect.owners import ForeignPolicyView
from conformance.model.attempt import Attempt
from conformance.model.endpoint import Target
from conformance.model.observation import Observation, Verdict
from tests.unit.conformance.expect import test_resolution as dns
from tests.unit.conformance.expect.failing import CLIENT, NO_NAME, NOBODY, Raised, expecting
from tests.unit.conformance.expect.stand_ins import Answer, observation

Delay = float | Verdict | None
"""s. The time until an answer; None: no answer. A verdict means an answer of this kind."""


@dataclass(frozen=True)
class Unresolved:
    """A name that does not resolve as it should, given the answers of the cluster's DNS."""

    answer: Answer
    """The answer to the query for the name itself."""
    server: Delay = 0.003
    """The answer of the DNS Service about another name."""
    pods: tuple[Delay, ...] = (0.003, 0.003)
    """The answers of the single DNS pods about another name; empty: the pods are not known."""
    to: tuple[str, ...] = (dns.ADDRESS,)
    """The right answer; empty: there is no such record."""
    record: str = "A"
    is_known: bool = True
    """True if the cluster's DNS is known, so that it is queried again."""
    at: tuple[Target, ...] = ()
    """Servers that are queried in place of the client's own."""
    is_restarted: bool = False
    """True if the client's pod has restarted meanwhile."""
    others: ForeignPolicyView = NOBODY
    """Owners of policies other than the test's."""

    def error(self) -> BaseException | None:
        known = (dns.Dns if self.pods else dns.NoDns) if self.is_known else type(None)
        answers: dict[str, list[Answer]] = {CLIENT.pod: [self._answered]}
        restarted = [CLIENT.pod] if self.is_restarted else []
        expect = expecting(answers, restarted=restarted, dns=known, others=self.others)
        asked: dict[str, Any] = {
            "because": "DNS knows every Service",
            "record": self.record,
            "at": self.at,
        }
        return Raised(lambda: expect.resolves(CLIENT, "web.demo", self.to, **asked)).error()

    def _answered(self, attempt: Attempt, number: int) -> Observation:
        if attempt.query != dns.KNOWN:
            assert callable(self.answer)
            return self.answer(attempt, number)
        target = attempt.target
        hosts = [dns.FIRST.address, dns.SECOND.address]
        delay = self.pods[hosts.index(target.host)] if target else self.server
        if isinstance(delay, Verdict):
            return observation(attempt, delay)
        return dns.answered(attempt, 99.0 if delay is None else delay)


def no_answer(attempt: Attempt, _: int) -> Observation:
    return dns.answered(attempt, 99.0)


def late_address(attempt: Attempt, _: int) -> Observation:
    return dns.answered(attempt, 3.1)


def wrong_address(attempt: Attempt, _: int) -> Observation:
    return replace(observation(attempt, Verdict.RESOLVED), answers=("203.0.113.9",))


def no_record(rcode: str, seconds: float = 0.003) -> Answer:
    """Return the answer that there is no such record, or no such name."""
    return lambda attempt, _: replace(
        observation(attempt, NO_NAME),
        rcode=rcode,
        seconds=seconds,
        detail=f"{attempt.query} {rcode}",
    )


def by_turns(*answers: Answer) -> Answer:
    """Return these answers one after the other, again and again."""

    def answer(attempt: Attempt, number: int) -> Observation:
        turn = answers[number % len(answers)]
        assert callable(turn)
        return turn(attempt, number)

    return answer


def at_first(first: Answer, then: Answer) -> Answer:
    """Return one answer to the first query, and another answer to all later queries."""
    return by_turns(first, *[then] * 1000)


def right_address(attempt: Attempt, _: int) -> Observation:
    return dns.answered(attempt)
