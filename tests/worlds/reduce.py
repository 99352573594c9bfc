# SPDX-License-Identifier: Apache-2.0
"""Makes chosen worlds smaller: every part is removed without which each wrong reading is still
shown often enough."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from conformance.errors import UsageProblem
from conformance.policy.oracle import fields
from conformance.policy.worlds import World
from tests.worlds.rules import edit_problems, problems

Key = Any
KEPT = ("apiVersion", "kind", "metadata", "name", "action", "tier", "spec", "podSelector")
"""Fields that an object or a rule cannot lose."""


def reduced(
    chosen: Sequence[World],
    shown: Callable[[World, frozenset[Key] | None], frozenset[Key]],
    needed: Mapping[Key, int],
) -> list[World]:
    """Return the worlds, each as small as possible.

    ``shown``: the keys that a world shows among the requested keys (None: all); ``needed``: how
    often each key must be shown.
    """
    found: list[World | None] = list(chosen)
    keys = [shown(world, None) for world in chosen]
    # the last worlds were chosen for few keys
    for number, world in reversed(list(enumerate(chosen))):
        others = Counter(key for at, listed in enumerate(keys) if at != number for key in listed)
        critical = frozenset(key for key in keys[number] if others[key] < needed.get(key, 0))
        small = _smallest(world, partial(_shows, shown, critical)) if critical else None
        found[number], keys[number] = small, shown(small, None) if small else frozenset()
    return [world for world in found if world is not None]


def _shows(
    shown: Callable[[World, frozenset[Key] | None], frozenset[Key]],
    keys: frozenset[Key],
    world: World,
) -> bool:
    return keys <= shown(world, keys)


def _smallest(world: World, shows: Callable[[World], bool]) -> World:
    """Return the smallest world. The largest steps are tried first; after each successful step, all
    steps are tried again."""
    while True:
        for candidate in smaller(world):
            if _may_be(candidate) and shows(candidate):
                world = candidate
                break
        else:
            return world


def _may_be(world: World) -> bool:
    try:
        return not any(edit_problems(world) if world.then else problems(world))
    except (UsageProblem, KeyError):
        return False


def smaller(world: World) -> Iterator[World]:
    """Yield the world without one object, or without one entry or field of its policies.

    An object that an edit replaces is kept. Only fields that the edit leaves unchanged are removed
    from the object, before and after the edit.
    """
    edited = _edited(world)
    for number in range(len(world.objects)):
        if number not in edited:
            yield replace(world, objects=world.objects[:number] + world.objects[number + 1 :])
    for path in sorted(_paths(list(world.objects)), key=len):
        if path[0] in edited:
            yield from _without_unchanged(world, path)
            continue
        made = copy.deepcopy(list(world.objects))
        parent: Any = made
        for step in path[:-1]:
            parent = parent[step]
        del parent[path[-1]]
        yield replace(world, objects=tuple(made))


def _edited(world: World) -> set[int]:
    """Return the numbers of the objects that an edit replaces or deletes."""
    labels = {*map(fields.label, world.puts), world.then.get("gone")}
    return {number for number, obj in enumerate(world.objects) if fields.label(obj) in labels}


def _without_unchanged(world: World, path: tuple[Any, ...]) -> Iterator[World]:
    """Yield the world without a field of the spec that the edit leaves unchanged."""
    puts, obj = copy.deepcopy(world.puts), copy.deepcopy(world.objects[path[0]])
    put = next((one for one in puts if fields.label(one) == fields.label(obj)), None)
    if put is None or len(path) != 3 or put["spec"].get(path[2]) != obj["spec"][path[2]]:
        return
    del obj["spec"][path[2]]
    put["spec"].pop(path[2], None)
    objects = (*world.objects[: path[0]], obj, *world.objects[path[0] + 1 :])
    yield replace(
        world, objects=objects, then={**world.then, "put": puts if len(puts) > 1 else put}
    )


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
