# SPDX-License-Identifier: Apache-2.0
"""No module outside ``verdicts/`` and ``model/`` chooses among a claim's verdicts; planted choices are found.

A choice is a conditional expression that has a verdict for an end, a table that is indexed and gives verdicts, or a
function that gives several: which of them it is follows from a rule, and rules are in one room.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RULES = ("verdicts", "model")
"""Rooms that may choose."""


def given(node: ast.AST) -> Iterator[str]:
    """The verdicts that an expression or a statement can give; what it compares with, or looks for, is none."""
    if isinstance(node, ast.Compare | ast.Set | ast.FunctionDef | ast.ClassDef | ast.Lambda):
        return
    if (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "ClaimVerdict"
    ):
        yield node.attr
        return
    for child in ast.iter_child_nodes(node):
        yield from given(child)


def _rows(table: ast.expr | None) -> set[str]:
    """The verdicts that a table gives."""
    values = (
        table.values
        if isinstance(table, ast.Dict)
        else [table]
        if isinstance(table, ast.Tuple | ast.List)
        else []
    )
    return {verdict for value in values for verdict in given(value)}


def choices(source: str) -> list[int]:
    """Lines on which a module chooses a verdict."""
    found = set()
    tree = ast.parse(source)
    tables = {
        target.id
        for statement in tree.body
        if isinstance(statement, ast.Assign | ast.AnnAssign) and len(_rows(statement.value)) > 1
        for target in (
            statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        )
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            several = {verdict for statement in node.body for verdict in given(statement)}
            found |= {node.lineno} if len(several) > 1 else set()
        elif isinstance(node, ast.IfExp):
            found |= {node.lineno} if [*given(node.body), *given(node.orelse)] else set()
        elif isinstance(node, ast.BoolOp):
            found |= (
                {node.lineno} if [one for value in node.values for one in given(value)] else set()
            )
        elif (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Name)
            and node.value.id in tables
        ):
            found.add(node.lineno)
    return sorted(found)


def test_every_rule_about_verdicts_is_in_their_room() -> None:
    lib = ROOT / "lib" / "conformance"
    found = [
        f"{path.relative_to(lib)}:{line}"
        for path in sorted(lib.rglob("*.py"))
        if path.relative_to(lib).parts[0] not in RULES
        for line in choices(path.read_text(encoding="utf-8"))
    ]
    assert found == []


PLANTED = [
    pytest.param(
        "def f(lacks): return ClaimVerdict.NOT_RUN if lacks else ClaimVerdict.INCONCLUSIVE",
        id="conditional",
    ),
    pytest.param(
        "def f(lost, said): return ClaimVerdict.INCONCLUSIVE if lost else said", id="one end"
    ),
    pytest.param("def f(said): return said or ClaimVerdict.NOT_RUN", id="or"),
    pytest.param(
        "def f(a):\n  if a:\n    return ClaimVerdict.VIOLATED\n  return ClaimVerdict.UNMET",
        id="returns",
    ),
    pytest.param(
        "def f(a):\n  say(ClaimVerdict.LIFTED)\n  if a: say(ClaimVerdict.CONFIRMED)", id="two calls"
    ),
    pytest.param(
        "V = (ClaimVerdict.INCONCLUSIVE, ClaimVerdict.NOT_RUN)\ndef f(a): return V[a]", id="indexed"
    ),
    pytest.param(
        "V = {1: ClaimVerdict.LIFTED, 0: ClaimVerdict.CONFIRMED}\ndef f(a): return V[a]",
        id="mapped",
    ),
]


@pytest.mark.parametrize("source", PLANTED)
def test_a_planted_choice_is_found(source: str) -> None:
    assert choices(source)


ALLOWED = [
    pytest.param("def f(a): return 1 if a is ClaimVerdict.VIOLATED else 2", id="compared"),
    pytest.param(
        "def f(a): return a & {ClaimVerdict.VIOLATED, ClaimVerdict.UNMET}", id="looked for"
    ),
    pytest.param("def f(): return ClaimVerdict.NOT_RUN", id="one"),
    pytest.param(
        "WORDS = {ClaimVerdict.VIOLATED: 'F', ClaimVerdict.UNMET: 'U'}\ndef f(a): return WORDS[a]",
        id="words",
    ),
    pytest.param(
        "V = (ClaimVerdict.VIOLATED, ClaimVerdict.UNMET)\ndef f(a): return a in V", id="members"
    ),
]


@pytest.mark.parametrize("source", ALLOWED)
def test_what_is_said_of_a_verdict_is_no_choice(source: str) -> None:
    assert choices(source) == []


def test_verdicts_are_written_by_their_class() -> None:
    """The rule above reads ``ClaimVerdict.NAME``: nobody gives the class another name."""
    lib = ROOT / "lib" / "conformance"
    renamed = [
        path for path in lib.rglob("*.py") if "ClaimVerdict as " in path.read_text(encoding="utf-8")
    ]
    assert renamed == []
