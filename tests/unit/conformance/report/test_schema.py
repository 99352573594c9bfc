# SPDX-License-Identifier: Apache-2.0
"""conformance.json follows docs/schema: stored reports fit it, and its page names every part."""

from __future__ import annotations

import gzip
import json
from typing import Any

import jsonschema
import pytest

from conformance.catalog import Modality
from conformance.model import SCHEMA_VERSION
from conformance.model.claim import ClaimKind, ClaimVerdict
from conformance.qualify.compare import compare
from conformance.qualify.stored import parse
from conformance.report.page import render
from tests.golden import schema
from tests.golden.reports.texts import FOLDER, names, stored


def kept(name: str) -> dict[str, Any]:
    with gzip.open(FOLDER / f"{name}.json.gz", "rt", encoding="utf-8") as file:
        content: dict[str, Any] = json.load(file)
    return content


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(schema.schema())
    assert schema.schema()["properties"]["schema_version"]["enum"] == ["2", SCHEMA_VERSION]


def test_a_report_of_the_newest_schema_explains_each_test_and_one_of_the_schema_before_is_read_without() -> (
    None
):
    whole = kept("whole") | {"schema_version": SCHEMA_VERSION}
    assert schema.problems(whole) == []
    del whole["tests"][0]["explanation"]
    assert schema.problems(whole) == ["$.tests[0]: 'explanation' is a required property"]
    before = kept("leak")
    assert before["schema_version"] == "2"
    assert "explanation" not in before["tests"][0]
    assert schema.problems(before | {"schema_version": SCHEMA_VERSION}) != []
    page = render(before)
    assert "<h1>Not qualified: policy</h1>" in page
    assert "node windows-2019)  expected TIMED_OUT, observed CONNECTED" in page
    assert (
        compare(
            stored("leak"), parse(kept("leak") | {"schema_version": SCHEMA_VERSION}, "new")
        ).exit_code
        == 0
    )


@pytest.mark.parametrize("name", names())
def test_a_report_that_is_kept_fits_the_schema_and_has_nothing_that_it_does_not_describe(
    name: str,
) -> None:
    assert schema.problems(kept(name)) == []


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("schema_version",), "1"), (("run", "exit_code"), 8), (("run", "evidence"), "hearsay"), (("suite",), {}),
        (("claims", 0, "verdict"), "GREEN"), (("claims", 0, "kind"), "wish"), (("facts", "nodes", 0, "labels"), None),
        (("tests", 0, "undescribed"), 1), (("run", "undescribed"), 1), (("facts", "nodes", 0, "undescribed"), 1),
    ],
)  # fmt: skip
def test_a_report_that_is_wrong_somewhere_does_not_fit(place: tuple[Any, ...], value: Any) -> None:
    report: Any = kept("healthy")
    *way, last = place
    part = report
    for step in way:
        part = part[step]
    part[last] = value
    assert schema.problems(report) != []


def test_its_words_are_those_of_the_suite() -> None:
    told = schema.schema()["$defs"]
    assert set(told["verdict"]["enum"]) == {str(verdict) for verdict in ClaimVerdict}
    assert set(told["claim"]["properties"]["kind"]["enum"]) == {str(kind) for kind in ClaimKind}
    assert set(told["claim"]["properties"]["modality"]["enum"]) == {
        str(modality) for modality in Modality
    }


def test_the_page_about_it_names_every_part_of_a_report() -> None:
    page = (schema.FILE.parent / "README.md").read_text(encoding="utf-8")
    assert [name for name in schema.schema()["properties"] if f"`{name}`" not in page] == []
