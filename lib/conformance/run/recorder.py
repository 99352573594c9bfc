"""The ``record`` fixture: how a test says more than passed or failed."""

from __future__ import annotations

from collections.abc import Iterable

from conformance.catalog import Claim, Modality
from conformance.errors import SuiteTrouble
from conformance.expect.figures import FigureLog
from conformance.model.claim import ClaimKind, ClaimVerdict
from conformance.model.decision import Seen
from conformance.run.verdicts import Statement


class Recorder:
    """``record(first_correct=0.4)``; ``record.not_observed("...")`` and its like instead of the plain CONFIRMED."""

    def __init__(self, claims: tuple[Claim, ...], statement: Statement) -> None:
        self._claims = {claim.id: claim for claim in claims}
        self._statement = statement

    def __call__(self, **figures: float | str) -> None:
        """Keep figures with the result: seconds as float, named by meaning."""
        self._statement.measured.update(figures)

    def touched(self, systems: Iterable[str]) -> None:
        """Say on which operating systems the pods of this test really ran."""
        self._statement.touched.update(systems)

    @property
    def figures(self) -> FigureLog:
        """Where expectations take down tries and the effect of policy changes."""
        return self._statement.figures

    def decided(self, *seen: Seen) -> None:
        """Keep what an expectation decided: it counts for each claim and part of the test."""
        self._statement.seen.extend(seen)

    def not_observed(self, reason: str, claim: str = "") -> None:
        """A claim that "can happen" did not, although a witness shows that its cause took effect."""
        for one in self._meant(claim):
            if one.modality is not Modality.CAN_HAPPEN:
                raise SuiteTrouble(f"{one.id} holds always: not seeing it is no NOT_OBSERVED")
        self._statement.special[claim] = (ClaimVerdict.NOT_OBSERVED, reason)

    def lifted(self, reason: str, claim: str = "") -> None:
        """A documented limitation is gone: the thing worked in traffic."""
        for one in self._meant(claim):
            if one.kind not in (ClaimKind.LIMITATION, ClaimKind.KNOWN_ISSUE):
                raise SuiteTrouble(f"{one.id} is a {one.kind}: only limitations and known issues can be LIFTED")
        self._statement.special[claim] = (ClaimVerdict.LIFTED, reason)

    def _meant(self, claim: str) -> list[Claim]:
        if claim and claim not in self._claims:
            raise SuiteTrouble(f"record: this test does not verify {claim}")
        return [self._claims[claim]] if claim else list(self._claims.values())
