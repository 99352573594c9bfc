"""Several paths decided one by one: each has its own verdict, and what is wrong with some does not stop the others.

The worst failure is raised at the end; its message names the others.
"""

from dataclasses import dataclass, field
from typing import Self

from conformance.errors import EnvironmentBroken, Nonconformance, ProbeBroken, first_line
from conformance.expect.context import Context
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Half, Symptom
from conformance.model.endpoint import Target, Workload
from conformance.model.facts import NodeFacts
from conformance.verdicts.meaning import of_failure

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided

NAMED = 5
"""Other failures that the message of the worst one names."""


@dataclass
class Tally:
    """The paths of one expectation; as a context manager it ends itself."""

    context: Context
    half: Half
    _errors: list[Exception] = field(default_factory=list)

    def right(
        self,
        source: Workload | None,
        target: Workload | Target | NodeFacts | None,
        reason: str,
        verdict: ClaimVerdict = ClaimVerdict.CONFIRMED,
    ) -> None:
        """This path is as it may be: ``verdict`` may be LIFTED or NOT_OBSERVED, too."""
        self.context.decided(source, target, verdict, reason, self.half)

    def wrong(
        self,
        source: Workload | None,
        target: Workload | Target | NodeFacts | None,
        error: Exception,
        symptom: Symptom = ("", ""),
    ) -> None:
        """This path is not as it is to be, or could not be decided; the exception says which."""
        self.context.decided(
            source, target, of_failure(error), first_line(error), self.half, symptom=symptom
        )
        self._errors.append(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End it, unless something else is raised."""
        if kind is None:
            self.end()

    def end(self) -> None:
        """Raises the worst of what was wrong, with a note of the others."""
        if not self._errors:
            return
        worst, *others = sorted(dict.fromkeys(self._errors), key=_rank)
        for other in others[:NAMED]:
            worst.add_note(f"  also      {first_line(other)}")
        if len(others) > NAMED:
            worst.add_note(f"  also      {len(others) - NAMED} more ways")
        raise worst


def _rank(error: Exception) -> int:
    """Rank of a failure; the lowest of several is raised: what says most about the cluster, then about its pods."""
    order = (Nonconformance, EnvironmentBroken, ProbeBroken)
    return next((place for place, kind in enumerate(order) if isinstance(error, kind)), len(order))
