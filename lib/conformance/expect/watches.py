# SPDX-License-Identifier: Apache-2.0
"""Chooses denials to watch for longer than a decision needs: one per node, direction and run.

A denial may end some seconds after its pods were programmed, or may hold only for first SYNs;
during a decision, such a denial looks like a lasting denial. A node's data plane causes such
faults, so watching one path per node and direction is enough. The run's standing watch watches this
path if it observes such a denial, or may soon observe it. Otherwise, the first test with such a
denial watches its path.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from conformance.expect.engine.decide import Held, Standing
from conformance.expect.engine.path import Path
from conformance.model.attempt import Kind
from conformance.model.decision import Side
from conformance.settings import Timings


class Turns(Protocol):
    """The turns to watch denials. The run's processes share the turns."""

    def take(self, name: str) -> bool:
        """Try to take the turn. Return whether the caller has it now. No other process can take it
        until :meth:`give_back`."""

    def give_back(self, name: str) -> None:
        """Give up the turn, so that another process can take it."""


def turn_of(enforced_at: Side, node: str) -> str:
    """Return the name of the turn to watch a node's denials: of packets to its pods (``target``),
    or from its pods (``source``)."""
    return f"denial-{enforced_at}-{node}"


def choose(
    paths: Iterable[Path], turns: Turns, timings: Timings, enforced_at: Side
) -> dict[Path, str]:
    """Choose closed TCP paths to watch; return the turn of each.

    ``enforced_at``: the end whose node enforces the policies. If both ends may enforce them, no
    path is chosen, since it is not known which end closed it.
    """
    chosen: dict[Path, str] = {}
    for path in paths:
        node = _enforcing(path, enforced_at)
        if (
            node
            and path.attempt.kind is Kind.TCP
            and turns.take(turn := turn_of(enforced_at, node))
        ):
            give_up = max(
                path.attempt.give_up_after, timings.of(path.attempt.source.os).syn_repeated
            )
            path.attempt = replace(path.attempt, give_up_after=give_up)
            path.rule = replace(path.rule, watch=timings.run.denial_watch)
            chosen[path] = turn
    return chosen


@contextmanager
def watching(
    paths: Sequence[Path], turns: Turns, timings: Timings, enforced_at: Side
) -> Iterator[list[Standing]]:
    """Watch the paths of :func:`choose`, and record how they ended.

    A turn is given back if its denial did not hold, or was not watched to the end.
    """
    chosen = choose(paths, turns, timings, enforced_at)
    standings = list[Standing]()
    try:
        yield standings
    finally:
        ended = dict(zip(paths, standings, strict=False))
        for path, turn in chosen.items():
            standing = ended.get(path)
            if not (isinstance(standing, Held) and standing.watched):
                turns.give_back(turn)


def _enforcing(path: Path, enforced_at: Side) -> str:
    """Return the node that enforces policy for a closed path; an empty string if the path is open,
    or if either end may enforce it."""
    target = path.attempt.target
    if path.want or target is None or enforced_at == "both":
        return ""
    if enforced_at == "source":
        return path.attempt.source.node
    nodes = {backend.node for backend in target.backends}
    return nodes.pop() if len(nodes) == 1 else ""
