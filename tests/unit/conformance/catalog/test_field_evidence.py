# SPDX-License-Identifier: Apache-2.0
"""Each statement of the catalog about evidence from real nodes names a file from real nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml

from conformance import cli
from conformance.catalog import catalog, explained, loading
from conformance.qualify.sets import suite_parts

ROOT = Path(__file__).parents[4]
PLACES = ("tests/golden/field/", "tests/golden/reports/")


def problems(entries: Mapping[str, Any], root: Path) -> list[str]:
    """What is wrong with entries of field-evidence.yaml."""
    found = []
    for named, files in entries.items():
        claim, _, part = named.partition(": ")
        known = [entry for entry in suite_parts().get(claim, ()) if entry.part == part]
        if claim not in catalog() or (part and not known):
            found.append(f"{named}: no such claim or part")
        if any(entry.provisional for entry in known):
            found.append(
                f"{named}: it has field evidence, and its test still says provisional=True"
            )
        for file in files:
            path = root / file
            if not file.startswith(PLACES) or not path.is_file():
                found.append(f"{named}: {file} is no file of {' or '.join(PLACES)}")
                continue
            plain = json.loads(path.read_text("utf-8"))
            if plain.get("run", plain)["evidence"] != "field":
                found.append(f"{named}: {file} is of emulated nodes")
    return found


def test_evidence_is_named_by_files_of_real_nodes() -> None:
    text = resources.files("conformance.catalog").joinpath("field-evidence.yaml").read_text()
    assert problems(yaml.safe_load(text), ROOT) == []


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("text", "  real nodes  direct: tests/golden/field/server-2022.json"),
        ("markdown", "- **real nodes** direct: tests/golden/field/server-2022.json"),
        ("json", '"direct: tests/golden/field/server-2022.json"'),
    ],
)
def test_the_command_reads_the_file_that_lists_evidence(
    form: str,
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "CONN-3" in catalog()  # from the packaged folder
    entries = {"CONN-3: direct": ["tests/golden/field/server-2022.json"]}
    (tmp_path / "field-evidence.yaml").write_text(yaml.safe_dump(entries))
    monkeypatch.setattr(loading, "DATA", tmp_path / "data")
    monkeypatch.setattr(explained, "field_evidence", loading.field_evidence.__wrapped__)
    assert cli.main(["claims", "CONN-3", "CONN-1", "--format", form]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [found.strip() for found in printed].count(line.strip()) == 1, "not of CONN-1"


def test_the_catalog_names_the_file_to_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    file = "tests/golden/field/server-2022.json"
    entries = {"CONN-3: windows->linux pod-ip": [file], "DEMO-7": [file, file]}
    monkeypatch.setattr(explained, "field_evidence", lambda: entries)
    found = explained.explained(
        explained.named(["CONN-3", "demo-7"]), ROOT / "suites", {}, "pytest"
    )
    text = list(explained.as_text(found))
    assert f"  real nodes  windows->linux pod-ip: {file}" in text
    assert f"  real nodes  all of it: {file}, {file}" in text


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        ({"CONN-1": ["tests/golden/field/a.json"]}, []),
        ({"CONN-99": []}, ["CONN-99: no such claim or part"]),
        ({"CONN-4: nonsense": []}, ["CONN-4: nonsense: no such claim or part"]),
        (
            {"CONN-1": ["tests/golden/field/lab.json"]},
            ["CONN-1: tests/golden/field/lab.json is of emulated nodes"],
        ),
        (
            {"CONN-1": ["elsewhere.json"]},
            [f"CONN-1: elsewhere.json is no file of {' or '.join(PLACES)}"],
        ),
        (
            {"PLAT-4: cluster-wide parts": []},
            [
                "PLAT-4: cluster-wide parts: it has field evidence, and its test still says "
                "provisional=True"
            ],
        ),
    ],
)
def test_anything_else_is_named(entries: dict[str, Any], found: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "tests" / "golden" / "field"
    folder.mkdir(parents=True)
    (folder / "a.json").write_text('{"evidence": "field"}')
    (folder / "lab.json").write_text('{"evidence": "lab"}')
    assert problems(entries, tmp_path) == found
