# SPDX-License-Identifier: Apache-2.0
"""The check loop of expectations: decides each case independently, and raises the worst failure.

A failed case does not stop the others. The message of the worst failure names the other failures.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Self, TypeVar

from conformance.errors import (
    EnvironmentBroken,
    Nonconformance,
    ProbeBroken,
    SuiteError,
    first_line,
)
from conformance.expect.context import Context, End
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Half, Symptom
from conformance.model.endpoint import Workload
from conformance.verdicts.meaning import of_failure

T = TypeVar("T")
NAMED = 5
"""The number of other failures that the message of the worst failure names."""


@dataclass(frozen=True)
class Ruling:
    """The judge's decision about a case that needs more than "as expected" or a failure."""

    reason: str = ""
    """A line that a reader understands without the rest of the message."""
    verdict: ClaimVerdict = ClaimVerdict.CONFIRMED
    error: Exception | None = None
    """The failure, if there is one. Its verdict counts, and its reason if ``reason`` is empty."""
    symptom: Symptom = ("", "")


Judged = Ruling | Exception | str
"""The judge's answer about a case: a ruling, a failure, or the reason why the case is as expected.
"""


@dataclass
class Check:
    """The cases of an expectation, as a context manager that raises the worst failure at its
    end."""

    context: Context
    half: Half
    _errors: list[Exception] = field(default_factory=list)

    def each(
        self, cases: Iterable[tuple[Workload | None, End, T]], judge: Callable[[T], Judged]
    ) -> None:
        """Judge each case, which has a source, a target, and the judge's input. The judge may raise
        a failure or return it."""
        for source, target, case in cases:
            try:
                found = judge(case)
            except (Nonconformance, SuiteError) as error:
                found = error
            self.decide(source, target, found)

    def decide(self, source: Workload | None, target: End, found: Judged) -> None:
        """Record the judge's answer about one case."""
        if isinstance(found, Exception):
            found = Ruling(error=found)
        elif isinstance(found, str):
            found = Ruling(found)
        verdict = found.verdict
        reason = found.reason
        if found.error:
            verdict = of_failure(found.error)
            reason = reason or first_line(found.error)
            self._errors.append(found.error)
        self.context.decided(source, target, verdict, reason, self.half, symptom=found.symptom)

    def keep(self, expect: Callable[[], object]) -> None:
        """Run an expectation that decides its cases itself, and keep its failure for the end."""
        try:
            expect()
        except (Nonconformance, SuiteError) as error:
            self._errors.append(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the check, unless another exception is raised."""
        if kind is None:
            self.end()

    def end(self) -> None:
        """Raise the worst failure, with a note of the others."""
        if not self._errors:
            return
        worst, *others = sorted(dict.fromkeys(self._errors), key=_rank)
        for other in others[:NAMED]:
            worst.add_note(f"  also      {first_line(other)}")
        if len(others) > NAMED:
            worst.add_note(f"  also      {len(others) - NAMED} more failures")
        raise worst


def check(
    context: Context,
    half: Half,
    cases: Iterable[tuple[Workload | None, End, T]],
    judge: Callable[[T], Judged],
) -> None:
    """Judge each case independently (:meth:`Check.each`), and raise the worst failure."""
    with Check(context, half) as loop:
        loop.each(cases, judge)


def _rank(error: Exception) -> int:
    """Return a failure's rank. The failure with the lowest rank is raised: failures about the
    cluster first, then failures about pods."""
    order = (Nonconformance, EnvironmentBroken, ProbeBroken)
    return next((place for place, kind in enumerate(order) if isinstance(error, kind)), len(order))
