# SPDX-License-Identifier: Apache-2.0
"""The known issues of releases (``known-issues.yaml``). They may explain a VIOLATED claim, but
change no verdict."""

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
from conformance.catalog.loading import LOADER, CatalogError, catalog, conditions
from conformance.model.decision import Decision
from conformance.model.endpoint import OS
from conformance.model.facts import Facts

DATA = Path(__file__).with_name("known-issues.yaml")
Effect = Literal["opens", "closes", "opens or closes", "stops"]
_TEXTS = ("name", "since", "what", "workaround", "heals", "source")
_CONDITIONS = {
    *("modes", "ipam", "datastores", "installs", "platforms", "cnis"),
    *("calico", "kubernetes", "windows_builds"),
}
_FIELDS = {*_TEXTS, *_CONDITIONS, "claims", "effect", "symptoms", "at", "on_linux"}


@dataclass(frozen=True, kw_only=True)
class KnownIssue:
    """A defect that was shown in a release."""

    name: str
    claims: Mapping[str, tuple[str, ...]]
    """The claims that the issue may explain, each with its parts, in which ``*`` stands for any
    text. Empty: the issue may explain any claim with the symptom."""
    applies: Conditions
    """The clusters, versions and builds that have the issue. Only the nodes of the decision count.
    """
    since: str
    """The versions that are known to have the issue, in words: ``since v3.30.0``."""
    effect: Effect
    symptoms: tuple[tuple[str, str, str], ...]
    """Regular expressions that match the expected result, the observed result, and a part of the
    reason."""
    at: OS | None
    """The operating system of the node that enforces the policy. None: the issue is not about a
    policy, and one end of the path is a Windows node."""
    on_linux: bool
    """The defect is on Windows nodes, but its symptom appears on Linux nodes, which depend on them.
    """
    what: str
    workaround: str
    heals: str
    source: str

    def __str__(self) -> str:
        """Return the line that reports print under a VIOLATED claim."""
        return (
            f"may be known upstream {self.since}: {self.what}; workaround: {self.workaround}; heals: {self.heals} "
            f"({self.source})"
        )

    def _has_symptoms(self, decision: Decision, told: str) -> bool:
        """Return whether all observations of a decision are symptoms of this issue."""
        reason = f"{decision.reason}\n{told}"
        fitting = [symptom for symptom in self.symptoms if re.search(symptom[2], reason)]
        return bool(decision.symptoms) and all(
            any(all(map(re.fullmatch, symptom[:2], observed)) for symptom in fitting)
            for observed in decision.symptoms
        )

    def fits(self, decision: Decision, facts: Facts, told: str = "") -> bool:
        """Return whether this issue fits the decision's claim and part, the versions of its nodes,
        and all its observations.

        ``told``: the first line of the test's failure.
        """
        parts = self.claims.get(decision.claim, ()) if self.claims else ("*",)
        is_part = any(fnmatchcase(decision.part, part) for part in parts)
        if not is_part or not self._has_symptoms(decision, told):
            return False
        ends = decision.enforced if self.at else (decision.source, decision.target)
        # a reading of the whole cluster names no node, so the issue may be on any node
        of_any = not any(ends) or (self.on_linux and not decision.source)
        named = self.at or not of_any
        nodes = tuple(
            node for node in facts.by_os(self.at or "windows") if not named or node.name in ends
        )
        return any(isinstance(met(self.applies, facts, node), Applies) for node in nodes)


@functools.cache
def known_issues() -> tuple[KnownIssue, ...]:
    """Return all known issues. Raise CatalogError for an entry that names no claim, or that
    cannot be read.
    """
    return load(DATA.read_text(encoding="utf-8"))


def load(text: str) -> tuple[KnownIssue, ...]:
    """Return the known issues of a YAML text, see :func:`known_issues`."""
    return tuple(_issue(entry) for entry in yaml.load(text, LOADER))


def _problem(entry: Mapping[str, Any]) -> str:
    """Return the problem of an entry, or an empty string if the entry is valid."""
    if strange := sorted({*entry} - _FIELDS):
        return ", ".join(strange)
    if missing := [field for field in (*_TEXTS, "symptoms") if not entry.get(field)]:
        return ", ".join(f"no {field}" for field in missing)
    if unknown := [claim for claim in entry.get("claims") or () if claim not in catalog()]:
        return f"no claim {', '.join(unknown)}"
    if entry.get("effect") not in get_args(Effect) or entry.get("at") not in (None, *get_args(OS)):
        return f"effect must be {' or '.join(get_args(Effect))}, and at must be linux or windows"
    return ""


def _issue(entry: Mapping[str, Any]) -> KnownIssue:
    if problem := _problem(entry):
        name = entry.get("name", "an issue without a name")
        raise CatalogError(f"known-issues.yaml: {name}: {problem}")
    return KnownIssue(
        **{field: " ".join(entry[field].split()) for field in _TEXTS},
        claims={claim: tuple(parts) for claim, parts in (entry.get("claims") or {}).items()},
        applies=conditions({field: entry[field] for field in _CONDITIONS & {*entry}}),
        effect=entry["effect"],
        symptoms=tuple(
            (symptom["expected"], symptom["observed"], symptom.get("reason", ""))
            for symptom in entry["symptoms"]
        ),
        at=entry.get("at"),
        on_linux=entry.get("on_linux", False),
    )
