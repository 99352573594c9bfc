# SPDX-License-Identifier: Apache-2.0
"""Chooses worlds by wrong readings of policy: the fewest and smallest worlds that show every wrong
reading twice.

Neither planted bugs nor a cluster are needed. A world shows a wrong reading if the oracle and its
mutant expect different verdicts for at least one cell. A mutant is applied to the ends on one
operating system at a time, because a real wrong reading would be on one system.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import yaml

from conformance.policy import worlds
from conformance.policy.oracle.oracle import Decision, Oracle, Verdict, of_way
from conformance.policy.oracle.panics import panics
from conformance.policy.oracle.policies import DIRECTIONS, Direction, Policy, policy_of
from conformance.policy.oracle.rules import Packet
from conformance.policy.oracle.switches import PROMISE, WINDOWS, Switches
from conformance.policy.oracle.world import Pod
from conformance.policy.oracle.world import World as Surroundings
from conformance.policy.worlds import SYSTEMS, Seat, World
from tests.worlds.editing import WORLD
from tests.worlds.mutants import MUTANTS, Mutant
from tests.worlds.seats import MANY, NAMESPACES, SEATS, around
from tests.worlds.staleness import STALE, Stale

Obj = dict[str, Any]
Key = tuple[str, str]
"""A wrong reading and an operating system."""
TWICE = 2

FEATURES = (
    "notSelector", "notNets", "notPorts", "notProtocol", "namespaceSelector", "nets", "serviceAccounts", "echo",
    "Pass", "Log", "Deny", "Tier", "GlobalNetworkPolicy", "NetworkSet", "except", "endPort", "ipBlock", "podSelector",
    "egress", "ingress", "UDP",
)  # fmt: skip


def objects_of(world: World, seats: Sequence[Seat] = SEATS) -> list[Obj]:
    """Return all objects of a world on the smallest cluster."""
    return [*around(world), *world.filled(seats, NAMESPACES)]


@dataclass(frozen=True)
class Ends:
    """The decisions of both ends on every cell, in the cells' order."""

    seats: tuple[tuple[Seat, Seat], ...]
    decided: tuple[tuple[Decision, Decision], ...]


def ends(
    oracle: Oracle,
    windows: Switches = WINDOWS,
    seats: Sequence[Seat] = SEATS,
    known: Known | None = None,
) -> Ends:
    """Return the decisions on every pair and port. ``windows``: the switches of Windows ends;
    ``known``: decisions that need not be computed again."""
    pods = {pod.address: pod for pod in oracle.world.pods.values()}
    same = {
        (pod.address, way): known is not None and known.holds(oracle, pod, way, windows)
        for pod in pods.values()
        for way in DIRECTIONS
    }
    pairs, decided = [], []
    for number, (source, destination, at) in enumerate(worlds.ways(seats)):
        sent = worlds.packet(source, destination, *at)
        both = [
            known.right.decided[number][end]
            if known is not None and same[address, way]
            else _explained(oracle, pods[address], way, sent, windows)
            for end, (address, way) in enumerate(
                ((sent.source, DIRECTIONS[1]), (sent.destination, DIRECTIONS[0]))
            )
        ]
        pairs.append((source, destination))
        decided.append((both[0], both[1]))
    return Ends(tuple(pairs), tuple(decided))


@dataclass(frozen=True)
class Known:
    """The decisions without any wrong reading."""

    judge: Oracle
    right: Ends

    def holds(self, oracle: Oracle, pod: Pod, way: Direction, windows: Switches) -> bool:
        """Return whether another oracle has the same policies for a pod in a direction, in the same
        order and world."""
        if oracle.world is not self.judge.world or (pod.os == "windows" and windows != WINDOWS):
            return False
        return oracle.in_force(pod, way) == self.judge.in_force(pod, way)


def _explained(
    oracle: Oracle, pod: Pod, way: Direction, sent: Packet, windows: Switches
) -> Decision:
    return oracle.explain(pod, way, sent, windows if pod.os == "windows" else PROMISE)


