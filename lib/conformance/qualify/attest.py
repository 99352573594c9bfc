# SPDX-License-Identifier: Apache-2.0
"""Attestations: a person's answers about claims that no program can decide.

A YAML list of ``claim``, ``answer`` (a verdict), ``who``, ``when`` (a date) and ``evidence`` (a link or a sentence).
"""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.catalog import Claim, IsolationKind
from conformance.model.verdict import ClaimVerdict
from conformance.qualify import entries

FIELDS = ("claim", "answer", "who", "when", "evidence")
ANSWERS = (ClaimVerdict.CONFIRMED, ClaimVerdict.VIOLATED, ClaimVerdict.UNMET, ClaimVerdict.ADVISED, ClaimVerdict.LIFTED,
           ClaimVerdict.NOT_OBSERVED, ClaimVerdict.NOT_APPLICABLE)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Attestation:
    """A person's answer about one claim."""

    claim: str
    answer: ClaimVerdict
    who: str
    when: datetime.date
    evidence: str

    def __str__(self) -> str:
        """Return ``attested by jane on 2026-11-20: ticket 4711``."""
        return f"attested by {self.who} on {self.when}: {self.evidence}"


def load(path: Path, claims: Mapping[str, Claim], today: datetime.date) -> dict[str, Attestation]:
    """Return the attestations of a file by claim.

    Raise UsageProblem, in one line with the entry, if the file is unreadable, if a test decides the
    claim, if the answer is no verdict, or if the date is in the future.
    """
    found: dict[str, Attestation] = {}
    for where, entry in entries.read(path, "attestations", "answers"):
        attestation = _attestation(entry, where, claims, today)
        entries.refuse(
            where, (attestation.claim in found, f"{attestation.claim} is answered twice")
        )
        found[attestation.claim] = attestation
    return found


def _attestation(
    entry: Any, where: str, claims: Mapping[str, Claim], today: datetime.date
) -> Attestation:
    is_whole = (
        isinstance(entry, dict) and set(map(str, entry)) == set(FIELDS) and all(entry.values())
    )
    entries.refuse(where, (not is_whole, f"expected {', '.join(FIELDS)}, each with a value"))
    ident = str(entry["claim"])
    when = entry["when"]
    claim = claims.get(ident)
    entries.refuse(
        where,
        (claim is None, f"the catalog has no claim {ident}"),
        (
            claim and claim.isolation.kind is not IsolationKind.MANUAL,
            f"{ident} is decided by tests, not by attestation",
        ),
    )
    entries.refuse(
        f"{where} ({ident})",
        (
            type(when) is not datetime.date or when > today,
            f"field when must be a date that is not in the future: {when!r}",
        ),
        (
            str(entry["answer"]) not in map(str, ANSWERS),
            f"the answer must be one of {', '.join(map(str, ANSWERS))}",
        ),
    )
    answer = ClaimVerdict(str(entry["answer"]))
    evidence = " ".join(str(entry["evidence"]).split())
    return Attestation(
        claim=ident, answer=answer, who=str(entry["who"]), when=when, evidence=evidence
    )
