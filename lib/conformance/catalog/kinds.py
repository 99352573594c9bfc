# SPDX-License-Identifier: Apache-2.0
"""The expected result of each claim on each kind of healthy cluster: ``kinds.yaml``, generated from
the suite's own proof runs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from conformance.catalog.loading import LOADER, catalog
from conformance.errors import UsageProblem
from conformance.model.meant import known_as, meant

DATA = Path(__file__).with_name("kinds.yaml")


def kinds() -> dict[str, Any]:
    """Return the title of each kind of cluster, and the expected results of claims, by name."""
    known: dict[str, Any] = yaml.load(DATA.read_text(encoding="utf-8"), LOADER)
    return known


def lines(word: str) -> Iterator[str]:
    """Yield a line for each claim on a kind of cluster; without a kind, the list of kinds.  Raise
    UsageProblem."""
    known = kinds()
    if not word:
        width = max(map(len, known))
        yield from (f"{name:{width}}  {entry['title']}" for name, entry in known.items())
        return
    kind = known_as(word, known)
    if kind is None:
        hint = meant(word, known) or f"; the kinds are {', '.join(known)}"
        raise UsageProblem(f"kinds {word}: no such kind{hint}")
    yield f"{kind}: {known[kind]['title']}"
    claims = catalog()
    for claim, said in known[kind]["claims"].items():
        word, _, why = said.partition(": ")
        yield f"  {claim:9} {word:19} {why or claims[claim].statement}"