def shown(
    objects: Sequence[Obj], mutants: Iterable[Mutant] = tuple(MUTANTS.values())
) -> frozenset[Key]:
    """Return the wrong readings that the objects show, each with the operating system whose ends
    have it.

    A wrong reading is shown in cells in which Windows is documented to keep the promise: in other
    cells it could look like a limitation that is gone. Wrong readings of Windows' own departures
    are shown in any cell.
    """
    text = _text([obj for obj in objects if obj["kind"] in WORLD])
    rest = [obj for obj in objects if obj["kind"] not in WORLD]
    world = _surroundings("", text)
    judge = _oracle(world, rest)
    known = Known(judge, ends(judge))
    right, agreed = known.right, _agreed(judge)
    found: set[Key] = set()
    for mutant in mutants:
        around, read = (
            _surroundings(mutant.name if mutant.of_objects else "", text),
            mutant.objects(rest),
        )
        if mutant.of_objects and around is world and read == rest:
            continue
        wrong = ends(_oracle(around, read), mutant.switches(WINDOWS), known=known)
        found.update(_seen(mutant.name, right, wrong, agreed if mutant.of_objects else None))
    return frozenset(found)


def _text(value: Any) -> str:
    return json.dumps(value)


@lru_cache(maxsize=1024)
def _surroundings(mutant: str, text: str) -> Surroundings:
    """Return the objects other than policies as a mutant reads them. If the mutant misreads none of
    them, or its name is empty, they are the same objects."""
    given = json.loads(text)
    read = MUTANTS[mutant].objects(given) if mutant else given
    return Surroundings(read) if not mutant or read != given else _surroundings("", text)


def _oracle(world: Surroundings, objects: Sequence[Obj]) -> Oracle:
    """Return an oracle that shares parsed policies with equal text."""
    oracle = Oracle(
        world, [obj for obj in objects if not str(obj["kind"]).endswith("NetworkPolicy")]
    )
    oracle.policies = [policy for obj in objects if (policy := _policy(_text(obj))) is not None]
    return oracle


@lru_cache(maxsize=8192)
def _policy(text: str) -> Policy | None:
    return policy_of(json.loads(text))


def edit_shown(world: World) -> frozenset[Key]:
    """Return the stale states that are shown after the edit, each with the operating system whose
    ends have it."""
    before, after = objects_of(world), objects_of(world.edited())
    judge = Oracle(Surroundings(after), after)
    right, agreed = ends(judge), _agreed(judge)
    found: set[Key] = set()
    for name, stale in STALE.items():
        wrong = _stale_ends(stale, before, after, right)
        if wrong is not None:
            found.update(_seen(name, right, wrong, agreed))
    return frozenset(found)


def _agreed(judge: Oracle) -> tuple[bool, ...]:
    """Return, for each cell, whether the documents for Windows agree with the promise."""
    promised = ends(judge, PROMISE).decided
    return tuple(
        of_way(one) is of_way(other)
        for one, other in zip(ends(judge).decided, promised, strict=True)
    )


def _seen(name: str, right: Ends, wrong: Ends, agreed: Sequence[bool] | None) -> Iterator[Key]:
    """Yield the systems at whose ends a wrong reading is shown; ``agreed`` None: in any cell."""
    counts = agreed or [True] * len(right.seats)
    for system in SYSTEMS:
        cells = zip(right.seats, right.decided, wrong.decided, counts, strict=True)
        if any(
            counted and _differs(seats, one, other, system) for seats, one, other, counted in cells
        ):
            yield name, system


def _stale_ends(stale: Stale, before: list[Obj], after: list[Obj], right: Ends) -> Ends | None:
    """Return the decisions of each end with its stale state; None if the edit leaves nothing
    stale."""
    by_seat: dict[Seat, Ends] = {}
    for seat in SEATS:
        read = stale(before, after, seat.pod)
        if sorted(map(str, read)) != sorted(map(str, after)):
            by_seat[seat] = ends(Oracle(Surroundings(read), read))
    if not by_seat:
        return None
    decided = tuple(
        tuple(by_seat.get(seat, right).decided[number][end] for end, seat in enumerate(pair))
        for number, pair in enumerate(right.seats)
    )
    return Ends(right.seats, decided)  # type: ignore[arg-type]


