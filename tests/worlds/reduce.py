"""Makes chosen worlds smaller: what can go without a wrong reading being seen less often than it has to be, goes."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from conformance.errors import UsageProblem
from conformance.policy.worlds import World
from tests.worlds.rules import problems

Key = Any
KEPT = ("apiVersion", "kind", "metadata", "name", "action", "tier", "spec")
"""What makes an object or a rule what it is."""


def reduced(
    chosen: Sequence[World],
    shown: Callable[[World, frozenset[Key] | None], frozenset[Key]],
    needed: Mapping[Key, int],
) -> list[World]:
    """The same worlds, smaller.

    ``shown``: the keys that a world shows, of those asked for (None: all); ``needed``: how often each has to be.
    """
    found = list(chosen)
    keys = [shown(world, None) for world in found]
    for number, world in enumerate(found):
        others = Counter(key for at, listed in enumerate(keys) if at != number for key in listed)
        critical = frozenset(key for key in keys[number] if others[key] < needed.get(key, 0))
        found[number] = _smallest(world, lambda one, critical=critical: critical <= shown(one, critical))  # type: ignore[misc]
        keys[number] = shown(found[number], None)
    return found


def _smallest(world: World, shows: Callable[[World], bool]) -> World:
    """Boldest steps first; each that does beginning anew."""
    while True:
        for candidate in smaller(world):
            if _may_be(candidate) and shows(candidate):
                world = candidate
                break
        else:
            return world


def _may_be(world: World) -> bool:
    try:
        return not any(problems(world)) and not (world.then and any(problems(world.edited())))
    except UsageProblem:
        return False


def smaller(world: World) -> Iterator[World]:
    """The world without one object, or one entry or field of its policies."""
    for number in range(len(world.objects)):
        yield replace(world, objects=world.objects[:number] + world.objects[number + 1 :])
    for path in sorted(_paths(list(world.objects)), key=len):
        made = copy.deepcopy(list(world.objects))
        parent: Any = made
        for step in path[:-1]:
            parent = parent[step]
        del parent[path[-1]]
        yield replace(world, objects=tuple(made))


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in KEPT:
                yield (*path, key)
            if key != "metadata":
                yield from _paths(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            if path:
                yield (*path, number)
            yield from _paths(inner, (*path, number))
