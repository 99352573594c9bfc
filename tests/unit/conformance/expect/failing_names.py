# SPDX-License-Identifier: Apache-2.0
"""What makes one failure about a name: no answer, a wrong address, a missing record."""

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
"""s.  How long an answer takes; None: no answer comes.  A verdict is an answer of that kind."""


@dataclass(frozen=True)
class Unresolved:
    """A name that does not resolve as it has to, over the answers of the cluster's DNS."""

    answer: Answer
    """What the question for the name itself gets."""
    server: Delay = 0.003
    """What the Service of DNS answers about another name."""
    pods: tuple[Delay, ...] = (0.003, 0.003)
    """The same of each DNS pod; empty: the pods are not known."""
    to: tuple[str, ...] = (dns.ADDRESS,)
    """The right answer; empty: there is no such record."""
    record: str = "A"
    is_known: bool = True
    """Whether the cluster's DNS is known, so that it is asked again."""
    at: tuple[Target, ...] = ()
    """Servers that are asked in place of the client's own."""
    is_restarted: bool = False
    """Whether the client's pod restarted meanwhile."""
    others: ForeignPolicyView = NOBODY
    """Owners of policies that are not the test's."""

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
    """Return one answer to the first question, and another to all that follow."""
    return by_turns(first, *[then] * 1000)


def right_address(attempt: Attempt, _: int) -> Observation:
    return dns.answered(attempt)
