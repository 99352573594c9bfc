# SPDX-License-Identifier: Apache-2.0
"""A cell of a world and the result of its path. A world is a set of policies; a cell is a pair of
its pods (seats) with protocol and port."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from conformance.expect.engine.answered import as_wanted
from conformance.expect.engine.decide import Held, Wrong
from conformance.expect.engine.path import Try
from conformance.expect.outcome import Outcome
from conformance.model.decision import Side
from conformance.policy.oracle.oracle import Decision, Verdict
from conformance.policy.worlds import Cell, Key

AGREED = 3
"""The number of newest attempts that must agree on a difference."""


@dataclass(eq=False)
class CellResult:
    """A cell, and the result of its path."""

    cell: Cell
    outcome: Outcome
    again: Outcome | None = None
    """The result of the cell's path when the path was probed again from rest, if the first result
    was a difference."""
    peers: Sequence["CellResult"] = field(default=(), repr=False)
    """The cells that were probed together with this cell."""

    @property
    def want(self) -> bool:
        """Return whether the cell's path should be open."""
        return self.outcome.path.want

    @property
    def row(self) -> tuple[Try, ...]:
        """Return the attempts that show the expected result; empty if the cell is not as
        expected."""
        return self.outcome.standing.row if isinstance(self.outcome.standing, Held) else ()

    @property
    def is_late(self) -> bool:
        """Return whether the cell's first attempt did not show the expected result."""
        return not self.row or self.row[0] is not self.outcome.path.tries[0]

    @property
    def rule(self) -> str:
        """Return the rule that decides the cell, in the words of the oracle."""
        decisions = self.cell.decisions
        deciding = (
            item
            for item in decisions
            if item.verdict is self.cell.expected and (item.policy or item.tier)
        )
        return str(next(deciding, decisions[0]))

    @property
    def side(self) -> Side:
        """Return the end that closes the cell, source or target; ``both`` if both ends close it, or
        neither does."""
        return _closing_end(self.cell.decisions)

    @property
    def stale_side(self) -> Side:
        """Return the end that the edit is about: the end that closes the cell now, or that closed
        it before. Return ``both`` if this is not a single end."""
        return _closing_end((self.want and self.cell.before) or self.cell.decisions)


def _closing_end(decisions: Sequence[Decision]) -> Side:
    """Return the end that denies; ``both`` if both ends deny, or neither does."""
    source, target = (item.verdict is Verdict.DENIED for item in decisions)
    if source is target:
        return "both"
    return "source" if source else "target"


def differs(outcome: Outcome) -> bool:
    """Return whether the newest attempts agree that the path has the opposite of its expected
    state."""
    newest = outcome.observations[-AGREED:]
    agreed = len(newest) == AGREED and all(
        as_wanted(observation, not outcome.path.want) for observation in newest
    )
    return isinstance(outcome.standing, Wrong) and agreed


def changed_cells(cells: Sequence[Cell], past: Sequence[CellResult]) -> set[Key]:
    """Return the cells whose expected result an edit changes."""
    before = {result.cell.key: result.cell.expected for result in past}
    return {cell.key for cell in cells if before.get(cell.key, cell.expected) is not cell.expected}


def closed_cells(asked: Sequence[CellResult]) -> list[CellResult]:
    """Return the cells that should be closed."""
    return [result for result in asked if not result.want]


def not_held(asked: Sequence[CellResult]) -> list[CellResult]:
    """Return the cells that are not as expected."""
    return [result for result in asked if not result.outcome.held]


def last_agreement(asked: Sequence[CellResult]) -> float:
    """Return the seconds until the last of these paths was as expected; 0: none was as expected."""
    return max((result.row[0].at for result in asked if result.row), default=0.0)
