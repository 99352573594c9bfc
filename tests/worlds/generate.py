# SPDX-License-Identifier: Apache-2.0
"""Draws worlds and edits, chooses the fewest that show every wrong reading twice, reduces them, and
writes them.

    python -m tests.worlds.generate FOLDER [--seed 28] [--share 1.0] [--candidates FOLDER]

With ``--candidates`` it chooses among the worlds and edits of a folder, too, which somebody put together; with a share
of 0 among these alone, which gives what is committed once more.  It takes some minutes of processor time and no
cluster.  Files are numbered; whoever commits them names them by what they show.  What is committed is judged by
test_worlds.py, whatever drew it.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from conformance.enforcement.worlds import read_world
from conformance.policy.worlds import World
from tests.worlds import choose, edit_grammar, grammar
from tests.worlds.compose import grown
from tests.worlds.reduce import reduced
from tests.worlds.rules import edit_problems, problems

WORLDS = {"POL-1": 1400, "XPOL-14": 150, "XPOL-6": 150, "XPOL-7": 150}
EDITS = {"XPOL-12": 600, "XPOL-13": 500, "POL-1": 1200}
"""The number of drawn edits, by claim."""
Shown = Callable[[World, frozenset[Any] | None], frozenset[Any]]
Pool = list[tuple[World, frozenset[Any], int]]


def drawn(strategy: SearchStrategy[Any], number: int, start: int) -> list[Any]:
    """Return this number of examples; they are always the same for a seed and a release of
    Hypothesis."""
    found: list[Any] = []
    if not number:
        return found

    @seed(start)
    @settings(
        max_examples=number,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(one: Any) -> None:
        found.append(json.loads(json.dumps(one)) if isinstance(one, list) else one)

    collect()
    return found


def pool(candidates: Sequence[World], shown: Shown) -> Pool:
    """Return the candidates that may be committed, with the keys that they show and their
    lengths."""
    found: Pool = []
    for world in candidates:
        if not any(edit_problems(world) if world.then else problems(world)):
            found.append((world, shown(world, None), len(json.dumps([world.objects, world.then]))))
    return found


def chosen_worlds(candidates: Pool, start: int) -> list[World]:
    """Return the fewest worlds for each claim, combined from several worlds and reduced again."""
    found: list[World] = []
    for claim in WORLDS:
        own = [one for one in candidates if one[0].claim == claim]
        need = choose.needed(keys for _, keys, _ in own)
        if claim != "POL-1":  # these worlds exist for features that POL-1's worlds may not have
            need = {
                key: times for key, times in need.items() if key not in _shown_elsewhere(candidates)
            }
        dense = [world for world, _ in grown(own, choose.of_world, need, random.Random(start))]
        found += reduced(min(choose.greedy(own), dense, key=len), choose.of_world, need)
    return found


def _shown_elsewhere(candidates: Pool) -> set[Any]:
    return {key for world, keys, _ in candidates if world.claim == "POL-1" for key in keys}


def chosen_edits(candidates: Pool) -> list[World]:
    """Return the fewest edits, reduced."""
    need = choose.needed(keys for _, keys, _ in candidates)
    return reduced(choose.greedy(candidates), choose.of_edit, need)


def main() -> None:
    """Draw, choose, and write the files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=28)
    parser.add_argument("--share", type=float, default=1.0, help="of the numbers that are drawn")
    parser.add_argument("--candidates", type=Path)
    options = parser.parse_args()
    given = (
        [read_world(path).world for path in sorted(options.candidates.rglob("*.yaml"))]
        if options.candidates
        else []
    )
    worlds = [
        World("", claim, tuple(objects))
        for claim, number in WORLDS.items()
        for objects in drawn(grammar.worlds(claim), int(number * options.share), options.seed)
    ]
    edits = [
        world
        for claim, number in EDITS.items()
        for world in drawn(edit_grammar.edits(claim), int(number * options.share), options.seed)
    ]
    worlds += [world for world in given if not world.then]
    edits += [world for world in given if world.then]
    write(
        options.folder,
        "world",
        chosen_worlds(pool(worlds, choose.of_world), options.seed),
        choose.of_world,
    )
    write(options.folder, "edit", chosen_edits(pool(edits, choose.of_edit)), choose.of_edit)


def write(folder: Path, kind: str, found: Sequence[World], shown: Shown) -> None:
    """Write the files, each with those of its keys that few other files show."""
    keys = [shown(world, None) for world in found]
    for number, (world, own) in enumerate(zip(found, keys, strict=True), start=1):
        rare = {
            name
            for name, system in own
            if sum((name, system) in other for other in keys) <= choose.TWICE
        }
        path = folder / f"{kind}-{number:02}.yaml"
        path.write_text(choose.written(world, rare, f"{kind} {number}"), encoding="utf-8")


if __name__ == "__main__":
    main()
