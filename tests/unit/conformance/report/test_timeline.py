# SPDX-License-Identifier: Apache-2.0
"""The timeline of a run reaches from its first test's start to its last test's end."""

from __future__ import annotations

from typing import Any

from conformance.report.causes import Cause
from conformance.report.page.timeline import LANE, LEFT, TICKS, TOP, WIDTH, timeline


def ran(second: int, seconds: float, verdict: str = "CONFIRMED", worker: str = "gw0") -> Any:
    """A test that began so many seconds after ten o'clock."""
    return {
        "test": f"suites/x.py::test_{second}", "claims": ["CONN-1"], "verdict": verdict,
        "worker": worker,
        "started": f"2026-11-29T10:00:{second:02}Z", "seconds": seconds,
    }  # fmt: skip


def test_it_ends_with_the_last_test_and_each_bar_is_as_long_as_its_test() -> None:
    found = timeline([ran(0, 10.0), ran(10, 30.0, worker="gw1"), ran(5, 0.0)], [])
    assert found is not None
    right = WIDTH - 10
    scale = (right - LEFT) / 40
    bars = {(bar["x"], bar["y"]): bar["width"] for bar in found["bars"]}
    assert bars == {
        (LEFT, TOP): 10 * scale,
        (LEFT + 10 * scale, TOP + LANE): 30 * scale,
        (LEFT + 5 * scale, TOP): 1.0,
    }
    assert [tick["x"] for tick in found["ticks"]] == [
        round(LEFT + number * 40 / TICKS * scale, 1) for number in range(TICKS + 1)
    ]
    assert (found["ticks"][0]["text"], found["ticks"][-1]["text"]) == ("10:00:00", "10:00:40")


def test_a_cause_is_marked_where_it_was_observed_first_and_never_before_the_run() -> None:
    violated = ran(10, 10.0, "VIOLATED")

    def cause(since: str) -> Cause:
        explained = violated | {"explanation": {"since": since}}
        return Cause(text=since, claims=[], tests=[explained], again="")

    inside, before = cause("2026-11-29T10:00:15Z"), cause("2026-11-29T09:00:00Z")
    found = timeline([ran(0, 10.0), violated], [inside, before])
    assert found is not None
    assert [(mark["number"], mark["x"]) for mark in found["marks"]] == [
        (1, LEFT + 15 * (WIDTH - LEFT - 10) / 20),
        (2, LEFT),
    ]
    (red,) = [bar for bar in found["bars"] if bar["claim"]]
    assert red == found["bars"][-1], "what failed is drawn over what did not"


def test_without_a_start_there_is_none() -> None:
    assert timeline([{"test": "x", "verdict": "CONFIRMED"}], []) is None
