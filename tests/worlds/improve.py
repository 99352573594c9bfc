"""Lets committed worlds show more: pieces of drawn worlds take places in them, and stay where more is shown for it.

    python -m tests.worlds.improve FOLDER [--seconds 300] [--seed 28]

The worlds of POL-1 in the folder are written anew where they show wrong readings of policy that were not shown often
enough, and all others as often as before; nothing else is touched.  It is for new wrong readings: choosing from what is
drawn alone (``generate``) needs twice as many worlds.  What is committed is judged by test_worlds.py.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from conformance.errors import UsageProblem
from conformance.policy.oracle import fields
from conformance.policy.worlds import World
from conformance.run.worlds import in_folder
from tests.worlds import choose, grammar
from tests.worlds.compose import MOST_POLICIES, policies
from tests.worlds.generate import drawn
from tests.worlds.reduce import reduced
from tests.worlds.rules import problems

Obj = dict[str, Any]
Key = tuple[str, str]
DRAWN = 1200
LONGEST = 3200
"""Characters of a world: more is hard to read."""


class Climb:
    """Some worlds, and how often each wrong reading is shown by them."""

    def __init__(self, worlds: Sequence[World], pool: Sequence[World], seed: int) -> None:
        self.worlds, self.chance = list(worlds), random.Random(seed)
        self.keys = [choose.of_world(world) for world in self.worlds]
        names = choose.MUTANTS
        self.needed: dict[Key, int] = {(name, choose.ANYWHERE): choose.TWICE for name in names}
        self.needed |= {(name, "windows"): 1 for name in names}
        missing = self.missing
        self.shown_by: dict[Key, list[World]] = {}
        """Of what is missing, the drawn worlds that show it."""
        for world in pool:
            for key in choose.of_world(world, missing) & missing:
                self.shown_by.setdefault(key, []).append(world)

    @property
    def missing(self) -> frozenset[Key]:
        times = Counter(key for keys in self.keys for key in keys)
        return frozenset(key for key, wanted in self.needed.items() if times[key] < wanted)

    def step(self) -> frozenset[Key]:
        """Try one change of one world; what is shown for it that was missing."""
        at = self.chance.randrange(len(self.worlds))
        missing = self.missing
        wanted = self.chance.choice(sorted(missing & self.shown_by.keys()) or [None])
        if wanted is None:
            return frozenset()
        candidate = self._changed(self.worlds[at], self.chance.choice(self.shown_by[wanted]))
        if candidate is None or not _may_be(candidate):
            return frozenset()
        gained = (choose.of_world(candidate, missing) & missing) - self.keys[at]
        if not gained:
            return gained
        times = Counter(key for number, keys in enumerate(self.keys) for key in keys if number != at)
        own = frozenset(key for key in self.keys[at] if times[key] < self.needed.get(key, 0))
        seen = choose.of_world(candidate)
        if len(own - seen) >= len(gained):
            return frozenset()
        self.worlds[at], self.keys[at] = candidate, seen
        return gained

    def _changed(self, world: World, other: World) -> World | None:
        objects, pieces = copy.deepcopy(list(world.objects)), [obj for obj in other.objects if _is_policy(obj)]
        piece = copy.deepcopy(self.chance.choice(pieces))
        own = [number for number, obj in enumerate(objects) if _is_policy(obj)]
        how = self.chance.choice(("add", "replace", "rule", "rule", *["field"] * 4, "around"))
        at = self.chance.choice(own)
        put = {"rule": _put_rule, "field": _put_field}.get(how)
        if how == "add" and policies(world) >= MOST_POLICIES:
            return None
        if put and not put(objects[at], piece, self.chance):
            return None
        if how in {"add", "replace"}:
            objects[at : at + (how == "replace")] = []
            objects.append(_apart(piece, objects))
        elif how == "around":
            for obj in objects:
                same = [one for one in other.objects if one["kind"] == obj["kind"] and not _is_policy(obj)]
                obj["spec"] = copy.deepcopy(same[0]["spec"]) if same else obj["spec"]
        return _complete(replace(world, objects=tuple(objects)), other)


def _is_policy(obj: Obj) -> bool:
    return str(obj["kind"]).endswith("NetworkPolicy")


def _apart(piece: Obj, objects: Sequence[Obj]) -> Obj:
    """The policy with a name and an order that none of its kind has."""
    there = {fields.label(obj) for obj in objects}
    while fields.label(piece) in there:
        piece["metadata"]["name"] += "x"
    orders = {obj["spec"].get("order") for obj in objects if _is_policy(obj)}
    while "order" in piece["spec"] and piece["spec"]["order"] in orders:
        piece["spec"]["order"] += 1
    return piece


def _put_rule(obj: Obj, piece: Obj, chance: random.Random) -> bool:
    """A rule of the piece's among those of the policy."""
    way = chance.choice(("ingress", "egress"))
    if obj["apiVersion"] != piece["apiVersion"] or not piece["spec"].get(way):
        return False
    rules = obj["spec"].setdefault(way, [])
    rules.insert(chance.randint(0, len(rules)), chance.choice(piece["spec"][way]))
    return True


