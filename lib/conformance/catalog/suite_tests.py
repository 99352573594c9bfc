# SPDX-License-Identifier: Apache-2.0
"""The tests of the suites and the claims that they decide, read from the text of their files."""

import ast
import functools
import re
from dataclasses import dataclass, field
from pathlib import Path

from conformance.catalog.loading import Catalog


@dataclass
class SuiteTest:
    """A test function, read from the text of its file."""

    names: tuple[str, ...]
    """The names of the test's file, folder and function."""
    place: str = ""
    """The test's node id without parameters, such as ``suites/dns/test_records.py::test_a_record``.
    """
    claims: set[str] = field(default_factory=set)
    said: set[str] = field(default_factory=set)
    is_last: bool = False
    """True if the test judges the standing watch, which probes paths during the whole run. Such a
    test runs after all other tests."""

    def about(self, catalog: Catalog) -> set[str]:
        """Return the test's claims, the subjects of these claims, and the subjects that the test
        names itself."""
        return self.said.union(
            self.claims, *(catalog[claim].tags for claim in self.claims if claim in catalog)
        )


@functools.cache
def suite_tests(suites: Path) -> list[SuiteTest]:
    """Return every test function below a folder of suites, without running their code."""
    found = []
    for path in sorted(suites.rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        common = SuiteTest(())
        for node in tree.body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "pytestmark":
                _read(node.value, common)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                test = SuiteTest(
                    (path.name, path.parent.name, node.name),
                    f"{path.relative_to(suites.parent).as_posix()}::{node.name}",
                    set(common.claims),
                    set(common.said),
                )
                for mark in node.decorator_list:
                    _read(mark, test)
                    test.is_last |= "after_all_others" in ast.unparse(mark)
                    if re.search("each_(world|story)", ast.unparse(mark)):
                        test.claims |= _of_worlds(suites)
                found.append(test)
    return found


@functools.cache
def _of_worlds(suites: Path) -> frozenset[str]:
    """Return the claims that the YAML files of policy worlds and policy stories name."""
    texts = [path.read_text(encoding="utf-8") for path in (suites / "policy").rglob("*.yaml")]
    return frozenset(
        claim
        for text in texts
        for claim in re.findall(r"^(?:claim|beside): \[?([A-Z0-9-]+)", text, re.M)
    )


def _read(marks: ast.AST, into: SuiteTest) -> None:
    """Add the claims and subjects that the marks in this code name to the test ``into``."""
    for call in ast.walk(marks):
        name = getattr(call.func, "id", "") if isinstance(call, ast.Call) else ""
        given = [
            str(constant.value)
            for constant in getattr(call, "args", ())
            if isinstance(constant, ast.Constant)
        ]
        if name in ("verifies", "each_build"):  # the first argument of both is a claim
            into.claims.update(given[:1])
        elif name == "about":
            into.said.update(given)
