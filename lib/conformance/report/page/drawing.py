# SPDX-License-Identifier: Apache-2.0
"""Small drawings as SVG, made by hand: static, sharp in print, a few hundred bytes each."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

WIDTH = 1000
LEFT = 300
RIGHT = 180
ROW = 26
"""Sizes in drawing units: the whole width, the space for labels on the left and for figures on the
right, and the height of a row."""
TICKS = 5
"""The maximum number of steps of an axis."""
SHORT = 0.05
"""Recoveries of fewer seconds are counted but have no bars."""
FIGURES = (
    ("first_correct", "first as expected"),
    ("stable", "as expected for good"),
    ("exposure", "last packet let through"),
)
SORTS = {
    f"{system} {end}": f"{system.capitalize()} pods, paths that a policy {verb}"
    for system in ("linux", "windows")
    for end, verb in (("open", "opens"), ("closed", "closes"))
}
"""The name on the page of each kind of policy change in a report."""


def charts(
    effects: Mapping[str, Mapping[str, Any]], recoveries: Mapping[str, float]
) -> list[dict[str, Any]]:
    """Return a chart for each kind of policy change, and a chart of times to a new connection.

    All have the same axis, so that bars of different charts can be compared. A chart has ``what``,
    ``note``, ``ticks`` and ``rows``: label, three positions in drawing units (median, 95th
    percentile, maximum; the same for a single time) and their text.
    """
    spreads = {what: _spreads(figures) for what, figures in effects.items()}
    longest = max(
        [spread["max"] for rows in spreads.values() for _, spread in rows] + [*recoveries.values()],
        default=0.0,
    )
    step = _step(longest or 1.0)
    end = math.ceil((longest or 1.0) / step) * step
    axis = {
        "scale": (WIDTH - LEFT - RIGHT) / end,
        "steps": [number * step for number in range(round(end / step) + 1)],
    }
    found = [
        _chart(SORTS.get(what, what), _changes(effects[what]), rows, axis)
        for what, rows in spreads.items()
    ]
    return [*found, _recovery_chart(recoveries, axis)] if recoveries else found


def _spreads(figures: Mapping[str, Any]) -> list[tuple[str, Mapping[str, float]]]:
    """Return labels and figures; a kind of change has one row less if the first correct answer was
    always the final answer."""
    same = "first_correct" if figures.get("first_correct") == figures.get("stable") else ""
    return [(label, figures[name]) for name, label in FIGURES if figures.get(name) and name != same]


def _changes(figures: Mapping[str, Any]) -> str:
    number = figures.get("changes", 0)
    return f"{number} {'change' if number == 1 else 'changes'}"


def _recovery_chart(recoveries: Mapping[str, float], axis: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chart of times to a new connection, the longest first."""
    ordered = sorted(recoveries.items(), key=lambda entry: (-entry[1], entry[0]))
    shown = [(label, dict.fromkeys(("p50", "p95", "max"), value)) for label, value in ordered]
    long = [entry for entry in shown if entry[1]["max"] >= SHORT]
    left_out = len(shown) - len(long)
    note = f"{left_out} others within {SHORT} s" if left_out else ""
    return _chart("New connections after a change that breaks connections", note, long, axis)


def _chart(
    what: str,
    note: str,
    rows: Sequence[tuple[str, Mapping[str, float]]],
    axis: Mapping[str, Any],
) -> dict[str, Any]:
    scale = float(axis["scale"])

    def at(value: float) -> float:
        return round(LEFT + value * scale, 1)

    return {
        "what": what,
        "note": note,
        "rows": [
            {
                "label": label,
                "y": number * ROW,
                "p50": at(spread["p50"]),
                "p95": at(spread["p95"]),
                "max": at(spread["max"]),
                "text": _text(spread),
            }
            for number, (label, spread) in enumerate(rows)
        ],
        "ticks": [{"x": at(value), "text": f"{value:g} s"} for value in axis["steps"]],
        "left": LEFT,
        "width": WIDTH,
        "height": ROW * (len(rows) + 1),
    }


def _text(spread: Mapping[str, float]) -> str:
    if spread["p50"] == spread["max"]:
        return f"{spread['max']:.2f} s"
    return f"{spread['p50']:.2f} / {spread['p95']:.2f} / {spread['max']:.2f} s"


def _step(longest: float) -> float:
    """Return the length of a step of an axis, a round number."""
    power: float = 10.0 ** math.floor(math.log10(longest / TICKS))
    return next(power * step for step in (1, 2, 5, 10) if power * step * TICKS >= longest)
