# SPDX-License-Identifier: Apache-2.0
"""Small drawings as SVG, made by hand: static, sharp in print, a few hundred bytes each."""

import math
from collections.abc import Mapping
from typing import Any

WIDTH = 720
LEFT = 130
RIGHT = 180
ROW = 26
"""Drawing units: the whole, room for labels on the left, for figures on the right, and the height of a row."""
TICKS = 5
"""Of an axis, at most, besides that at zero."""
FIGURES = (
    ("first_correct", "first correct"),
    ("stable", "correct for good"),
    ("exposure", "leaked until"),
)


def recovery_chart(seconds: Mapping[str, float]) -> dict[str, Any]:
    """How long it took until a new connection was there: a bar for each claim and part, the longest first.

    Returns ``rows`` of label, bar's end in drawing units and text, none where nothing was measured; and an axis.
    """
    longest = max([1.0, *seconds.values()])  # so that milliseconds do not look like a long time
    left = 300
    scale = (WIDTH - left - 90) / longest
    ordered = sorted(seconds.items(), key=lambda entry: (-entry[1], entry[0]))
    rows = [
        {
            "label": label,
            "y": number * ROW,
            "end": round(left + value * scale, 1),
            "text": f"{value:.2f} s",
        }
        for number, (label, value) in enumerate(ordered)
    ]
    return _chart(rows, left, scale, longest)


def effect_chart(what: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    """How long a sort of policy change took to show: a bar from 0 to the median, a line to p95, a mark at the maximum.

    Returns ``what``, ``changes``, an axis and ``rows``: label, three positions in drawing units and three texts.  What
    was correct at once for good has one row.
    """
    same = "first_correct" if figures.get("first_correct") == figures.get("stable") else ""
    spreads = [
        (label, figures[name]) for name, label in FIGURES if figures.get(name) and name != same
    ]
    longest = max((spread["max"] for _, spread in spreads), default=0.0) or 1.0
    scale = (WIDTH - LEFT - RIGHT) / longest
    rows = [
        {
            "label": label,
            "y": number * ROW,
            "p50": round(LEFT + spread["p50"] * scale, 1),
            "p95": round(LEFT + spread["p95"] * scale, 1),
            "max": round(LEFT + spread["max"] * scale, 1),
            "text": f"{spread['p50']:.2f} / {spread['p95']:.2f} / {spread['max']:.2f} s",
        }
        for number, (label, spread) in enumerate(spreads)
    ]
    return {
        "what": what,
        "changes": figures.get("changes", 0),
        **_chart(rows, LEFT, scale, longest),
    }


def _chart(rows: list[dict[str, Any]], left: int, scale: float, longest: float) -> dict[str, Any]:
    """With an axis below the rows: ``ticks`` of position and text, at round seconds."""
    power = 10.0 ** math.floor(math.log10(longest / TICKS))
    step = next(
        power * round_one for round_one in (1, 2, 5, 10) if power * round_one * TICKS >= longest
    )
    seconds = [number * step for number in range(TICKS + 1) if number * step <= longest]
    ticks = [{"x": round(left + value * scale, 1), "text": f"{value:g} s"} for value in seconds]
    return {
        "rows": rows,
        "ticks": ticks,
        "left": left,
        "width": WIDTH,
        "height": ROW * (len(rows) + 1),
    }
