# SPDX-License-Identifier: Apache-2.0
"""What is known of releases (``known-issues.yaml``): it explains a VIOLATED claim, and changes no verdict."""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from conformance.catalog.applicability import Applies, met
from conformance.catalog.claims import Conditions
from conformance.catalog.loading import CatalogError, catalog, conditions
from conformance.model.decision import Decision, Symptom
from conformance.model.endpoint import OS
from conformance.model.facts import Facts

DATA = Path(__file__).with_name("known-issues.yaml")
Effect = Literal["opens", "closes", "opens or closes", "stops"]
_TEXTS = ("name", "since", "what", "workaround", "heals", "source")
_CONDITIONS = {
    *("modes", "ipam", "datastores", "installs", "platforms", "cnis"),
    *("calico", "kubernetes", "windows_builds"),
}
_FIELDS = {*_TEXTS, *_CONDITIONS, "claims", "effect", "symptoms", "at"}


@dataclass(frozen=True, kw_only=True)
class KnownIssue:
    """A defect that somebody has shown in a release."""

    name: str
    claims: Mapping[str, tuple[str, ...]]
    """Claim to its parts, with ``*`` for any text."""
    applies: Conditions
    """Clusters, versions and builds; of the nodes of a decision alone."""
    since: str
    """``since v3.30.0``: where it is known, in words."""
    effect: Effect
    symptoms: tuple[Symptom, ...]
    """What is to be seen and what is seen, two regular expressions each."""
    at: OS | None
    """The system on whose node the policy is enforced; None: it is about no policy, and a Windows node is an end."""
    what: str
    workaround: str
    heals: str
    source: str

    def __str__(self) -> str:
        """The line under a VIOLATED claim."""
        return (
            f"may be known upstream {self.since}: {self.what}; workaround: {self.workaround}; heals: {self.heals} "
            f"({self.source})"
        )

    def fits(self, decision: Decision, facts: Facts) -> bool:
        """Whether claim, part, versions of the nodes and all that was seen are as of this issue."""
        parts = self.claims.get(decision.claim, ())
        if not decision.symptoms or not any(fnmatchcase(decision.part, part) for part in parts):
            return False
        seen = all(
            any(all(map(re.fullmatch, symptom, told)) for symptom in self.symptoms)
            for told in decision.symptoms
        )
        ends = decision.enforced if self.at else (decision.source, decision.target)
        named = (
            any(ends) or self.at
        )  # what was read of the whole cluster has no end, and may be of any node
        nodes = tuple(
            node for node in facts.by_os(self.at or "windows") if not named or node.name in ends
        )
        return seen and any(isinstance(met(self.applies, facts, node), Applies) for node in nodes)


@functools.cache
def known_issues() -> tuple[KnownIssue, ...]:
    """All of them.  Raises CatalogError for an entry that names no claim, or that cannot be read."""
    return load(DATA.read_text(encoding="utf-8"))


def load(text: str) -> tuple[KnownIssue, ...]:
    """As :func:`known_issues`, from a text."""
    return tuple(_issue(entry) for entry in yaml.safe_load(text))


def _problem(entry: Mapping[str, Any]) -> str:
    """Return what is wrong with an entry; empty where nothing is."""
    if strange := sorted({*entry} - _FIELDS):
        return ", ".join(strange)
    if missing := [field for field in (*_TEXTS, "claims", "symptoms") if not entry.get(field)]:
        return ", ".join(f"no {field}" for field in missing)
    if unknown := [claim for claim in entry["claims"] if claim not in catalog()]:
        return f"no claim {', '.join(unknown)}"
    if entry.get("effect") not in get_args(Effect) or entry.get("at") not in (None, *get_args(OS)):
        return f"effect is {', '.join(get_args(Effect))}; at is linux or windows"
    return ""


def _issue(entry: Mapping[str, Any]) -> KnownIssue:
    if problem := _problem(entry):
        name = entry.get("name", "an issue without a name")
        raise CatalogError(f"known-issues.yaml: {name}: {problem}")
    return KnownIssue(
        **{field: " ".join(entry[field].split()) for field in _TEXTS},
        claims={claim: tuple(parts) for claim, parts in entry["claims"].items()},
        applies=conditions({field: entry[field] for field in _CONDITIONS & {*entry}}),
        effect=entry["effect"],
        symptoms=tuple((told["expected"], told["observed"]) for told in entry["symptoms"]),
        at=entry.get("at"),
    )
