# SPDX-License-Identifier: Apache-2.0
"""The oracle and the modules below it use no clock, no chance, no file and no cluster."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.unit.test_arrows import ROOT, imports
from tools.size import statements

PURE = {
    "__future__",
    "collections",
    "copy",
    "dataclasses",
    "enum",
    "functools",
    "ipaddress",
    "itertools",
    "math",
    "re",
    "reprlib",
    "contextlib",
}
PURE |= {"typing", "conformance"}
FILES = sorted((ROOT / "lib" / "conformance" / "policy").rglob("*.py"))
MOST_STATEMENTS = 1030


def test_it_imports_nothing_that_could_answer_otherwise_tomorrow() -> None:
    found = [
        f"{path.name}:{line} {name}"
        for path in FILES
        for line, name in imports(path)
        if top(name) not in PURE
    ]
    assert found == []


def top(name: str) -> str:
    return name.partition(".")[0]


def test_it_stays_small_enough_to_be_read() -> None:
    folder: Path = ROOT / "lib" / "conformance" / "policy" / "oracle"
    count = sum(statements(ast.parse(path.read_text())) for path in folder.glob("*.py"))
    assert count <= MOST_STATEMENTS
