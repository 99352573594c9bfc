# SPDX-License-Identifier: Apache-2.0
"""Combines two worlds into one, and makes few dense worlds out of many."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from conformance.policy.worlds import World
from tests.worlds.rules import problems

Obj = dict[str, Any]
Keys = frozenset[tuple[str, str]]
Pool = Sequence[tuple[World, Keys, int]]
MOST_POLICIES = 6
"""The maximum number of policies in a world; more would be hard to read."""
TRIES = 40


def together(one: World, other: World) -> World:
    """Return a world with all policies of both, with new names and orders. If both have the same
    tier or network set, the first world's is used."""
    objects = copy.deepcopy([*one.objects, *other.objects])
    found: list[Obj] = []
    named: set[tuple[str, str, str]] = set()
    unordered, number = False, 0
    for obj in objects:
        if obj["kind"].endswith("NetworkPolicy"):
            continue
        key = (obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        if key not in named:
            named.add(key)
            found.append(obj)
    found.sort(key=lambda obj: (obj["kind"] != "Tier", obj["metadata"]["name"]))
    for obj in objects:
        if not obj["kind"].endswith("NetworkPolicy"):
            continue
        spec = obj["spec"]
        obj["metadata"]["name"] = f"{obj['metadata']['name'][:-1]}{number}"
        if obj["apiVersion"].startswith("projectcalico"):
            if "order" in spec or unordered:
                spec["order"] = (100 if spec.get("order", 2000) < 1000 else 2000) + number
            else:
                unordered = True
        found.append(obj)
        number += 1
    return replace(one, objects=tuple(found))


def policies(world: World) -> int:
    return sum(str(obj["kind"]).endswith("NetworkPolicy") for obj in world.objects)


def grown(
    pool: Pool,
    shown: Callable[[World, None], Keys],
    needed: Mapping[tuple[str, str], int],
    chance: random.Random,
) -> Iterator[tuple[World, Keys]]:
    """Yield worlds until nothing is missing; each shows as many of the missing keys as possible."""
    missing = {key: times for key, times in needed.items() if times}
    while missing:
        world, keys = _best(pool, missing)
        for _ in range(TRIES):
            wanted = frozenset(missing) - keys
            if not wanted:
                break
            other = chance.choices(
                pool, [len(wanted & listed) ** 2 / (200 + length) for _, listed, length in pool]
            )[0]
            both = together(world, other[0])
            if policies(both) > MOST_POLICIES or any(problems(both)):
                continue
            seen = shown(both, None)
            if len(seen & missing.keys()) > len(keys & missing.keys()):
                world, keys = both, seen
        yield world, keys
        for key in keys & missing.keys():
            missing[key] -= 1
            if not missing[key]:
                del missing[key]


def _best(pool: Pool, missing: Mapping[tuple[str, str], int]) -> tuple[World, Keys]:
    """Return the world that shows most of the missing keys and may be committed."""
    for world, keys, _ in sorted(pool, key=lambda one: (-len(one[1] & missing.keys()), one[2])):
        if not any(problems(world)):
            return world, keys
    raise AssertionError(f"no world shows {sorted(missing)}")
