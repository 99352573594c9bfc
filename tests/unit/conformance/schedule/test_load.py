# SPDX-License-Identifier: Apache-2.0
"""Messages about a machine with a high load, and how far behind it was."""

from __future__ import annotations

import pytest

from conformance.schedule import load


def test_a_machine_with_more_processes_than_it_can_serve_is_busy() -> None:
    assert load.busy(lambda: (9.26, 1.0, 1.0), 2, lambda: 0.99) == "a load of 9.3 on 2 cores"
    assert load.busy(lambda: (9.26, 1.0, 1.0), 2, lambda: None) == "a load of 9.3 on 2 cores"
    assert load.busy(lambda: (9.26, 1.0, 1.0), 2, lambda: 0.5) == "", "that has passed"
    assert load.busy(lambda: (3.9, 9.0, 9.0), 2, lambda: 0.99) == ""


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        ([], ""),
        ([{"behind": 0.49, "given": 0, "excused": 0}], ""),
        (
            [{"behind": 0.6, "given": 0, "excused": 0}, {"behind": 4.04, "given": 0, "excused": 0}],
            "this machine was behind by up to 4.0 s",
        ),
        (
            [{"behind": 0.1, "given": 2, "excused": 0}, {"behind": 1.5, "given": 1, "excused": 1}],
            "this machine was behind by up to 1.5 s; 3 waits got more time because of that; 1 path could not be decided because of that",
        ),
    ],
)
def test_how_far_behind_the_machine_was_is_said_where_it_matters(
    measured: list[dict[str, float]], said: str
) -> None:
    assert load.note(measured) == said
