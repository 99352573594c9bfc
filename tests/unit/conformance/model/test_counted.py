# SPDX-License-Identifier: Apache-2.0
"""A count and its noun agree in number."""

import pytest

from conformance.model.counted import counted, lasting


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 agents"), (1, "1 agent"), (2, "2 agents")],
    ids=["none", "one", "more"],
)
def test_the_noun_has_the_form_that_goes_with_the_number(number: int, text: str) -> None:
    assert counted(number, "agent") == text


def test_an_irregular_plural_is_given() -> None:
    assert (counted(1, "try", "tries"), counted(3, "try", "tries")) == ("1 try", "3 tries")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.4, "0 s"), (20.0, "20 s"), (89.4, "89 s"), (90.0, "2 min"), (900.0, "15 min")],
)
def test_a_length_of_time_is_told_in_seconds_as_long_as_minutes_say_less(
    seconds: float, said: str
) -> None:
    assert lasting(seconds) == said
