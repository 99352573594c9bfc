# SPDX-License-Identifier: Apache-2.0
"""Chooses paths on clusters with too many covered nodes to try all paths at once.

Each ordered pair of nodes belongs to one slice, and in each slice every node has a client and a
server. A test without denials probes all slices, one after another. Denials must all hold at the
same time, so a test with denials probes only one slice, and different tests take different slices.
The same nodes, maximum and number always give the same paths.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import TypeVar

from conformance.expect.engine.pairs import key
from conformance.model.endpoint import Pair, Target

T = TypeVar("T")


@dataclass(frozen=True)
class Crossing:
    """The slices of a run's ordered pairs of nodes, and the slice of a test."""

    nodes: Sequence[str] = ()
    """The covered nodes, in their order."""
    number: int = 0
    """The number of the test; it chooses the slice."""
    most: int = 0
    """The number of ordered pairs of nodes that are tried at once."""
    _place: dict[str, int] = field(init=False, default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        self._place.update({name: place for place, name in enumerate(self.nodes)})

    @cached_property
    def slices(self) -> int:
        """Return the smallest number of slices that have at most ``most`` pairs of nodes each, but
        no more slices than nodes."""
        size = len(self.nodes)
        return next(
            number for number in count(1) if number >= size or _largest(size, number) <= self.most
        )

    def slice_of(self, pair: Pair) -> int:
        """Return the slice of a path; -1 if the path is not between two covered nodes, so that it
        belongs to all slices."""
        source, target = pair
        here = self._place.get(source.node)
        there = self._place.get(_node(target))
        return -1 if here is None or there is None else (there - here) % self.slices

    def sliced(self, items: Sequence[T], pair_of: Callable[[T], Pair]) -> list[list[T]]:
        """Return the items grouped into slices, which are probed one after another."""
        found: dict[int, list[T]] = {}
        for item in items:
            found.setdefault(max(0, self.slice_of(pair_of(item))), []).append(item)
        return [found[number] for number in sorted(found)]

    def sample(self, pairs: Sequence[Pair], known: Collection[tuple[str, str]] = ()) -> list[Pair]:
        """Return the paths of the test's slice, and further paths, so that no kind of path is left
        out.

        The result has at least one path for each client, for each server, and for each combination
        of a client's build and a server's build. This holds for each port and protocol. Further
        paths are taken from the ``known`` paths if possible.
        """
        mine = self.number % self.slices
        chosen = {pair for pair in pairs if self.slice_of(pair) in (-1, mine)}
        lacking = {end for pair in pairs for end in _ends(pair)}
        lacking.difference_update(end for pair in chosen for end in _ends(pair))
        for pair in sorted(pairs, key=lambda pair: key(*pair) not in known) if lacking else ():
            if not lacking.isdisjoint(ends := _ends(pair)):
                chosen.add(pair)
                lacking.difference_update(ends)
        return [pair for pair in pairs if pair in chosen]

    def is_wide(self, pairs: Iterable[Pair]) -> bool:
        """Return whether the paths have more pairs of nodes than are probed at once."""
        if self.slices == 1:
            return False
        return len({(source.node, _node(target)) for source, target in pairs}) > self.most


def _largest(size: int, slices: int) -> int:
    """Return the number of ordered pairs in the largest slice of ``size`` nodes."""
    each, more = divmod(size, slices)
    return more * (each + 1) ** 2 + (slices - more) * each**2


def _node(target: Target) -> str:
    """Return the node that a target is on. Return an empty string if the target is on several
    nodes, or if its node is not known."""
    if target.at:
        return target.at.node
    nodes = {pod.node for pod in target.backends}
    return nodes.pop() if len(nodes) == 1 else ""


def _ends(pair: Pair) -> set[tuple[object, ...]]:
    """Return the kinds that a path belongs to; :meth:`Crossing.sample` keeps at least one path of
    each kind. The kinds are its client, its server, and the combination of their builds, each with
    the target's port, protocol and addressing."""
    source, target = pair
    lane = (target.port, target.protocol, target.path)
    server = ",".join(pod.uid for pod in target.backends) or target.host
    builds = tuple((pod.os, pod.build) for pod in target.backends)
    return {
        ("client", source.uid, *lane),
        ("server", server, *lane),
        ("builds", (source.os, source.build), builds, *lane),
    }
