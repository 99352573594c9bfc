# SPDX-License-Identifier: Apache-2.0
"""docs/other-suites.md names existing claims, and calls no spec replaced by a claim without a
test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conformance.catalog import catalog
from tests.detection.table import read

PAGE = Path(__file__).parents[2] / "docs" / "other-suites.md"
ROWS = [
    line.split("|")[1:4]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ")
]
BESIDE = [
    (spec.strip(), claims.strip(), what.strip())
    for spec, claims, what in ROWS
    if claims.strip() not in ("claims", "---")
]
ID = re.compile(r"\b[A-Z]+-\d+\b")


@pytest.mark.parametrize(
    ("spec", "claims", "what"), BESIDE, ids=[spec[:40] for spec, _, _ in BESIDE]
)
def test_a_spec_is_replaced_by_claims_that_are_tested(spec: str, claims: str, what: str) -> None:
    named = ID.findall(claims)
    assert set(named) <= set(catalog())
    assert bool(named) != what.startswith("not covered")
    if what == "replaces":
        assert set(named) <= set(read().clean)


def test_what_only_this_suite_checks_is_tested() -> None:
    text = PAGE.read_text(encoding="utf-8").partition("## What only this suite checks")[2]
    assert ID.findall(text), "the section is missing"
    assert set(ID.findall(text)) <= set(read().clean)
