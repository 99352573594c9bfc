# SPDX-License-Identifier: Apache-2.0
"""Compares measurements with the assumptions of judge and lab, and one calibration with another.
The functions here are pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

from conformance.settings import load_timings
from conformance.settings.assumptions import Plain, assumptions, values

DIFFERENT = "different"
UNSEEN = "not observable here"
AGREES = {False: "confirmed", True: "as assumed, by an emulated node"}
"""The words for a value that agrees with the assumption. On a real node (False) it confirms the
assumption, on an emulated node (True) it confirms nothing."""
NEAR = 0.25
"""The share of a value by which a measured value may differ and still count as ``near``."""


def of_judge() -> list[dict[str, Any]]:
    """Return the judge's assumptions with their values, including the assumptions about timings."""
    timings = load_timings()
    return [
        {"value": attrgetter(one["timing"])(timings) if "timing" in one else None, **one}
        | {"by": "judge", "id": name, "system": one.get("system", "")}
        for name, one in assumptions().items()
    ]


def compared(
    assumed: Iterable[Plain], measurements: Sequence[Plain], *, emulated: bool
) -> list[dict[str, Any]]:
    """Return each assumption with the observed values, and whether they agree."""
    found = []
    for one in assumed:
        observed = list(dict.fromkeys(values(measurements, one["measured"], one["system"])))
        state = AGREES[emulated] if all(agrees(one, value) for value in observed) else DIFFERENT
        found.append({**one, "observed": _short(observed), "state": state if observed else UNSEEN})
    return found


def agrees(one: Plain, value: Any) -> bool:
    """Return whether an observed value agrees with the assumption."""
    wanted = one["value"]
    if one["rule"] == "equal" or isinstance(value, str):
        return str(value) == str(wanted)
    known: dict[str, bool] = {
        "at-most": value <= wanted,
        "at-least": value >= wanted,
        "near": abs(value - wanted) <= max(NEAR * wanted, 0.1),
    }
    return known[one["rule"]]


def _short(observations: Sequence[Any]) -> list[Any]:
    """Return texts unchanged. From a list of many numbers, return only the smallest and the
    largest."""
    is_many = len(observations) > 2 and not any(isinstance(value, str) for value in observations)
    return [min(observations), max(observations)] if is_many else list(observations)


def apart(found: Sequence[Plain]) -> list[str]:
    """Return a line for each measurement for which judge and lab assume different values."""
    return [
        f"{judge['measured']} on {judge['system'] or 'both'}: "
        f"judge {judge['rule']} {judge['value']} ({judge['id']}), lab {lab['value']} ({lab['id']})"
        for judge, lab in itertools.product(found, found)
        if (judge["by"], lab["by"]) == ("judge", "lab")
        and (judge["measured"], judge["system"]) == (lab["measured"], lab["system"])
        and not agrees(judge, lab["value"])
    ]


def lines(plain: Plain) -> Iterator[str]:
    """Yield the comparison of a calibration with the assumptions, as lines of text."""
    if plain["evidence"] == "lab":
        yield "These nodes are emulated: this calibration confirms nothing about Windows."
    for by in ("judge", "lab"):
        mine = [one for one in plain["assumptions"] if one["by"] == by]
        states = [one["state"] for one in mine]
        counted = [f"{states.count(state)} {state}" for state in dict.fromkeys(states)]
        yield f"assumptions of the {by}: {', '.join(counted) or 'not asked'}"
        yield from (
            f"  {one['id']}: assumed {one['rule']} {one['value']}, "
            f"observed {', '.join(map(str, one['observed']))}: {one['sentence']}"
            for one in (one for one in mine if one["state"] == DIFFERENT)
        )
    yield from (f"  judge and lab differ: {line}" for line in apart(plain["assumptions"]))


def difference(old: Plain, new: Plain) -> list[str]:
    """Return a line for each difference between two calibrations, for nodes of the same operating
    system."""
    sides = [_by_system(plain) for plain in (old, new)]
    found = []
    for key in sorted(sides[0].keys() | sides[1].keys()):
        before, after = (side.get(key, []) for side in sides)
        if not _alike(before, after):
            reported = [
                ", ".join(map(str, _short(one))) or "not measured" for one in (before, after)
            ]
            found.append(f"{' on '.join(key)}: {' -> '.join(text[:120] for text in reported)}")
    return found


def _by_system(plain: Plain) -> dict[tuple[str, str], list[Any]]:
    """Return the measured values and the output of programs, keyed by name and operating system."""
    systems = {node["name"]: node["os"] for node in plain["nodes"]}
    entries = [((one["id"], one["system"]), one["values"]) for one in plain["measurements"]]
    entries += [
        ((one["program"], systems[one["node"]]), [one.get("output") or one.get("error")])
        for one in plain["programs"]
    ]
    return {
        key: [value for other, observed in entries if other == key for value in observed]
        for key, _ in entries
    }


def _alike(old: list[Any], new: list[Any]) -> bool:
    """Return whether two lists of values agree: their words are equal, or the medians of their
    numbers differ by less than :data:`NEAR` or by less than 50 ms."""
    if not (old and new) or any(isinstance(value, str) for value in [*old, *new]):
        return set(map(str, old)) == set(map(str, new))
    first, second = (sorted(side)[len(side) // 2] for side in (old, new))
    return bool(abs(first - second) <= max(NEAR * max(first, second), 0.05))
