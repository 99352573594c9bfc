# SPDX-License-Identifier: Apache-2.0
"""Methods of probing are compared only within one run, and the totals contain only counted
values."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import probing
from benchmarks.probing import BEGIN, END, PAGE, Book, Figure, section


def figure(
    method: str,
    seconds: float,
    *,
    run: str = "2026-01-02",
    wrong: int | None = 0,
    execs: int | None = 0,
) -> Figure:
    return Figure(
        size=9, cost=0, policy="half", give_up=1, method=method, run=run, seconds=seconds, execs=execs, pairs=81,
        rounds=1, wrong=wrong, load=1.0, date="2026-01-02",
    )  # fmt: skip


@pytest.fixture
def book(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Book:
    monkeypatch.setattr(probing, "RESULTS", tmp_path / "probing.json")
    return Book()


def row(book: Book) -> list[str]:
    return [
        cell.strip()
        for cell in next(line for line in section(book).splitlines() if "| 9x9 |" in line).split(
            "|"
        )
    ]


def test_methods_of_one_run_are_compared(book: Book) -> None:
    book.put(figure("warm", 2.0))
    book.put(figure("naive-3", 20.0))
    assert row(book)[10] == "10"
    assert row(book)[13] == "A"


def test_methods_of_different_runs_are_not_compared_and_said_to_be_of_different_runs(
    book: Book,
) -> None:
    book.put(figure("warm", 2.0))
    book.put(figure("naive-3", 20.0, run="2026-01-03"))
    assert row(book)[10] == "-"
    assert row(book)[13] == "A, B"
    assert "- A: one run, begun 2026-01-02. Machine: " in section(book)


def test_what_a_method_does_not_count_is_in_no_total(book: Book) -> None:
    book.put(figure("warm", 2.0, wrong=3))
    book.put(figure("decision", 5.0, wrong=None, execs=None))
    assert "Pairs with a result that contradicts the policy: 3 of 81 probed" in section(book)


def test_agents_that_a_warm_round_had_to_start_are_shown(book: Book) -> None:
    book.put(figure("warm", 2.0, execs=7))
    assert row(book)[5] == "2.00 s (7 started)"


def test_the_limits_that_the_suite_does_not_have_are_named(book: Book) -> None:
    assert "200 agents may live and 200 clients" in section(book)
    assert "in a run of the suite the limits are 60 and 64" in section(book)


def test_the_page_is_what_the_results_make_it() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text[text.index(BEGIN) : text.index(END) + len(END)] == section(Book())
