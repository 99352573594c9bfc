# SPDX-License-Identifier: Apache-2.0
"""Waivers: exceptions that a release manager accepts for a gate, with owner, reason and expiry
date.

A YAML list of ``claim``, ``verdicts``, ``reason``, ``link``, ``owner``, ``expires`` (a date) and,
to narrow a waiver, ``part`` or ``build``. Reports show a waived claim as waived, never as green.
INCONCLUSIVE cannot be waived, since nobody knows which fault the waiver would hide.
"""

import datetime
import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.errors import UsageProblem
from conformance.model.claim import ACTIVE_HALF
from conformance.model.verdict import ClaimVerdict
from conformance.qualify import entries
from conformance.qualify.sets import suite_parts

REQUIRED = ("claim", "verdicts", "reason", "link", "owner", "expires")
OPTIONAL = ("part", "build")
BUILD = re.compile(r"\d{5}( before \.\d+)?")
"""Matches the name of a Windows build in decisions (:func:`conformance.model.builds.build_name`).
"""
NAMED = 8
"""The number of a claim's parts that a message names if the waiver's part does not exist."""
NEVER = (ClaimVerdict.INCONCLUSIVE, ClaimVerdict.CONFIRMED)
"""Verdicts that cannot be waived: INCONCLUSIVE decides nothing, and CONFIRMED needs no waiver."""


@dataclass(frozen=True, kw_only=True)
class Waiver:
    """An accepted exception."""

    claim: str
    verdicts: tuple[ClaimVerdict, ...]
    reason: str
    link: str
    owner: str
    expires: datetime.date
    """The last day of the waiver, UTC."""
    part: str = ""
    """The only part of the claim that is waived; empty: all parts."""
    build: str = ""
    """The only Windows build for which the waiver holds; empty: all builds."""

    def covers(self, claim: str, verdict: ClaimVerdict, *, part: str, build: str) -> bool:
        """Return whether the waiver accepts this verdict of a claim's part on a Windows build."""
        return (
            claim == self.claim
            and verdict in self.verdicts
            and self.part in ("", part)
            and self.build in ("", build)
        )

    def __str__(self) -> str:
        """Return ``VXLAN-9 VIOLATED, waived by jane until 2026-12-31: reason (link)``."""
        where = "".join(f" of {item}" for item in (self.part, self.build) if item)
        words = " or ".join(map(str, self.verdicts))
        return f"{self.claim}{where} {words}, waived by {self.owner} until {self.expires}: {self.reason} ({self.link})"


def load(path: Path, known: Mapping[str, Any], today: datetime.date) -> tuple[Waiver, ...]:
    """Return the waivers of a file. ``known``: claims by id.

    Raise UsageProblem, in one line with the entry, if the file is unreadable, a claim or verdict is
    unknown, a field is missing, or a waiver has expired.
    """
    found = entries.read(path, "waivers", "waivers")
    return tuple(_waiver(entry, where, known, today) for where, entry in found)


def _check_names(entry: Any, where: str) -> None:
    """Raise UsageProblem if an entry lacks a required field or has an unknown field."""
    if not isinstance(entry, dict):
        raise UsageProblem(f"{where}: expected a mapping with {', '.join(REQUIRED)}")
    missing = [name for name in REQUIRED if not entry.get(name)]
    strange = [str(name) for name in entry if name not in (*REQUIRED, *OPTIONAL)]
    problems = [f"lacks {', '.join(missing)}"] if missing else []
    if strange:
        problems.append(f"has unknown keys {', '.join(strange)}")
    if problems:
        raise UsageProblem(f"{where}: {' and '.join(problems)}")


def _waiver(entry: Any, where: str, known: Mapping[str, Any], today: datetime.date) -> Waiver:
    _check_names(entry, where)
    claim = str(entry["claim"])
    entries.refuse(where, (claim not in known, f"the catalog has no claim {claim}"))
    where = f"{where} ({claim})"
    expires = entry["expires"]
    part = str(entry.get("part") or "")
    build = str(entry.get("build") or "")
    parts = [*(entry.part for entry in suite_parts().get(claim, ()) if entry.part), ACTIVE_HALF]
    near = ", ".join(difflib.get_close_matches(part, parts, NAMED, 0))
    entries.refuse(
        where,
        (
            type(expires) is not datetime.date,
            f"expires must be a date such as 2026-12-31: {expires!r}",
        ),
        (
            part and part not in parts,
            f"the suite has no part {part!r} of the claim; the nearest: {near}",
        ),
        (
            build and not BUILD.fullmatch(build),
            f"build must be a Windows build such as 20348, or 17763 before .1432: {build!r}",
        ),
    )
    entries.refuse(
        where,
        (expires < today, f"the waiver expired on {expires}; renew it with a reason, or remove it"),
    )
    return Waiver(
        claim=claim,
        verdicts=_verdicts(entry["verdicts"], where),
        reason=" ".join(str(entry["reason"]).split()),
        link=str(entry["link"]),
        owner=str(entry["owner"]),
        expires=expires,
        part=part,
        build=build,
    )


def _verdicts(words: Any, where: str) -> tuple[ClaimVerdict, ...]:
    found = []
    for word in words if isinstance(words, list) else [words]:
        try:
            verdict = ClaimVerdict(str(word))
        except ValueError:
            raise UsageProblem(f"{where}: {word!r} is not a verdict") from None
        if verdict in NEVER:
            raise UsageProblem(f"{where}: {verdict} cannot be waived")
        found.append(verdict)
    return tuple(found)


def waiver_for(
    waivers: Sequence[Waiver], claim: str, verdict: ClaimVerdict, *, part: str = "", build: str = ""
) -> Waiver | None:
    """Return the first waiver that accepts a verdict."""
    return next(
        (waiver for waiver in waivers if waiver.covers(claim, verdict, part=part, build=build)),
        None,
    )
