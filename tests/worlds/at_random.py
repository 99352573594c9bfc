# SPDX-License-Identifier: Apache-2.0
"""Draws worlds and edits at random, for a run that checks whether a healthy lab agrees with the
oracle.

    python -m tests.worlds.at_random FOLDER [--worlds 100] [--edits 50] [--seed 1]
    pytest suites/policy/test_worlds.py --world=FOLDER -n auto

They belong to POL-1 and keep to the rules for worlds: each uses the features of only one claim.
They are not chosen by the wrong readings that they show.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from conformance.policy.oracle.oracle import Verdict
from conformance.policy.worlds import World, cells
from tests.worlds import edit_grammar, grammar
from tests.worlds.choose import objects_of, written
from tests.worlds.generate import drawn
from tests.worlds.rules import edit_problems, misled, problems
from tests.worlds.seats import ELSEWHERE, SEATS

MORE = 6
"""The number of examples that are drawn for each wanted one, since many break a rule or decide
nothing."""


def worlds(number: int, start: int) -> Iterator[World]:
    """Yield at most this number of worlds without edits."""
    several = (
        World("", "POL-1", tuple(objects))
        for objects in drawn(grammar.worlds("POL-1"), MORE * number, start)
    )
    return islice(
        (
            world
            for world in several
            if not any(problems(world)) and _alone(world) and _closes(world)
        ),
        number,
    )


def edits(number: int, start: int) -> Iterator[World]:
    """Yield at most this number of worlds, each with an edit."""
    several = drawn(edit_grammar.edits("POL-1"), MORE * number, start)
    return islice(
        (
            world
            for world in several
            if not any(edit_problems(world))
            and _alone(world)
            and _alone(world.edited())
            and _closes(world.edited())
        ),
        number,
    )


def _alone(world: World) -> bool:
    """Return whether the NetworkSets of another worker's world cannot decide any pair of this
    world."""
    sets = [
        {
            "kind": "NetworkSet",
            "metadata": {"name": "set", "namespace": namespace, "labels": {"role": "set"}},
            "spec": {"nets": ["0.0.0.0/0"]},
        }
        for namespace in ELSEWHERE.values()
    ]
    return not any(misled(world, sets))


def _closes(world: World) -> bool:
    """Return whether the world's claim decides a closed path: a world that closes nothing cannot
    test POL-1."""
    of_claim = [
        cell.expected
        for cell in cells(objects_of(world), SEATS, world.claim)
        if cell.claim == world.claim
    ]
    return Verdict.DENIED in of_claim


def main() -> None:
    """Draw worlds and edits and write them into the folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--worlds", type=int, default=100)
    parser.add_argument("--edits", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for kind, found in (
        ("world", worlds(options.worlds, options.seed)),
        ("edit", edits(options.edits, options.seed)),
    ):
        for number, world in enumerate(found, start=1):
            path = options.folder / f"{kind}-{number:03}.yaml"
            path.write_text(
                written(replace(world, name=path.stem), {"nothing chosen"}, path.stem),
                encoding="utf-8",
            )


if __name__ == "__main__":
    main()
