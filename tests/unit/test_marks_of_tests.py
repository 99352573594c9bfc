# SPDX-License-Identifier: Apache-2.0
"""Marks of this project's own tests are known wherever they select tests."""

import re
from pathlib import Path

from tests.conftest import MARKS

TESTS = Path(__file__).parents[1]
OTHERS = {
    "filterwarnings", "parametrize", "skip", "skipif", "usefixtures", "xfail", "xdist_group",
    "undecided",
}  # fmt: skip
"""pytest's and its plugins', and one of the runs that tests/plugin makes."""


def own(text: str) -> set[str]:
    """The marks that a text names."""
    return set(re.findall(r"pytest\.mark\.(\w+)", text)) - OTHERS


def test_every_mark_is_registered_for_all_tests() -> None:
    used = set[str]().union(
        *(own(path.read_text(encoding="utf-8")) for path in TESTS.rglob("*.py"))
    )
    assert used == {line.partition(":")[0] for line in MARKS}
