# SPDX-License-Identifier: Apache-2.0
"""Expressions of a cluster are read as RE2 reads them, within bounds."""

from __future__ import annotations

import pytest

from conformance.model.expression import LONGEST, matches, problem


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("calico.*", ""),
        ("", ""),
        ("x" * LONGEST, ""),
        ("x" * (LONGEST + 1), "it has 1001 characters, but at most 1000 are read"),
        ("calico[", "missing ]"),
        (r"(a)\1", "invalid escape sequence"),
        ("(a{500}){500}", "invalid repetition size"),
        ("\ud800", "it is not text"),
    ],
)
def test_an_expression_that_cannot_be_used_says_why(expression: str, why: str) -> None:
    found = problem(expression)
    assert found.startswith(why)
    assert bool(found) is bool(why)


@pytest.mark.parametrize(
    ("expression", "text", "found"),
    [
        ("calico.*", "Calico", True),
        ("^calico$", "my-calico", False),
        ("calico", "my-Calico-2", True),
        ("azure", "calico", False),
        ("a", "\ud800a", True),
    ],
)
def test_an_expression_matches_anywhere_in_a_text_whatever_its_case(
    expression: str, text: str, found: bool
) -> None:
    assert matches(expression, text) is found
