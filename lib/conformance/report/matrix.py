# SPDX-License-Identifier: Apache-2.0
"""The matrix of the four directions (between Linux and Windows clients and servers), one row per
path, made from the parts of results."""

import re
from collections.abc import Mapping, Sequence

from conformance.model.claim import ClaimResult, ClaimVerdict
from conformance.verdicts.claims import worst

DIRECTIONS = ("linux->linux", "linux->windows", "windows->linux", "windows->windows")
_CELL = re.compile(r"(?P<direction>(?:linux|windows)->(?:linux|windows))(?:\s+(?P<path>.+))?")

Matrix = dict[str, dict[str, ClaimVerdict]]
"""The worst verdict of each path, by direction."""


def direction_matrix(results: Sequence[ClaimResult]) -> Matrix:
    """Return rows in order of appearance. Leave out results whose part names no direction."""
    cells: dict[str, dict[str, set[ClaimVerdict]]] = {}
    for result in results:
        match = _CELL.fullmatch(result.part)
        if match:
            row = cells.setdefault(match["path"] or "any path", {})
            row.setdefault(match["direction"], set()).add(result.verdict)
    return {
        path: {direction: worst(found) for direction, found in row.items()}
        for path, row in cells.items()
    }


def render(matrix: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return lines of text with aligned columns; empty if there is nothing to show."""
    if not matrix:
        return []
    head = ["client -> server", "L->L", "L->W", "W->L", "W->W"]
    rows = [
        [path, *(str(row[direction]) if direction in row else "-" for direction in DIRECTIONS)]
        for path, row in matrix.items()
    ]
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    ]
