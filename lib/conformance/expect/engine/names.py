# SPDX-License-Identifier: Apache-2.0
"""The addresses to which targets' names resolve. A path's verdict means nothing if its name
resolved to a wrong address."""

import ipaddress
import math
from collections.abc import Sequence
from typing import Protocol

from conformance.errors import SuiteError
from conformance.model.attempt import Attempt, Kind
from conformance.model.observation import Observation, Verdict
from conformance.settings import Timings

UNSENT = frozenset({Verdict.DNS_FAILED, Verdict.NO_SUCH_NAME})
"""Verdicts of attempts that sent nothing to their target, since its address was not known."""


class Observer(Protocol):
    """The part of a prober that DNS queries need."""

    def observe(self, batch: Sequence[Attempt]) -> list[Observation]:
        """Return one observation per attempt, in order."""


class Asks(Protocol):
    """The tools for finding out why an expectation failed."""

    @property
    def prober(self) -> Observer: ...

    @property
    def timings(self) -> Timings: ...


def named(attempt: Attempt) -> bool:
    """Return whether the target is addressed by a name."""
    if attempt.target is None or attempt.kind is Kind.DNS:
        return False
    try:
        ipaddress.ip_address(attempt.target.host)
    except ValueError:
        return True
    return False


def resolved_address(
    prober: Observer, attempt: Attempt, patience: float, *, slow: float = math.inf
) -> str:
    """Resolve the target's name now at the source; return the addresses, or the verdict of the
    attempt.

    The result is empty if neither is known. An answer that takes longer than ``slow`` seconds is
    marked.
    """
    if attempt.target is None or not named(attempt):
        return ""
    question = Attempt(
        source=attempt.source, kind=Kind.DNS, give_up_after=patience, query=attempt.target.host
    )
    try:
        answer = prober.observe([question])[0]
    except SuiteError:
        return ""
    answers = (
        ", ".join(answer.answers) if answer.verdict is Verdict.RESOLVED else str(answer.verdict)
    )
    in_time = answer.verdict is Verdict.DNS_FAILED or answer.seconds <= slow
    return answers if in_time else f"{answers}, slow: answered after {answer.seconds:.1f} s"


def reached(observation: Observation) -> str:
    """Return the address that an attempt reached, without its port. Return an empty string if no
    address is reported."""
    return observation.remote.rpartition(":")[0]
