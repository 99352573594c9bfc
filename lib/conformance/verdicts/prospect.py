# SPDX-License-Identifier: Apache-2.0
"""The verdicts of a test's parts that are known before the test runs: the part does not apply to
this cluster, or cannot be decided."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from conformance.catalog import (
    ALL,
    Applies,
    Catalog,
    Conditions,
    NotApplicable,
    Undecided,
    applicability,
)
from conformance.model.claim import ClaimResult, ClaimVerdict
from conformance.model.endpoint import OS
from conformance.model.facts import Facts


@dataclass(frozen=True, kw_only=True)
class ClaimPart:
    """A ``verifies`` mark with its parameters filled in."""

    claim: str
    part: str = ""
    active: bool = False
    alone_on: OS | None = None
    """The operating system of the nodes that a node-exclusive part has to itself; None: the catalog
    decides."""
    applies: Conditions = ALL
    """The clusters to which the part applies, among the clusters to which the claim applies."""
    provisional: bool = False
    """True if the part is new, so that gates do not require it."""

    @property
    def about_windows(self) -> bool:
        """Return whether the part concerns more than Linux."""
        return not ("linux" in self.part and "windows" not in self.part)


@dataclass(frozen=True, kw_only=True)
class Prospect:
    """The prospect of a test on this cluster: it runs, or the reason why it does not run."""

    verdict: ClaimVerdict | None = None
    """NOT_APPLICABLE or NOT_RUN if the test does not run; None if it runs."""
    reason: str = ""
    remedy: str = ""
    inapplicable: Mapping[ClaimPart, str] = field(default_factory=dict)
    """The reason for each part that does not apply to this cluster; the test decides its other
    parts."""
    undecided: Mapping[ClaimPart, Undecided] = field(default_factory=dict)
    """The reason for each part of which it is unknown whether the part applies to this cluster."""
    assumed: tuple[str, ...] = ()
    look: bool = False
    """True if the test's set-up must first read missing facts on the Windows nodes. The test runs
    if the set-up finds them out."""

    @property
    def elsewhere(self) -> bool:
        """Return whether no part of the test is about this cluster."""
        return self.verdict is ClaimVerdict.NOT_APPLICABLE

    def hindered(self, reason: str, remedy: str) -> Self:
        """Return the prospect of a test that applies to this cluster, but cannot run here."""
        return replace(self, verdict=ClaimVerdict.NOT_RUN, reason=reason, remedy=remedy)

    def of(self, part: ClaimPart) -> tuple[ClaimVerdict, str, str] | None:
        """Return verdict, reason and remedy of a part that the facts decide before its test;
        None: the test decides it.
        """
        if part in self.inapplicable:
            return ClaimVerdict.NOT_APPLICABLE, self.inapplicable[part], ""
        if part in self.undecided:
            return ClaimVerdict.NOT_RUN, str(self.undecided[part]), self.undecided[part].remedy
        return None


def applying(
    parts: Sequence[ClaimPart], catalog: Catalog, facts: Facts, *, looks: bool
) -> Prospect:
    """Return the possible verdicts of a test's parts, by the clusters to which claims and parts
    apply.

    ``looks``: unknown facts about Windows nodes can still be read from the nodes.
    """
    inapplicable: dict[ClaimPart, str] = {}
    undecided: dict[ClaimPart, Undecided] = {}
    assumed: list[str] = []
    for part in parts:
        answer = applicability(catalog[part.claim], facts, part.applies)
        if isinstance(answer, NotApplicable):
            inapplicable[part] = str(answer)
        elif isinstance(answer, Undecided):
            undecided[part] = answer
        elif isinstance(answer, Applies):
            assumed += answer.assumed
    looks = looks and any(answer.look for answer in undecided.values())
    if looks:
        assumed += [
            f"{answer.condition}, which has to be read on the Windows nodes"
            for answer in undecided.values()
        ]
        undecided = {}
    known = Prospect(
        inapplicable=inapplicable,
        undecided=undecided,
        assumed=tuple(dict.fromkeys(assumed)),
        look=looks,
    )
    if parts and len(inapplicable) + len(undecided) == len(parts):  # no part applies here
        part = next(iter(undecided or inapplicable))
        verdict, why, remedy = known.of(part) or (None, "", "")
        return replace(known, verdict=verdict, reason=f"{part.claim}: {why}", remedy=remedy)
    return known


def not_run(
    test: str, parts: Iterable[ClaimPart], prospect: Prospect, evidence: str
) -> tuple[ClaimResult, ...]:
    """Return the results of a test that does not run, or whose outcome was not reported."""
    shown = (prospect.verdict or ClaimVerdict.NOT_RUN, prospect.reason, prospect.remedy)
    return tuple(
        ClaimResult(
            claim=part.claim,
            verdict=verdict,
            test=test,
            part=part.part,
            reason=reason,
            remedy=remedy,
            active=part.active,
            evidence="lab" if evidence == "lab" else "field",
        )
        for part in parts
        for verdict, reason, remedy in [prospect.of(part) or shown]
    )
