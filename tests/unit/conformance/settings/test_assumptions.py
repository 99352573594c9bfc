# SPDX-License-Identifier: Apache-2.0
"""Assumptions as data: which timings follow from a calibration, within stated bounds."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import conformance
from conformance.errors import UsageProblem
from conformance.model.observation import Verdict
from conformance.probe.limits import Limits
from conformance.settings import Workers, load_timings
from conformance.settings.assumptions import DENIED_VERDICTS, assumptions

LIB = Path(conformance.__file__).parent


def a_file(folder: Path, *measurements: tuple[str, str, list[Any]], schema: int = 1) -> Path:
    found = folder / "calibration.json"
    found.write_text(
        json.dumps(
            {
                "kind": "calico-conformance calibration",
                "schema": schema,
                "measurements": [
                    {"id": name, "node": "n", "system": system, "unit": "s", "values": values}
                    for name, system, values in measurements
                ],
            }
        )
    )
    return found


def test_the_slowest_node_decides_within_bounds(tmp_path: Path) -> None:
    packaged = load_timings()
    found = load_timings(
        a_file(
            tmp_path,
            ("policy-effect/tcp", "windows", [1.0, 40.0]),
            ("policy-effect/udp", "windows", [30.0]),
            ("policy-effect/tcp", "linux", [0.2]),
            ("agent-start/three", "windows", [5000.0]),
        )
    )
    assert found.windows.policy_effect == 120.0, "three times the worst"
    assert found.linux.policy_effect == 10.0, "not below the lower bound"
    assert found.windows.agent_hello == 600.0, "not above the upper bound"
    assert found.windows.service_effect == packaged.windows.service_effect, "not measured"
    assert found.windows.syn_again == packaged.windows.syn_again


def test_give_up_times_never_follow_from_a_calibration(tmp_path: Path) -> None:
    shorter = a_file(
        tmp_path, ("syn-again", "windows", [0.5]), ("tcp-closed-seconds", "windows", [9])
    )
    for lab in (False, True):
        found, packaged = load_timings(shorter, lab=lab), load_timings(lab=lab)
        assert found == packaged


@pytest.mark.parametrize("name", assumptions())
def test_an_assumption_about_timings_names_an_entry_and_keeps_within_its_bounds(name: str) -> None:
    one = assumptions()[name]
    assert ("timing" in one) != ("value" in one)
    if "timing" not in one:
        return
    section, _, entry = one["timing"].partition(".")
    packaged = getattr(getattr(load_timings(), section), entry)
    assert one["system"] == section
    if "factor" in one:
        assert one["factor"] > 1
        assert one["least"] <= packaged <= one["most"]


def test_another_schema_is_refused_by_its_number(tmp_path: Path) -> None:
    with pytest.raises(
        UsageProblem, match="the calibration has schema 7, but this suite reads schema 1"
    ):
        load_timings(a_file(tmp_path, schema=7))


def test_the_code_has_its_values_from_there() -> None:
    limit = assumptions()["WIN-STARTS-AT-ONCE"]["value"]
    assert (Limits().powershell_starts, Workers().per_windows_node) == (limit, limit)
    agents = assumptions()["WIN-AGENTS"]["value"]
    assert (Limits().per_windows_node, Workers().agents_per_windows_node) == (agents, agents)


def changed(monkeypatch: pytest.MonkeyPatch, name: str, value: Any, module: str) -> Any:
    """A module as it is where an assumption has another value."""
    other = {**assumptions(), name: {**assumptions()[name], "value": value}}
    monkeypatch.setattr("conformance.settings.assumptions.assumptions", lambda: other)
    spec = importlib.util.find_spec(module)
    assert spec
    assert spec.loader
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.mark.parametrize(
    ("name", "value", "module", "shows"),
    [
        (
            "WIN-STARTS-AT-ONCE",
            7,
            "conformance.probe.limits",
            lambda m: m.Limits().powershell_starts,
        ),
        ("WIN-AGENTS", 7, "conformance.probe.limits", lambda m: m.Limits().per_windows_node),
        ("WIN-ATTEMPTS", 7, "conformance.calibrate.effects", lambda m: round(1 / m.EVERY)),
        (
            "WIN-TCP-CLOSED",
            "REFUSED Other/1",
            "conformance.probe.windows_host",
            lambda m: f"{m._RESULTS['Other']} Other/1",
        ),
        (
            "WIN-RESET",
            "RESET Other/1",
            "conformance.probe.windows_host",
            lambda m: f"{m._RESULTS['Other']} Other/1",
        ),
        (
            "WIN-UDP-CLOSED",
            "NO_ANSWER",
            "conformance.expect.subjects.sizes",
            lambda m: str(min(m.ANSWERED - {Verdict.RESET, Verdict.UNREACHABLE})),
        ),
        ("OVERLAY-OVERHEAD", 7, "conformance.expect.subjects.sizes", lambda m: m.OVERLAY),
    ],
)  # fmt: skip
def test_another_value_changes_what_the_code_does(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: Any,
    module: str,
    shows: Callable[[Any], Any],
) -> None:
    assert shows(changed(monkeypatch, name, value, module)) == value


def test_another_denial_is_another_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    other = {**assumptions(), "DENIED": {"value": "REFUSED"}}
    module = changed(monkeypatch, "DENIED", "TIMED_OUT", "conformance.settings.assumptions")
    assert module.DENIED_VERDICTS == DENIED_VERDICTS
    monkeypatch.setattr(yaml, "load", lambda *_: other)
    module = changed(monkeypatch, "DENIED", "REFUSED", "conformance.settings.assumptions")
    assert {Verdict.REFUSED} == module.DENIED_VERDICTS


@pytest.mark.parametrize("name", assumptions())
def test_the_code_reads_every_value(name: str) -> None:
    """By its id, or by the entry of timings.yaml."""
    _, _, entry = str(assumptions()[name].get("timing", "")).partition(".")
    reading = f'"{name}"' if not entry else rf'(?:\.|"){entry}\b'
    texts = (path.read_text("utf-8") for path in LIB.rglob("*.py"))
    assert any(re.search(reading, text) for text in texts)
