# SPDX-License-Identifier: Apache-2.0
"""Detection changes the lab by its taps and replaces no attribute of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.detection.test_taps import FOLDER

REPLACING = {"setattr", "patch", "setitem", "delattr"}


def replaced(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that replace an attribute of what a file imports from the lab."""
    lab = {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if (getattr(node, "module", None) or alias.name).partition(".")[0] == "hybridlab"
    }

    def of_the_lab(node: ast.expr) -> bool:
        while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
            node = node.func if isinstance(node, ast.Call) else node.value
        if isinstance(node, ast.Constant):
            return str(node.value).startswith("hybridlab")
        return isinstance(node, ast.Name) and node.id in lab

    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts = [part for target in targets for part in getattr(target, "elts", [target])]
            if any(isinstance(part, ast.Attribute) and of_the_lab(part) for part in parts):
                yield node.lineno
        if isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called in REPLACING and any(map(of_the_lab, node.args[:1])):
                yield node.lineno


@pytest.mark.parametrize(
    "source",
    [
        "from hybridlab.policy.resolve import Graph\nGraph.members = None",
        "from hybridlab.policy import selectors\nselectors.In.matches, x = None, 1",
        "from hybridlab.calico import typha\nsetattr(typha, 'slice_members', None)",
        "from hybridlab.calico import typha\nmonkeypatch.setattr(typha, 'Typha', None)",
        "mock.patch('hybridlab.calico.typha.Typha')",
        "import hybridlab.calico\nhybridlab.calico.typha.Typha = None",
    ],
)
def test_a_planted_replacement_is_found(source: str) -> None:
    assert list(replaced(ast.parse(source)))


def test_detection_replaces_no_attribute_of_the_lab() -> None:
    found = {
        f"{path.relative_to(FOLDER)}:{line}"
        for path in sorted(FOLDER.rglob("*.py"))
        for line in replaced(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert not found, f"change what passes a seam by a tap (taps/seams.py): {sorted(found)}"
