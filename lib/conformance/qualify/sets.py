# SPDX-License-Identifier: Apache-2.0
"""Named sets of claims that a gate requires, and the parts of each claim that the suite tests. Both
are data in the folder of the catalog."""

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from conformance.catalog import ALL, Conditions, conditions
from conformance.catalog.loading import LOADER
from conformance.errors import UsageProblem

DATA = Path(__file__).with_name("data")


@dataclass(frozen=True, kw_only=True)
class SuitePart:
    """A part of a claim that the suite tests."""

    part: str
    applies: Conditions = ALL
    """The clusters to which the part applies, among the clusters to which the claim applies."""
    provisional: bool = False
    """True if the part has not been shown on a real cluster yet, so that no gate requires it."""


@dataclass(frozen=True, kw_only=True)
class Demand:
    """A claim that a set requires."""

    claim: str
    parts: tuple[str, ...]
    """The parts that must be decided; a claim without parts has the part ""."""
    only: bool = False
    """True if the set requires only the parts that it names. Otherwise further parts of a run also
    count."""
    unless: tuple[str, ...] = ()
    """Conditions (:attr:`conformance.catalog.NotApplicable.key`) under which NOT_APPLICABLE is
    acceptable."""
    applies: Mapping[str, Conditions] = field(default_factory=dict)
    """The conditions of each part that has any. A cluster need not show a part that does not apply
    to it."""
    provisional: frozenset[str] = frozenset()
    """Parts that are not required; a VIOLATED result of such a part still counts."""


@dataclass(frozen=True, kw_only=True)
class GateSet:
    """The requirements of ``--require NAME``."""

    name: str
    purpose: str
    demands: tuple[Demand, ...]


@dataclass(frozen=True)
class Sets(Mapping[str, GateSet]):
    """All sets of claims that a gate can require, by name."""

    by_name: Mapping[str, GateSet]
    excluded: Mapping[str, str]
    """Claims that have tests but are in no set, each with the reason."""
    digest: str
    """SHA-256 of the requirements, including parts. Gates with equal digests require the same
    claims and parts."""

    def __getitem__(self, name: str) -> GateSet:
        return self.by_name[name]

    def __iter__(self) -> Any:
        """Yield the names of the sets, in the order in which they are written."""
        return iter(self.by_name)

    def __len__(self) -> int:
        return len(self.by_name)

    def named(self, words: str) -> tuple[GateSet, ...]:
        """Return the sets that a list such as ``core,policy`` names. Raise UsageProblem, with the
        known names, for an unknown name."""
        names = [part.strip() for part in words.split(",")]
        for word in names:
            if word not in self.by_name:
                problem = f"there is no set {word!r}" if word else "a name is missing"
                raise UsageProblem(
                    f"--require {words}: {problem}; the sets are {', '.join(self.by_name)}"
                )
        return tuple(self.by_name[word] for word in names)


@functools.cache
def sets() -> Sets:
    """Return the packaged sets."""
    content = yaml.load((DATA / "sets.yaml").read_text(encoding="utf-8"), LOADER)
    parts = suite_parts()
    by_name = {
        name: GateSet(
            name=name,
            purpose=entry["for"],
            demands=tuple(_demand(claim, parts) for claim in entry["claims"]),
        )
        for name, entry in content["sets"].items()
    }
    read = b"\0".join((DATA / name).read_bytes() for name in ("sets.yaml", "parts.yaml"))
    return Sets(
        by_name=by_name,
        excluded=content["excluded"] or {},
        digest=hashlib.sha256(read).hexdigest(),
    )


@functools.cache
def suite_parts() -> Mapping[str, tuple[SuitePart, ...]]:
    """Map each claim to its parts in the suite's tests, from the last collection (parts.yaml)."""
    content = yaml.load((DATA / "parts.yaml").read_text(encoding="utf-8"), LOADER)
    return {claim: tuple(map(_part, parts)) for claim, parts in content.items()}


def _part(entry: Any) -> SuitePart:
    plain = entry if isinstance(entry, dict) else {"part": entry}
    return SuitePart(
        part=plain["part"],
        applies=conditions(plain.get("applies") or {}),
        provisional=plain.get("provisional", False),
    )


def _demand(entry: Any, parts: Mapping[str, tuple[SuitePart, ...]]) -> Demand:
    plain = entry if isinstance(entry, dict) else {"claim": entry}
    claim = plain["claim"]
    known = parts.get(claim, ())
    provisional = frozenset(entry.part for entry in known if entry.provisional)
    return Demand(
        claim=claim,
        parts=tuple(
            part
            for part in plain.get("parts") or (entry.part for entry in known)
            if part not in provisional
        ),
        only="parts" in plain,
        unless=tuple(plain.get("unless") or ()),
        applies={entry.part: entry.applies for entry in known if entry.applies != ALL},
        provisional=provisional,
    )
