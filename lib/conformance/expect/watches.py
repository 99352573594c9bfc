# SPDX-License-Identifier: Apache-2.0
"""Which denials are watched for longer than they need to be decided: one per node, direction and run.

A denial that wears off some seconds after its pods were programmed, or that holds for first SYNs alone, looks like one
that lasts to whoever looks for as long as a decision takes.  What makes it is a node's data plane, so one per node and
direction shows it: the run's standing watch where that sees the denial, or may soon, and else the first test.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from conformance.expect.engine.decide import Held, Path, Standing
from conformance.model.attempt import Kind
from conformance.model.decision import Side
from conformance.settings import Timings


class Turns(Protocol):
    """What the processes of a run share: who watches what."""

    def take(self, name: str) -> bool:
        """Whether it is the caller's now; it is nobody else's then."""

    def give_back(self, name: str) -> None:
        """Somebody else may take it."""


def turn_of(enforced_at: Side, node: str) -> str:
    """The turn of watching what a node keeps from its pods (``target``), or from leaving them (``source``)."""
    return f"denial-{enforced_at}-{node}"


def choose(
    paths: Iterable[Path], turns: Turns, timings: Timings, enforced_at: Side
) -> dict[Path, str]:
    """Make of some closed TCP paths ones that are watched; returns the turn of each.

    ``enforced_at``: whose node the policies are enforced on; where both may be, nothing shows whose denial it is.
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
    """Watch what is to be :func:`choose`-n, and take how the paths ended.

    What did not last, so that all whose denials do not say so, or was not watched to the end is left to others.
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
    """The one node that enforces policy for a closed path; empty: it is open, or there is not one."""
    target = path.attempt.target
    if path.want or target is None or enforced_at == "both":
        return ""
    if enforced_at == "source":
        return path.attempt.source.node
    nodes = {backend.node for backend in target.backends}
    return nodes.pop() if len(nodes) == 1 else ""
