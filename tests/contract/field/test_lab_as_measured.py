# SPDX-License-Identifier: Apache-2.0
"""The lab against calibrations of real nodes: what it assumes is as measured, or the difference is
listed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from conformance.calibrate import compare
from conformance.calibrate.record import read
from hybridlab.assumed import assumptions

ROOT = Path(__file__).parents[3]
FIELD = ROOT / "tests" / "golden" / "field"
FILES = sorted(FIELD.glob("*.json"))
SCHEMA = json.loads((ROOT / "docs" / "schema" / "calibration.schema.json").read_text("utf-8"))


def differences(calibration: Mapping[str, Any]) -> list[str]:
    """Where the lab is not as the nodes were, in a line each."""
    lab = [{"by": "lab", "id": name, **one} for name, one in assumptions().items()]
    found = compare.compared(lab, calibration["measurements"], emulated=False)
    return [
        f"{one['id']}: the lab has {one['value']}, measured {', '.join(map(str, one['observed']))}"
        for one in found
        if one["state"] == compare.DIFFERENT
    ]


def problems(calibration: Mapping[str, Any], listed: Sequence[str]) -> list[str]:
    """What is wrong with a file below tests/golden/field, or with the lab beside it."""
    validator = jsonschema.Draft202012Validator(SCHEMA)
    wrong = [f"{e.json_path}: {e.message[:200]}" for e in validator.iter_errors(calibration)]
    if wrong:
        return wrong
    if calibration["evidence"] != "field":
        return ["it is of emulated nodes, which show nothing about the lab"]
    found = differences(calibration)
    return [f"not listed: {line}" for line in found if line not in listed] + [
        f"listed and no longer so: {line}" for line in listed if line not in found
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_lab_is_as_real_nodes_were(path: Path) -> None:
    beside = path.with_suffix(".differences.txt")
    listed = beside.read_text("utf-8").splitlines() if beside.exists() else []
    assert problems(read(path), listed) == []


def a_calibration(**values: Any) -> dict[str, Any]:
    measured = [
        {"id": name, "node": "windows-node-1", "system": "windows", "unit": "", "values": [value]}
        for name, value in values.items()
    ]
    node = {
        "name": "windows-node-1",
        "os": "windows",
        "build": "20348.2762",
        "image": "Windows Server 2022 Datacenter",
        "kernel": "10.0.20348.2762",
        "runtime": "containerd://1.7.24",
    }
    return {
        "kind": "calico-conformance calibration",
        "schema": 1,
        "at": "2026-11-29T11:00:00Z",
        "evidence": "field",
        "seconds": 300.0,
        "kubernetes": "v1.34.1",
        "calico": "v3.31.2",
        "mode": "vxlan",
        "platform": "self-managed",
        "nodes": [node],
        "measurements": measured,
        "not_measured": [],
        "programs": [{"node": "windows-node-1", "program": "hns.ps1", "output": "{}"}],
        "assumptions": [],
    }


SYN = "syn-again: the lab has 1, measured 3.01"


@pytest.mark.parametrize(
    ("calibration", "listed", "found"),
    [
        (a_calibration(**{"reset/linux": "RESET ConnectionReset/10054"}), [], []),
        (a_calibration(**{"syn-again": 3.01}), [], [f"not listed: {SYN}"]),
        (a_calibration(**{"syn-again": 3.01}), [SYN], []),
        (a_calibration(**{"syn-again": 1.01}), [SYN], [f"listed and no longer so: {SYN}"]),
        (
            a_calibration() | {"evidence": "lab"},
            [],
            ["it is of emulated nodes, which show nothing about the lab"],
        ),
        (a_calibration() | {"schema": 2}, [], ["$.schema: 1 was expected"]),
    ],
    ids=["the same", "another", "listed", "mended", "a lab's", "another schema"],
)
def test_a_file_that_differs_from_the_lab_fails_until_it_is_listed(
    calibration: dict[str, Any], listed: list[str], found: list[str]
) -> None:
    assert problems(calibration, listed) == found
