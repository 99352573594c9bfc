# SPDX-License-Identifier: Apache-2.0
"""The whole advice of each family of failures: each condition that chooses advice decides some."""

from __future__ import annotations

import pytest

from tests.unit.conformance.expect.golden_advice import FAMILIES, advice_of, written


@pytest.mark.parametrize("family", FAMILIES)
def test_the_advice_of_each_family_reads_letter_by_letter_as_written(family: str) -> None:
    assert advice_of(family) == written()[family], (
        "python -m tests.unit.conformance.expect.golden_advice writes it anew"
    )


def test_no_advice_is_left_of_a_family_that_is_gone() -> None:
    assert list(written()) == list(FAMILIES)
