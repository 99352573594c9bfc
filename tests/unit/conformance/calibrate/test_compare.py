# SPDX-License-Identifier: Apache-2.0
"""Assumptions against measurements: confirmed, different, not observable here; a lab confirms
nothing."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.calibrate import compare
from conformance.settings import load_timings


def seen(name: str, *values: Any, system: str = "windows", node: str = "w") -> dict[str, Any]:
    return {"id": name, "node": node, "system": system, "unit": "s", "values": list(values)}


def assumed(rule: str, value: Any, *, by: str = "judge", system: str = "windows") -> dict[str, Any]:
    return {
        "id": f"A-{by}",
        "by": by,
        "sentence": "it is so",
        "measured": "thing",
        "system": system,
        "rule": rule,
        "value": value,
    }


@pytest.mark.parametrize(
    ("rule", "value", "observed", "state"),
    [
        ("at-most", 3.0, [1.0, 3.0], "confirmed"),
        ("at-most", 3.0, [1.0, 3.1], "different"),
        ("at-least", 5, [5], "confirmed"),
        ("at-least", 5, [10, 4], "different"),
        ("near", 3.0, [2.3, 3.7], "confirmed"),
        ("near", 3.0, [1.0], "different"),
        ("near", 0, [0.05], "confirmed"),
        ("near", 0, [0.5], "different"),
        ("equal", "REFUSED x/1", ["REFUSED x/1"], "confirmed"),
        ("equal", "REFUSED x/1", ["REFUSED x/1", "REFUSED y/1"], "different"),
        ("at-most", 3.0, ["TIMED_OUT"], "different"),
        ("at-most", 3.0, [], "not observable here"),
    ],
)
def test_what_was_measured_decides(rule: str, value: Any, observed: Any, state: str) -> None:
    measured = [seen("thing/part", *observed), seen("thing", 99, "z", system="linux")]
    (found,) = compare.compared([assumed(rule, value)], measured, emulated=False)
    assert found["state"] == state
    assert set(map(str, found["observed"])) <= set(map(str, observed))


def test_a_lab_confirms_nothing_and_may_differ() -> None:
    good, bad = compare.compared(
        [assumed("at-most", 3), assumed("at-most", 0.5)], [seen("thing", 1.0)], emulated=True
    )
    assert (good["state"], bad["state"]) == ("as assumed, by an emulated node", "different")
    text = "\n".join(compare.lines({"evidence": "lab", "assumptions": [good, bad]}))
    assert text.startswith("These nodes are emulated: this calibration confirms nothing")
    assert "confirmed" not in text
    assert "A-judge: assumed at-most 0.5, observed 1.0: it is so" in text


def test_where_judge_and_lab_differ_is_named_with_both_values() -> None:
    both = [assumed("near", 3.0), assumed("near", 1, by="lab"), assumed("near", 3, by="lab")]
    assert compare.apart([*both, assumed("near", 9, by="lab", system="linux")]) == [
        "thing on windows: judge near 3.0 (A-judge), lab 1 (A-lab)"
    ]


def test_every_assumption_of_the_judge_has_a_value_a_source_and_a_rule_that_can_be_applied() -> (
    None
):
    timings = load_timings()
    found = {one["id"]: one for one in compare.of_judge()}
    for one in found.values():
        assert one["value"] is not None
        assert one["sentence"].endswith(".")
        assert one["source"]
        assert isinstance(compare.agrees(one, one["value"]), bool)
        assert one["rule"] == "equal" or compare.agrees(one, one["value"])
    assert found["WIN-POLICY"]["value"] == timings.windows.policy_effect


def a_calibration(*measurements: Any, output: str = "") -> dict[str, Any]:
    programs = [{"node": "n", "program": "hns.ps1", "output": output}] if output else []
    nodes = [{"name": "n", "os": "windows"}]
    return {"nodes": nodes, "measurements": list(measurements), "programs": programs}


def test_the_difference_of_two_calibrations() -> None:
    old = a_calibration(seen("a", 1.0, 1.2), seen("b", "x"), seen("c", 5), output="one")
    new = a_calibration(seen("a", 1.1), seen("b", "y"), seen("d", 0.5, 3, 9), output="two")
    assert compare.difference(old, new) == [
        "b on windows: x -> y",
        "c on windows: 5 -> not measured",
        "d on windows: not measured -> 0.5, 9",
        "hns.ps1 on windows: one -> two",
    ]
    assert compare.difference(old, old) == []
    slower = a_calibration(seen("a", 2.0))
    assert compare.difference(a_calibration(seen("a", 1.0)), slower) == ["a on windows: 1.0 -> 2.0"]
