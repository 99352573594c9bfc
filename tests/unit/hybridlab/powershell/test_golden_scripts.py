# SPDX-License-Identifier: Apache-2.0
"""The emulated PowerShell answers like a real one or refuses by name, and never answers
otherwise (golden/README.md)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.unit.hybridlab.powershell.scripts import Answer, answers, cases, lines

REAL = cases("real.jsonl")
COMMENTS = cases("comments.jsonl")
LAST = cases("last.jsonl")
REASONED = cases("reasoned.jsonl")
ANSWERED = 67
"""Of the real scripts, as docs/lab.md says: a refusal is honest, but a shell that refuses everything is of no use."""


@cache
def answered(file: str) -> dict[str, Answer]:
    cases_of = {"real": REAL, "comments": COMMENTS, "last": LAST, "reasoned": REASONED}
    return answers(cases_of[file])


@pytest.mark.parametrize("case", [*REAL, *COMMENTS, *LAST], ids=lambda case: case["id"])
def test_a_script_gets_the_real_answer_or_a_refusal_by_name(case: dict[str, object]) -> None:
    file = "comments" if case in COMMENTS else "last" if case in LAST else "real"
    answer = answered(file)[str(case["id"])]
    assert "in the lab's PowerShell" not in answer.stderr, (
        "a defect of the emulation, not a refusal"
    )
    if not answer.refused:
        expected = lines("\n".join(map(str, case["stdout"])))  # type: ignore[call-overload]
        assert (answer.exit, answer.stdout) == (case["exit"], expected)
        assert bool(answer.stderr) == case["error"], answer.stderr


def test_as_many_real_scripts_are_answered_as_the_page_says() -> None:
    refused = [name for name, answer in answered("real").items() if answer.refused]
    assert len(REAL) - len(refused) == ANSWERED, refused
    page = Path(__file__).parents[4] / "docs" / "lab.md"
    assert f"(the lab answers {ANSWERED} of them) and {len(REASONED)} scripts" in page.read_text(
        encoding="utf-8"
    )


def test_the_last_objects_are_selected_unless_the_first_are_asked_for_too() -> None:
    refused = [name for name, answer in answered("last").items() if answer.refused]
    assert refused == ["last-and-first"]


def test_block_comments_are_answered_but_where_they_are_glued_to_a_word() -> None:
    refused = {
        name.removeprefix("comment-")
        for name, answer in answered("comments").items()
        if answer.refused
    }
    assert refused == {
        "after-variable", "alias-glued", "between-arguments", "call", "catch-glued", "command-name", "else-glued",
        "end-alone", "exit-glued", "glued-open",
        "glued-to-word", "if-glued", "in-glued", "in-texts", "index", "lines-between-arguments", "member",
        "open", "open-first", "open-overlap", "parameter", "parameter-hidden", "try-glued",
    }  # fmt: skip


@pytest.mark.parametrize("case", REASONED, ids=lambda case: case["id"])
def test_a_script_gets_the_answer_that_the_documents_imply(case: dict[str, object]) -> None:
    answer = answered("reasoned")[str(case["id"])]
    if "refused" in case:
        assert answer.exit == 1
        assert answer.refused.startswith(str(case["refused"]))
        return
    assert answer.refused == ""
    expected = lines("\n".join(map(str, case["stdout"])))  # type: ignore[call-overload]
    assert (answer.exit, answer.stdout) == (case["exit"], expected)
    assert bool(answer.stderr) == case["error"], answer.stderr
