"""The suites read as they should: short tests that say why, and leave loops, waits and decisions to the library."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SUITES = Path(__file__).parents[2] / "suites"
FILES = sorted(SUITES.rglob("*.py"))
FORBIDDEN = (
    ast.If,
    ast.For,
    ast.While,
    ast.Try,
    ast.With,
    ast.IfExp,
    ast.ListComp,
    ast.GeneratorExp,
    ast.Assert,
)
MAY_IMPORT = {"pytest", "conformance.fixtures", "conformance.marks", "conformance.catalog"}
SPEAKS_FOR_ITSELF = {
    "expect",
    "command",
    "requires",
    "fragments",
    "overlay",
    "known_issue",
    "page",
    "vni",
}
"""Fixtures whose methods are expectations."""


def functions_of(path: Path) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            yield node


def offences(path: Path) -> list[str]:
    """What in a suite file is against the conventions."""
    tree = ast.parse(path.read_text())
    found = [] if ast.get_docstring(tree) else ["no docstring that says what is guaranteed"]
    if len(path.read_text().splitlines()) > 200:
        found.append("longer than 200 lines")
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module not in MAY_IMPORT:
            found.append(f"{node.lineno}: imports {node.module}")
        if isinstance(node, ast.Import):
            found += [
                f"{node.lineno}: imports {name.name}"
                for name in node.names
                if name.name not in MAY_IMPORT
            ]
    for test in functions_of(path):
        found += [f"{test.lineno}: {problem}" for problem in _in_test(test)]
    return found


def _in_test(test: ast.FunctionDef) -> Iterator[str]:
    if not test.name.startswith("test_") or len(test.name.split("_")) < 5:
        yield f"{test.name} is no sentence"
    for node in ast.walk(test):
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Tuple)
            and isinstance(node.targets[0], ast.Tuple)
        ):
            yield f"{test.name} gives several values to several names at once; write a line for each"
        if isinstance(node, FORBIDDEN):
            # a choice between two words is no decision about what to check
            if isinstance(node, ast.IfExp) and isinstance(node.body, ast.Constant):
                continue
            yield f"{test.name} contains {type(node).__name__}"
        if _is_expectation(node) and not {"because", "of"} & {word.arg for word in node.keywords}:  # type: ignore[attr-defined]
            yield f"{test.name} expects something and does not say because="


def _is_expectation(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in SPEAKS_FOR_ITSELF
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SUITES)))
def test_a_suite_keeps_the_conventions(path: Path) -> None:
    assert offences(path) == []


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("    if pods:\n        expect.reachable(pods, because='x')", "contains If"),
        ("    for pod in pods:\n        pass", "contains For"),
        ("    expect.reachable(pods)", "does not say because="),
        ("    client, server = pods.a(), pods.b()", "several values to several names"),
        ("    assert pods", "contains Assert"),
    ],
)
def test_what_belongs_into_the_library_is_noticed(
    tmp_path: Path, body: str, complaint: str
) -> None:
    path = tmp_path / "test_x.py"
    path.write_text(f'"""Guarantee."""\n\n\ndef test_it_is_a_sentence(pods, expect):\n{body}\n')
    assert any(complaint in offence for offence in offences(path))


def test_a_foreign_import_and_a_missing_guarantee_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "test_x.py"
    path.write_text("from conformance.kube.client import Kube\n\n\ndef test_it():\n    pass\n")
    assert offences(path) == [
        "no docstring that says what is guaranteed",
        "1: imports conformance.kube.client",
        "4: test_it is no sentence",
    ]
