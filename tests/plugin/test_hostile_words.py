# SPDX-License-Identifier: Apache-2.0
"""No text in facts, notes, errors or tests becomes a command for whatever reads the output of a
run."""

from __future__ import annotations

import json
import re
import unicodedata

import pytest

from .conftest import Project, Run

WORDS = (
    "hostile\x1b]0;owned\x07\x1b[2J\x9b\u202e\u2028\r\n::error::x\n##vso[task.complete]x ##[error]x"
)
COMMAND = re.compile(r"##\w*\[|^(?:\s|\x1b\[[0-9;]*m)*::", re.MULTILINE)
COLOUR = re.compile(r"\x1b\[[0-79;]*m")

FAILS = f"""
import logging
import warnings

WORDS = {WORDS!r}

@verifies("DEMO-2")
def test_it(record):
    print(WORDS)
    logging.getLogger("x").error(WORDS)
    warnings.warn(WORDS)
    raise AssertionError(WORDS)

@verifies("DEMO-2")
def test_other(record):
    raise ValueError(WORDS)

@verifies("DEMO-2")
def test_skipped(record):
    pytest.skip(WORDS)
"""


def demand_harmless(run: Run, *, coloured: bool = False) -> None:
    text = COLOUR.sub("", run.out) if coloured else run.out
    for place, char in enumerate(text):
        is_obeyed = unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp") and char not in "\t\n"
        assert not is_obeyed, repr(text[max(0, place - 80) : place + 20])
    assert COMMAND.findall(text) == []


@pytest.mark.parametrize("colour", ["yes", "no"])
def test_what_tests_raise_and_print_is_obeyed_by_nobody(project: Project, colour: str) -> None:
    project.suite(FAILS)
    run = project.run("-rA", f"--color={colour}", "-vv", "--log-cli-level=ERROR")
    demand_harmless(run, coloured=colour == "yes")
    assert run.out.count("hostile\\x1b]0;owned") >= 6
    assert run.code in (1, 6)


def test_facts_and_notes_are_one_line_each(project: Project) -> None:
    project.suite(FAILS)
    told = {"platform": WORDS, "last look": [WORDS, "second"]}
    run = project.run("-k", "demo", "-n", "2", STAND_IN=json.dumps(told))
    demand_harmless(run)
    notes = [line for line in run.out.splitlines() if line.startswith("note: ")]
    assert "note: second" in notes
    assert sum("hostile" in note and "task.complete" in note for note in notes) == 1


@pytest.mark.parametrize(
    ("told", "code"),
    [
        ({"broken": WORDS}, 7),
        ({"unusable": [WORDS]}, 7),
        ({"unusable": [WORDS, WORDS]}, 7),
        ({"usage": WORDS}, 4),
        ({"token_ends": WORDS}, 3),
    ],
    ids=["broken", "unusable", "for several reasons", "usage", "not foreseen"],
)
def test_why_a_run_cannot_begin_is_obeyed_by_nobody_and_no_verdict(
    project: Project, told: dict[str, object], code: int
) -> None:
    project.suite(FAILS)
    run = project.run(STAND_IN=json.dumps(told))
    demand_harmless(run)
    assert run.code == code
    assert "hostile" in run.out
