"""Attestations: what a person answers about claims that no program can decide.

A YAML list of ``claim``, ``answer`` (a verdict), ``who``, ``when`` (a date) and ``evidence`` (a link or a sentence).
"""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from conformance.catalog import Claim, IsolationKind
from conformance.errors import UsageProblem
from conformance.model.verdict import ClaimVerdict

FIELDS = ("claim", "answer", "who", "when", "evidence")
ANSWERS = (ClaimVerdict.CONFIRMED, ClaimVerdict.VIOLATED, ClaimVerdict.UNMET, ClaimVerdict.ADVISED, ClaimVerdict.LIFTED,
           ClaimVerdict.NOT_OBSERVED, ClaimVerdict.NOT_APPLICABLE)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Attestation:
    """One answer."""

    claim: str
    answer: ClaimVerdict
    who: str
    when: datetime.date
    evidence: str

    def __str__(self) -> str:
        """``attested by jane on 2026-11-20: ticket 4711``."""
        return f"attested by {self.who} on {self.when}: {self.evidence}"


def load(path: Path, claims: Mapping[str, Claim], today: datetime.date) -> dict[str, Attestation]:
    """Attestations of a file by claim.

    Raises UsageProblem, one line with the entry: unreadable, a claim that a test decides, no verdict, a date to come.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        why = getattr(error, "strerror", None) or getattr(error, "problem", None) or error
        raise UsageProblem(f"attestations {path}: cannot be read: {why}") from None
    if not isinstance(content, list):
        raise UsageProblem(f"attestations {path}: expected a list of answers")
    found: dict[str, Attestation] = {}
    for number, entry in enumerate(content, 1):
        attestation = _attestation(entry, f"attestations {path}, entry {number}", claims, today)
        if attestation.claim in found:
            raise UsageProblem(
                f"attestations {path}, entry {number}: {attestation.claim} is answered twice"
            )
        found[attestation.claim] = attestation
    return found


def _attestation(
    entry: Any, where: str, claims: Mapping[str, Claim], today: datetime.date
) -> Attestation:
    if (
        not isinstance(entry, dict)
        or set(map(str, entry)) != set(FIELDS)
        or not all(entry.values())
    ):
        raise UsageProblem(f"{where}: expected {', '.join(FIELDS)}, each with a value")
    ident = str(entry["claim"])
    when = entry["when"]
    claim = claims.get(ident)
    if claim is None:
        raise UsageProblem(f"{where}: the catalog has no claim {ident}")
    if claim.isolation.kind is not IsolationKind.MANUAL:
        raise UsageProblem(f"{where}: {ident} is decided by tests, not by attestation")
    if not isinstance(when, datetime.date) or isinstance(when, datetime.datetime) or when > today:
        raise UsageProblem(f"{where} ({ident}): when is no date that has been: {when!r}")
    if str(entry["answer"]) not in map(str, ANSWERS):
        raise UsageProblem(
            f"{where} ({ident}): the answer is none of {', '.join(map(str, ANSWERS))}"
        )
    answer = ClaimVerdict(str(entry["answer"]))
    evidence = " ".join(str(entry["evidence"]).split())
    return Attestation(
        claim=ident, answer=answer, who=str(entry["who"]), when=when, evidence=evidence
    )
