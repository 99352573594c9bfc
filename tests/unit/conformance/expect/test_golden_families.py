# SPDX-License-Identifier: Apache-2.0
"""The whole text of one failure of each family, and the form of every first line, which must be
enough at 3 a.m."""

from __future__ import annotations

import re

import pytest

from tests.unit.conformance.expect.golden_families import FAMILIES, text_of, written

COUNTED = r"\([^()]*\b\d+ (?:try|tries)\b[^()]*\b[\dN.]+ s\b[^()]*\)"
"""``(3 tries, 5.0 s)``, ``(1 try, 12.3 s after the loss)``."""
READ = r"\(read (?:once|\d+ times?, [\d.]+ s)\)"
WAITED = r"\(waited \d+ s\)"
FORM = re.compile(
    r"[A-Z]+-\d+(?:: [^:]+: (?:control [^:]*failed: )?"
    r"|  (?:control [^:]*failed: |pod .*; affected: )?\S.*  )"
    rf"expected .+, observed .+ (?:{COUNTED}|{READ}|{WAITED})(?:, \d+ of \d+ paths)?(?:: .+)?"
)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_failure_of_each_family_reads_letter_by_letter_as_written(family: str) -> None:
    assert text_of(family) == written()[family], (
        "python -m tests.unit.conformance.expect.golden_families writes it anew"
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_every_first_line_says_claim_ends_expected_observed_tries_and_seconds(family: str) -> None:
    _, first, second, *_ = text_of(family).splitlines()
    assert FORM.fullmatch(first), first
    assert "  expected" in first or second.split()[0] == "path", (
        "what is wrong where, then the path"
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_every_failure_says_what_to_do(family: str) -> None:
    assert re.search(r"^  do +\S", text_of(family), re.MULTILINE)


def test_no_text_is_left_of_a_family_that_is_gone() -> None:
    assert list(written()) == list(FAMILIES)
