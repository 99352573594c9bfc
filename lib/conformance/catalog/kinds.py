# SPDX-License-Identifier: Apache-2.0
"""What each claim says on each kind of cluster in health: ``kinds.yaml``, generated from the suite's own proofs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from conformance.catalog.loading import catalog
from conformance.errors import UsageProblem

DATA = Path(__file__).with_name("kinds.yaml")


def lines(kind: str) -> Iterator[str]:
    """Of a kind a line for each claim; without one the kinds that there are.  Raises UsageProblem."""
    known: dict[str, Any] = yaml.safe_load(DATA.read_text(encoding="utf-8"))
    if not kind:
        yield from (f"{name:16} {entry['title']}" for name, entry in known.items())
        return
    if kind not in known:
        raise UsageProblem(f"--kind {kind}: there are {', '.join(known)}")
    yield f"{kind}: {known[kind]['title']}" + (
        "" if known[kind]["claims"] else "; no profile of the lab is built"
    )
    claims = catalog()
    for claim, said in known[kind]["claims"].items():
        word, _, why = said.partition(": ")
        yield f"  {claim:9} {word:19} {why or claims[claim].statement}"
