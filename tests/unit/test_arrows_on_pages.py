# SPDX-License-Identifier: Apache-2.0
"""The pages on architecture show the tables with which the imports are compared."""

from __future__ import annotations

import pytest

from tests.unit.test_arrows import BASE, DOORS, JUDGE_ARROWS, LAB_ARROWS, ROOT

PAGES = [
    pytest.param("architecture.md", JUDGE_ARROWS, id="conformance"),
    pytest.param("lab-internals.md", LAB_ARROWS, id="hybridlab"),
]


def table(page: str, column: str) -> dict[str, list[str]]:
    """The first column of the table with this last column, to the words of the last; ``page``: its text."""
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in page.splitlines()
        if line.startswith("|")
    ]
    heads = [number for number, row in enumerate(rows) if row[-1] == column]
    assert len(heads) == 1, f"{len(heads)} tables with a column {column!r}"
    found: dict[str, list[str]] = {}
    for row in rows[heads[0] + 2 :]:
        if set(row[0]) == {"-"} or not row[0].startswith("`"):
            break
        assert row[0].strip("`") not in found, row[0]
        found[row[0].strip("`")] = row[-1].split(", ")
    return found


def arrows_on(page: str) -> dict[str, set[str]]:
    """Room to what it may import, as the table of a page says it, in its order."""
    rows = table(page, "may import")
    names = list(rows)

    def meant(words: list[str], number: int) -> set[str]:
        if words == ["none"]:
            return set()
        if words == ["every room below"]:
            return set(names[number + 1 :])
        return {word.strip("`") for word in words if word != "base"} | (
            BASE if "base" in words else set()
        )

    return {name: meant(words, number) for number, (name, words) in enumerate(rows.items())}


@pytest.mark.parametrize(("name", "arrows"), PAGES)
def test_the_page_and_the_rows_say_the_same_arrows(name: str, arrows: dict[str, set[str]]) -> None:
    written = arrows_on((ROOT / "docs" / name).read_text(encoding="utf-8"))
    assert list(written) == list(arrows)
    assert {room: sorted(may) for room, may in written.items()} == {
        room: sorted(may) for room, may in arrows.items()
    }


def test_the_page_and_the_rows_say_the_same_doors() -> None:
    written = table((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), "rooms")
    assert {name: sorted(room.strip("`") for room in rooms) for name, rooms in written.items()} == {
        name: sorted(rooms) for name, rooms in DOORS.items()
    }


def test_a_row_of_a_page_is_read_as_it_is_written() -> None:
    rows = (
        "room | for | may import",
        "--- | --- | ---",
        "`a` | x | every room below",
        "`b` | x | `c`, base",
        "`c` | x | none",
    )
    page = "\n".join(f"| {row} |" for row in rows)
    assert arrows_on(page) == {"a": {"b", "c"}, "b": {"c"} | BASE, "c": set()}
