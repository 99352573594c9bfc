# SPDX-License-Identifier: Apache-2.0
"""Decisions between nodes as a grid: a row for each client's node, a column for each server's
node."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.model.by_key import by_key
from conformance.model.verdict import PRECEDENCE

MARKS = {
    "CONFIRMED": "\u2713",
    "NOT_OBSERVED": "\u2713",
    "VIOLATED": "\u2715",
    "INCONCLUSIVE": "?",
    "NOT_RUN": "\u2013",
    "NOT_APPLICABLE": "\u00b7",
}
"""Symbols of verdicts, so that no reader depends on colours; all other verdicts have ``!``."""
BEYOND = "beyond"
"""The column of servers that run on no node of the cluster."""
_ORDER = tuple(map(str, PRECEDENCE))


@dataclass(frozen=True)
class Cell:
    """The worst verdict between two nodes."""

    verdict: str
    title: str
    """The pair of nodes, and the numbers of its decisions; empty: all decisions are as expected."""


@dataclass(frozen=True)
class Grid:
    """Cells by client's node and server's node; None: nothing was decided between them."""

    servers: Sequence[str]
    rows: Mapping[str, Sequence[Cell | None]]

    @property
    def has_pairs(self) -> bool:
        """Return whether the grid has more than one pair of nodes."""
        return len(self.rows) > 1 or len(self.servers) > 1


def mark(verdict: str) -> str:
    """Return the symbol of a verdict."""
    return MARKS.get(verdict, "!")


def grid(decisions: Iterable[Mapping[str, Any]], nodes: Sequence[str]) -> Grid:
    """Return the grid of all decisions with a client. ``nodes``: the cluster's nodes, in their
    order."""
    cells = by_key(
        ((decision["source"], decision["target"] or BEYOND), decision["verdict"])
        for decision in decisions
        if decision["source"]
    )
    places = {name: number for number, name in enumerate(nodes)}

    def place(name: str) -> tuple[bool, int, str]:
        return name == BEYOND, places.get(name, len(places)), name

    clients = sorted({client for client, _ in cells}, key=place)
    servers = sorted({server for _, server in cells}, key=place)
    return Grid(
        servers=servers,
        rows={
            client: [_cell(client, server, cells.get((client, server))) for server in servers]
            for client in clients
        },
    )


def _cell(client: str, server: str, verdicts: Sequence[str] | None) -> Cell | None:
    if not verdicts:
        return None
    counts = Counter(verdicts)
    found = [verdict for verdict in _ORDER if counts[verdict]]
    numbers = ", ".join(f"{counts[verdict]} {verdict}" for verdict in found)
    is_good = mark(found[0]) == MARKS["CONFIRMED"]
    return Cell(found[0], "" if is_good else f"{client} to {server}: {numbers}")
