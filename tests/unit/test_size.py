# SPDX-License-Identifier: Apache-2.0
"""Functions in lib/ stay simple: complexity and parameters have limits, with lists of exceptions that only shrink."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests import fast_yaml
from tools.size import COMPLEX, Room, functions, packed_assignments, rooms, statements

ROOT = Path(__file__).parents[2]
LIB = ROOT / "lib"
COLUMNS = 100
MEASURED = ("lib", "suites", "tests", "tools", "benchmarks")
LINES = 500
"""The most lines that a file of lib/ or tests/, or a probe program, may have."""
PARAMETERS = 7
"""The most parameters that a function may have; constructors and their like are exempt."""
STATEMENTS = 2400
"""The most statements that a room of the judge may have; a nested package is a room of its own."""
ALLOWED = fast_yaml.load(Path(__file__).with_name("size_exceptions.yaml").read_text())


@cache
def measured() -> dict[str, Room]:
    """Measure lib/ once: that takes seconds."""
    return rooms(LIB)


@cache
def too_complex() -> set[str]:
    return {
        one.address
        for room in measured().values()
        for one in room.functions
        if one.complexity > COMPLEX
    }


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    arguments = function.args
    named = [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len([name for name in named if name not in ("self", "cls")])


def with_too_many_parameters(tree: ast.Module, path: str) -> Iterator[str]:
    found = (
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    for function in found:
        if function.name != "__init__" and parameters(function) > PARAMETERS:
            yield f"{path}:{function.name}"


@cache
def all_with_too_many_parameters() -> set[str]:
    return {
        address
        for path in LIB.rglob("*.py")
        for address in with_too_many_parameters(
            ast.parse(path.read_text()), str(path.relative_to(LIB))
        )
    }


def test_no_function_is_more_complex_than_the_limit() -> None:
    over = sorted(too_complex())
    assert not over, f"complexity above {COMPLEX}; take these apart by meaning: {over}"


def test_no_function_has_more_parameters_than_the_limit() -> None:
    new = sorted(all_with_too_many_parameters() - set(ALLOWED["parameters"]))
    assert not new, f"more than {PARAMETERS} parameters; group what belongs together: {new}"


def test_the_list_of_functions_with_many_parameters_only_shrinks() -> None:
    mended = sorted(set(ALLOWED["parameters"]) - all_with_too_many_parameters())
    assert not mended, (
        f"at most {PARAMETERS} parameters now; remove these from size_exceptions.yaml: {mended}"
    )


@cache
def long_lines() -> dict[str, int]:
    """Count the lines above COLUMNS columns of each file that has some."""
    found = {}
    for path in sorted(file for folder in MEASURED for file in (ROOT / folder).rglob("*.py")):
        count = sum(len(line) > COLUMNS for line in path.read_text().splitlines())
        if count:
            found[str(path.relative_to(ROOT))] = count
    return found


def test_no_file_has_more_long_lines_than_its_exception_allows() -> None:
    allowed = ALLOWED["long lines"]
    more = [f"{path}: {count}, {allowed.get(path, 0)} allowed" for path, count in long_lines().items()
            if count > allowed.get(path, 0)]  # fmt: skip
    assert not more, f"lines above {COLUMNS} columns: {more}"


def test_the_list_of_long_lines_only_shrinks() -> None:
    fewer = {path: long_lines().get(path, 0) for path, count in ALLOWED["long lines"].items()
             if long_lines().get(path, 0) < count}  # fmt: skip
    assert not fewer, (
        f"fewer lines above {COLUMNS} columns; write this into size_exceptions.yaml: {fewer}"
    )


@cache
def long_files() -> dict[str, int]:
    """Count the lines of each file that has more than LINES."""
    found = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for path in (
            *LIB.rglob("*.py"),
            *(ROOT / "tests").rglob("*.py"),
            *(ROOT / "manifests" / "probes").glob("*.py"),
        )
    }
    return {path: count for path, count in found.items() if count > LINES}


def test_no_file_is_longer_than_the_limit_or_its_exception() -> None:
    allowed = ALLOWED["long files"]
    over = {path: count for path, count in long_files().items() if count > allowed.get(path, LINES)}
    assert not over, f"more than {LINES} lines; split these by what a reader looks for: {over}"


def test_the_list_of_long_files_only_shrinks() -> None:
    fewer = {
        path: long_files().get(path, 0)
        for path, count in ALLOWED["long files"].items()
        if long_files().get(path, 0) < count
    }
    assert not fewer, f"write this into size_exceptions.yaml: {fewer}"


def large_rooms() -> dict[str, int]:
    """Count the statements of each room of the judge that has more than STATEMENTS."""
    return {
        name: room.statements
        for name, room in measured().items()
        if name.startswith("conformance") and room.statements > STATEMENTS
    }


def test_no_room_of_the_judge_is_larger_than_the_limit() -> None:
    over = large_rooms()
    assert not over, f"more than {STATEMENTS} statements; split these by subject: {over}"


def test_no_assignment_of_lib_packs_several_values() -> None:
    counts = {
        str(path.relative_to(LIB)): packed_assignments(ast.parse(path.read_text()))
        for path in LIB.rglob("*.py")
    }
    packed = {path: count for path, count in counts.items() if count}
    assert not packed, f"write one assignment per line: {packed}"


def unformatted() -> set[str]:
    """Return the files of lib/ in which something keeps a format of its own."""
    return {
        str(path.relative_to(LIB))
        for path in LIB.rglob("*.py")
        if "# fmt: skip" in path.read_text()
    }


def test_only_tables_keep_a_format_of_their_own() -> None:
    named = set(ALLOWED["tables with a format of their own"])
    new, gone = sorted(unformatted() - named), sorted(named - unformatted())
    assert not new, f"fmt: skip outside the tables that size_exceptions.yaml names: {new}"
    assert not gone, (
        f"nothing has a format of its own; remove these from size_exceptions.yaml: {gone}"
    )


@pytest.mark.parametrize(
    ("source", "count"),
    [
        pytest.param('"""Doc."""\nimport os\nfrom a import b\n', 0, id="docstring and imports"),
        pytest.param("a, b, c = 1, 2, 3\n", 3, id="packed assignment"),
        pytest.param("a, b = pair()\n", 1, id="a pair taken apart"),
        pytest.param("def f():\n    if a:\n        return b\n", 3, id="def, if and return"),
    ],
)
def test_statements_are_counted_per_name(source: str, count: int) -> None:
    assert statements(ast.parse(source)) == count


def test_packed_assignments_are_those_of_several_values() -> None:
    assert packed_assignments(ast.parse("a, b = 1, 2\nc, d = pair()\ne = 1, 2\n")) == 1


def test_a_planted_function_is_measured() -> None:
    branches = "".join(f"    if a == {number}:\n        return\n" for number in range(COMPLEX))
    (found,) = functions(
        f"class C:\n  def f(a):\n{branches.replace('    ', '      ')}", "room/file.py"
    )
    assert (found.address, found.complexity) == ("room/file.py:C.f", COMPLEX + 1)


def test_planted_parameters_are_counted_without_self() -> None:
    names = ", ".join(f"p{number}" for number in range(PARAMETERS + 1))
    tree = ast.parse(f"class C:\n  def f(self, {names}): ...\n  def __init__(self, {names}): ...\n")
    assert list(with_too_many_parameters(tree, "file.py")) == ["file.py:f"]
