# SPDX-License-Identifier: Apache-2.0
"""A count and its noun go together."""

import pytest

from conformance.model.counted import counted


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 agents"), (1, "1 agent"), (2, "2 agents")],
    ids=["none", "one", "more"],
)
def test_the_noun_has_the_form_that_goes_with_the_number(number: int, text: str) -> None:
    assert counted(number, "agent") == text


def test_an_irregular_plural_is_given() -> None:
    assert (counted(1, "try", "tries"), counted(3, "try", "tries")) == ("1 try", "3 tries")