def _differs(
    seats: tuple[Seat, Seat],
    right: tuple[Decision, Decision],
    wrong: tuple[Decision, Decision],
    system: str,
) -> bool:
    mixed = [w if seat.os == system else r for seat, r, w in zip(seats, right, wrong, strict=True)]
    expected, seen = of_way(right), of_way(mixed)
    return expected is not seen and Verdict.NOT_SAID not in {expected, seen}


def features(objects: Sequence[Obj]) -> frozenset[str]:
    """Return the words of the grammar that a world uses."""
    words = set(_words(list(objects)))
    return frozenset(feature for feature in FEATURES if feature in words)


def _words(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from _words(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _words(inner)
    elif isinstance(value, str):
        yield value


def pairs(objects: Sequence[Obj]) -> frozenset[tuple[str, str]]:
    """Return the pairs of features that a world uses together."""
    return frozenset(combinations(sorted(features(objects)), 2))


def harmless(objects: Sequence[Obj]) -> bool:
    """Return whether the objects cannot make any Windows node's Felix panic."""
    oracle = Oracle(Surroundings(objects), objects)
    return not any(panics(oracle, pod) for pod in oracle.world.pods.values())


def greedy(pool: Sequence[tuple[World, frozenset[Key], int]]) -> list[World]:
    """Return worlds that show each key as often as necessary. The worlds that show most come first,
    then the smallest."""
    missing = needed(keys for _, keys, _ in pool)
    left, chosen = list(pool), []
    while any(missing.values()):
        best = max(
            left,
            key=lambda one: (sum(missing[key] > 0 for key in one[1]) / (2000 + one[2]), -one[2]),
        )
        chosen.append(best[0])
        left.remove(best)
        for key in best[1]:
            missing[key] = max(0, missing[key] - 1)
    return chosen


ANYWHERE = "anywhere"


def needed(pool: Iterable[frozenset[Key]]) -> dict[Key, int]:
    """Return how often each key must be shown: twice on any system, or as often as possible; on
    Windows once."""
    there = Counter(key for keys in pool for key in keys)
    return {key: min(TWICE, count) if key[1] == ANYWHERE else 1 for key, count in there.items()}


def of_world(world: World, asked: frozenset[Key] | None = None) -> frozenset[Key]:
    """Return those of the requested wrong readings that a world shows: on Windows, and on any
    system."""
    names = None if asked is None else {name for name, _ in asked}
    seen = shown(
        objects_of(world), [one for name, one in MUTANTS.items() if names is None or name in names]
    )
    return _anywhere(seen) | _on_windows(seen)


def of_edit(world: World, asked: frozenset[Key] | None = None) -> frozenset[Key]:
    """Return the stale states that an edit shows on Windows."""
    return _on_windows(edit_shown(world))


def _on_windows(seen: Iterable[Key]) -> frozenset[Key]:
    return frozenset(key for key in seen if key[1] == "windows")


def _anywhere(seen: Iterable[Key]) -> frozenset[Key]:
    return frozenset((name, ANYWHERE) for name, _ in seen)


def beside(world: World) -> list[str]:
    """Return the claims of Windows' departures that decide some cell on each Windows node, wherever
    the world's seats are."""
    last = world.edited() if world.then else world
    on_each: list[set[str]] = []
    for seats in (SEATS, MANY):
        objects = [*worlds.surroundings(last, seats, NAMESPACES), *last.filled(seats, NAMESPACES)]
        cells = list(worlds.cells(objects, seats, last.claim))
        nodes = {seat.node for seat in seats if seat.os == "windows"}
        on_each += [
            {cell.claim for cell in cells if node in (cell.source.node, cell.destination.node)}
            for node in nodes
        ]
    return sorted(set.intersection(*on_each) - {world.claim, ""})


def written(world: World, shows: Iterable[str], about: str) -> str:
    """Return the text of a world's file; ``about``: its first line."""
    others = beside(world)
    body: dict[str, Any] = {"claim": world.claim, **({"beside": others} if others else {})}
    body |= {"shows": sorted(shows), "objects": list(world.objects)}
    if world.then:
        body["then"] = world.then
    text = yaml.safe_dump(
        body, sort_keys=False, default_flow_style=None, width=140, allow_unicode=True
    )
    return f"# {about}\n{text}"