def _put_field(obj: Obj, piece: Obj, chance: random.Random) -> bool:
    """A value of the piece in the place of one of the same name in the policy, or the name of the whole."""
    if obj["apiVersion"] != piece["apiVersion"]:
        return False
    values = [(key, value) for _, key, value in _fields(piece["spec"])]
    places = [place for place in _fields(obj["spec"]) if any(key == place[1] for key, _ in values)]
    if not places:
        return False
    parent, key, _ = chance.choice(places)
    parent[key] = copy.deepcopy(chance.choice([value for name, value in values if name == key]))
    return True


def _fields(value: Any) -> list[tuple[Obj, str, Any]]:
    found: list[tuple[Obj, str, Any]] = []
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in {"ingress", "egress", "tier"}:
                found.append((value, key, inner))
            found += _fields(inner)
    elif isinstance(value, list):
        for inner in value:
            found += _fields(inner)
    return found


def _complete(world: World, other: World) -> World:
    """With the tiers and the network set that its policies name, and names of their own."""
    objects = list(world.objects)
    there = {(obj["kind"], obj["metadata"]["name"]) for obj in objects}
    wanted = {obj["spec"].get("tier") for obj in objects if _is_policy(obj)}
    for obj in other.objects:
        key = (obj["kind"], obj["metadata"]["name"])
        used = obj["metadata"]["name"] in wanted or (
            obj["kind"] == "NetworkSet" and "role == 'set'" in json.dumps(objects)
        )
        if not _is_policy(obj) and key not in there and used:
            objects.insert(0, obj)
    return replace(world, objects=tuple(objects))


def _may_be(world: World) -> bool:
    try:
        return len(json.dumps(world.objects)) < LONGEST and not any(problems(world))
    except (UsageProblem, KeyError, TypeError, ValueError):
        return False


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=28)
    options = parser.parse_args()
    given = [one for one in in_folder(options.folder) if one.world.claim == "POL-1" and not one.world.then]
    pool = [World("", "POL-1", tuple(objects)) for objects in drawn(grammar.worlds("POL-1"), DRAWN, options.seed)]
    climb = Climb([one.world for one in given], pool, options.seed)
    began = time.monotonic()
    print("shown by none that was drawn", sorted(climb.missing - climb.shown_by.keys()))
    while climb.missing and time.monotonic() - began < options.seconds:
        if gained := climb.step():
            print(f"{time.monotonic() - began:5.0f} s, {len(climb.missing)} missing: +{sorted(gained)}", flush=True)
            write(given, climb)
    small = reduced(climb.worlds, choose.of_world, climb.needed)
    climb.worlds, climb.keys = small, [choose.of_world(world) for world in small]
    write(given, climb)
    print("missing", *sorted(climb.missing), sep="\n  ")


def write(given: Sequence[Any], climb: Climb) -> None:
    """Each with what few others show."""
    by_name = {one.world.name: one.path for one in given}
    for world, own in zip(climb.worlds, climb.keys, strict=True):
        path = by_name[world.name]
        about = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        rare = {name for name, system in own if sum((name, system) in other for other in climb.keys) <= choose.TWICE}
        path.write_text(choose.written(world, rare, about), encoding="utf-8")


if __name__ == "__main__":
    main()
