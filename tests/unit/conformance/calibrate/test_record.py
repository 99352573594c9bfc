# SPDX-License-Identifier: Apache-2.0
"""A calibration's file: no names, at most 1 MB, and only calibrations are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conformance.calibrate import record
from conformance.errors import UsageProblem
from tests.unit.conformance.builders import a_windows_node, a_workload

NODE = a_windows_node("win-secret-1")
POD = a_workload("w", "windows", node="win-secret-1")


def a_document(kept: record.Record) -> dict[str, object]:
    return kept.document({"evidence": "field"}, [NODE], ["other-secret"])


def test_a_document_has_values_in_order_and_no_names() -> None:
    kept = record.Record()
    kept.add("exec", POD, "s", 0.12345)
    kept.add("exec", POD, "s", 2)
    kept.add("tcp-closed", POD, "", "REFUSED at win-secret-1")
    kept.lack("mtu", "no path from other-secret to 10.1.2.3", "win-secret-1")
    kept.programs.append({"node": "win-secret-1", "program": "x", "output": "WIN-SECRET-1"})
    found = a_document(kept)
    assert "secret" not in json.dumps(found).lower()
    node = "windows-node-1"
    assert found["measurements"] == [
        {"id": "exec", "node": node, "system": "windows", "unit": "s", "values": [0.123, 2]},
        {
            "id": "tcp-closed",
            "node": node,
            "system": "windows",
            "unit": "",
            "values": [f"REFUSED at {node}"],
        },
    ]
    assert found["not_measured"] == [
        {"id": "mtu", "node": node, "why": "no path from name-1 to 198.18.0.1"}
    ]


def test_long_outputs_are_cut_until_the_file_fits(tmp_path: Path) -> None:
    kept = record.Record()
    for number in range(40):
        text = "x y " * (30_000 if number else 5)
        kept.programs.append({"node": "win-secret-1", "program": f"p{number:02}", "output": text})
    record.write(a_document(kept), target := tmp_path / "c.json")
    found = record.read(target)["programs"]
    assert target.stat().st_size <= 1_000_000
    assert found[0]["output"] == "x y " * 5, "a short output stays whole"
    assert all(one["output"].endswith(record.CUT) for one in found[1:])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not a calibration"),
        ("[]", "is not a calibration"),
        ('{"kind": "calico-conformance calibration", "schema": 2}', "calibration has schema 2"),
    ],
)
def test_anything_else_is_refused_by_name(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(UsageProblem, match=words):
        record.read(tmp_path / "x.json")
