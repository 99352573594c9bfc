# SPDX-License-Identifier: Apache-2.0
"""The timeline of a run: a lane for each worker, a bar for each test, a mark for each cause."""

from collections.abc import Mapping, Sequence
from typing import Any

from conformance.report.causes import Cause
from conformance.report.page.clock import clock, lasted, unix
from conformance.report.page.parts import sentence
from conformance.report.summed_up import FALLEN

WIDTH = 1100
LEFT = 90
LANE = 22
TOP = 24
"""Sizes in drawing units: the whole width, the space for the workers' names, the height of a lane,
and the space for the numbers of causes above."""
TICKS = 8


def timeline(tests: Sequence[Mapping[str, Any]], causes: Sequence[Cause]) -> dict[str, Any] | None:
    """Return lanes, bars, marks of causes and clock times; None if no start is known."""
    timed = [(unix(test["started"]), test) for test in tests if test.get("started")]
    if not timed:
        return None
    begin = min(start for start, _ in timed)
    end = max(start + lasted(test) for start, test in timed)
    scale = (WIDTH - LEFT - 10) / max(end - begin, 1.0)

    def at(moment: float) -> float:
        return round(LEFT + (moment - begin) * scale, 1)

    workers = sorted({test["worker"] for _, test in timed})
    bars = [
        {
            "x": at(start),
            "width": round(max(lasted(test) * scale, 1.0), 1),
            "y": TOP + workers.index(test["worker"]) * LANE,
            "verdict": test["verdict"],
            "claim": (test["claims"] or [""])[0] if test["verdict"] in FALLEN else "",
            "title": _title(start, test),
        }
        for start, test in sorted(timed, key=lambda entry: entry[1]["verdict"] in FALLEN)
    ]
    step = (end - begin) / TICKS
    return {
        "lanes": [
            {"name": name or "run", "y": TOP + place * LANE} for place, name in enumerate(workers)
        ],
        "bars": bars,
        "marks": [
            {"number": number, "x": at(max(begin, unix(cause.since))), "text": cause.text}
            for number, cause in enumerate(causes, 1)
            if cause.since
        ],
        "ticks": [
            {"x": at(begin + place * step), "text": clock(begin + place * step)}
            for place in range(TICKS + 1)
        ],
        "width": WIDTH,
        "bottom": TOP + len(workers) * LANE,
        "left": LEFT,
    }


def _title(start: float, test: Mapping[str, Any]) -> str:
    claims = ", ".join(test["claims"])
    return (
        f"{clock(start)}, {lasted(test):.0f} s: {test['verdict']} {claims} {sentence(test['test'])}"
    )
