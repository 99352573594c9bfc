# SPDX-License-Identifier: Apache-2.0
"""Claims for readers: all claims as a list, or single claims with all their fields."""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.catalog.claims import Claim, IsolationKind
from conformance.catalog.loading import Catalog, catalog, field_evidence
from conformance.catalog.suite_tests import suite_tests
from conformance.errors import UsageProblem
from conformance.model.counted import counted
from conformance.model.meant import known_as, meant

TEXTS = {
    "sources": "sources",
    "applies": "applies to",
    "verify": "check",
    "holds": "holds if",
    "fails": "fails if",
    "danger": "danger",
    "changes": "changes",
    "sets": "sets",
    "evidence": "real nodes",
    "tests": "tests",
    "run": "run it",
}
"""The fields of an explained claim, each with the label that is printed before it."""


def named(words: Sequence[str]) -> list[Claim]:
    """Return the claims with these ids, in upper or lower case; without an id, all claims. Raise
    UsageProblem."""
    claims: Catalog = catalog()
    found = []
    for word in words:
        claim = known_as(word, claims)
        if claim is None:
            raise UsageProblem(
                f"claims {word}: no such claim"
                f"{meant(word, claims) or '; calico-conformance claims lists all'}"
            )
        found.append(claims[claim])
    return found or list(claims.values())


def explained(
    claims: Sequence[Claim], suites: Path, sets: Mapping[str, Collection[str]], command: str
) -> list[dict[str, Any]]:
    """Return claims in their JSON form.

    ``suites``: folder of the tests; ``sets``: the claims of each set that a gate requires;
    ``command``: the command that starts a run.
    """
    return [
        {
            "id": claim.id,
            "area": claim.area,
            "statement": claim.statement,
            "kind": str(claim.kind),
            "modality": str(claim.modality),
            "tags": sorted(claim.tags),
            "sources": [f"{source}: {source.url}" for source in claim.sources],
            "applies": str(claim.applies) or "every cluster",
            "verify": claim.verify,
            "holds": claim.holds,
            "fails": claim.fails,
            "danger": claim.danger,
            "changes": _changes(claim),
            "sets": [name for name, ids in sets.items() if claim.id in ids],
            "evidence": [
                f"{part or 'all of it'}: {', '.join(files)}"
                for named, files in field_evidence().items()
                for shown, _, part in [named.partition(": ")]
                if shown == claim.id
            ],
            "tests": [test.place for test in suite_tests(suites) if claim.id in test.claims],
            "run": f"{command} --claim {claim.id}",
        }
        for claim in claims
    ]


def _changes(claim: Claim) -> str:
    """Return a text about how a claim's tests disturb other tests. Return an empty string if the
    tests run at the same time as other tests."""
    kinds = [isolation for isolation in (claim.isolation, claim.active) if isolation]
    return ", ".join([str(each) for each in kinds if each.kind is not IsolationKind.PARALLEL])


def as_list(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each claim, by area."""
    for area, of_area in itertools.groupby(found, lambda claim: str(claim["area"])):
        yield from ("", area)
        yield from (
            f"  {claim['id']:9} {tested(claim):8} {claim['statement']}" for claim in of_area
        )
    yield from ("", f"{counted(len(found), 'claim')}; calico-conformance claims ID explains one")


def tested(claim: Mapping[str, Any]) -> str:
    """Return the number of a claim's test functions, or a text that a person decides the claim."""
    by_hand = IsolationKind.MANUAL in claim["changes"] and not claim["tests"]
    return "by hand" if by_hand else counted(len(claim["tests"]), "test")


def as_text(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield all fields of each claim, as lines of text."""
    for claim in found:
        can_happen = ", can happen" if claim["modality"] != "always" else ""
        yield f"{claim['id']} ({claim['kind']}{can_happen}): {claim['statement']}"
        for name, word in _known(claim):
            first, *more = claim[name] if isinstance(claim[name], list) else [claim[name]]
            yield from (f"  {word:11} {first}", *(f"  {'':11} {each}" for each in more))


def as_markdown(found: Sequence[Mapping[str, Any]], *, whole: bool) -> Iterator[str]:
    """Yield a table of claims, or a section for each if ``whole``."""
    if not whole:
        yield from ("| claim | kind | tests | statement |", "| --- | --- | --- | --- |")
        for claim in found:
            cells = (claim["id"], claim["kind"], tested(claim), claim["statement"])
            yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
        return
    for claim in found:
        yield from (f"## {claim['id']} ({claim['kind']})", "", claim["statement"], "")
        for name, word in _known(claim):
            entries = claim[name] if isinstance(claim[name], list) else [claim[name]]
            yield f"- **{word}** {'; '.join(entries)}"
        yield ""


def _known(claim: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, word) for name, word in TEXTS.items() if claim[name]]
