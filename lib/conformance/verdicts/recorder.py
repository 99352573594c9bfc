# SPDX-License-Identifier: Apache-2.0
"""The ``record`` fixture, by which a test reports more than passed or failed."""

from collections.abc import Callable, Iterable

from conformance.catalog import Claim, Modality
from conformance.errors import SuiteError
from conformance.model.claim import ClaimKind, ClaimVerdict, Finding
from conformance.model.decision import Decision
from conformance.model.figures import Figures
from conformance.verdicts.statement import Statement


class Recorder:
    """The fixture ``record``. ``record(first_correct=0.4)`` stores a figure; methods such as
    ``record.not_observed("...")`` give a claim another verdict than CONFIRMED."""

    def __init__(self, claims: tuple[Claim, ...], statement: Statement) -> None:
        self._claims = {claim.id: claim for claim in claims}
        self._statement = statement

    def __call__(self, **figures: float | str) -> None:
        """Store figures with the result: seconds as float, named by their meaning."""
        self._statement.measure(figures)

    def touched(self, systems: Iterable[str]) -> None:
        """Record the operating systems on which the pods of this test really ran."""
        self._statement.touched.update(systems)

    def timed(self, figures: Callable[[], Figures]) -> None:
        """Set the function that returns tries and effects of policy changes; it is called once the
        test has ended."""
        self._statement.figures = figures

    def decided(self, *decisions: Decision) -> None:
        """Store an expectation's decisions. A decision counts for the claim and part that it names,
        or else for each claim and part of the test.

        Before and after the test's body, CONFIRMED is not stored.
        """
        for item in decisions:
            for claim in self._meant(item.claim):
                self._may_be(item.verdict, claim)
        late = () if self._statement.calling else (ClaimVerdict.CONFIRMED,)
        self._statement.keep(item for item in decisions if item.verdict not in late)

    def not_observed(self, reason: str, claim: str = "") -> None:
        """Record that an event that "can happen" did not happen, although a witness shows that its
        cause took effect."""
        for item in self._meant(claim):
            self._may_be(ClaimVerdict.NOT_OBSERVED, item)
        self._statement.say_instead(claim, Finding(ClaimVerdict.NOT_OBSERVED, reason))

    def lifted(self, reason: str, claim: str = "") -> None:
        """Record that a documented limitation is gone, as traffic has shown."""
        for item in self._meant(claim):
            self._may_be(ClaimVerdict.LIFTED, item)
        self._statement.say_instead(claim, Finding(ClaimVerdict.LIFTED, reason))

    @staticmethod
    def _may_be(verdict: ClaimVerdict, claim: Claim) -> None:
        """Raise SuiteError if this verdict is not possible for the claim."""
        if verdict is ClaimVerdict.NOT_OBSERVED and claim.modality is not Modality.CAN_HAPPEN:
            raise SuiteError(
                f"{claim.id} must always hold, so NOT_OBSERVED is no possible verdict for it"
            )
        if verdict is ClaimVerdict.LIFTED and claim.kind not in (
            ClaimKind.LIMITATION,
            ClaimKind.KNOWN_ISSUE,
        ):
            raise SuiteError(
                f"{claim.id} is a {claim.kind}: only limitations and known issues can be LIFTED"
            )

    def _meant(self, claim: str) -> list[Claim]:
        if claim and claim not in self._claims:
            raise SuiteError(f"record: this test does not verify {claim}")
        return [self._claims[claim]] if claim else list(self._claims.values())
