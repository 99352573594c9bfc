# SPDX-License-Identifier: Apache-2.0
"""Where names of targets led: a verdict about a path means nothing when its name led elsewhere, or nowhere."""

import ipaddress
import math
from collections.abc import Sequence
from typing import Protocol

from conformance.errors import SuiteError
from conformance.model.attempt import Attempt, Kind
from conformance.model.observation import Observation, Verdict
from conformance.settings import Timings

UNSENT = frozenset({Verdict.DNS_FAILED, Verdict.NO_SUCH_NAME})
"""Verdicts of attempts that sent nothing to their target, for want of its address."""


class Observer(Protocol):
    """What asking for names needs of probing."""

    def observe(self, batch: Sequence[Attempt]) -> list[Observation]:
        """One observation per attempt, in order."""


class Asks(Protocol):
    """What finding out why an expectation failed needs of it."""

    @property
    def prober(self) -> Observer: ...

    @property
    def timings(self) -> Timings: ...


def named(attempt: Attempt) -> bool:
    """Whether the target is called by a name."""
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
    """What the target's name resolves to now, as its source sees it: addresses, or the verdict; empty: not known.

    An answer that takes longer than ``slow`` seconds says so.
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
    told = ", ".join(answer.answers) if answer.verdict is Verdict.RESOLVED else str(answer.verdict)
    in_time = answer.verdict is Verdict.DNS_FAILED or answer.seconds <= slow
    return told if in_time else f"{told}, slow: answered after {answer.seconds:.1f} s"


def reached(observation: Observation) -> str:
    """The address that an attempt got to, without its port; empty: not told."""
    return observation.remote.rpartition(":")[0]
