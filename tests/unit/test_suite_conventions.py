# SPDX-License-Identifier: Apache-2.0
"""Suite tests follow the conventions: they are short, state their reason, and leave loops, waits
and decisions to the library."""

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
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.AugAssign,
    ast.NamedExpr,
    ast.Match,
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
BY_CASES = {
    "expect": {"change", "base", "matrix", "under", "limitation", "controls", "sources"},
    "connections": {"under", "survive", "survive_or_reconnect"},
    "fabric": {"passes"},
    "flannel_fabric": {"passes"},
    "fragments": {"arrive"},
    "overlay": {"passes"},
    "own_node_hole": {"lets_in"},
}
"""Methods of fixtures that take cases, and no paths in another form."""
FOR_THE_LIBRARY = {"reachable", "control", "told", "heard"}
"""Methods of ``expect`` that take paths which an expectation of the library has put together."""


def functions_of(path: Path) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            yield node


def offences(path: Path) -> list[str]:
    """Return what in a suite file breaks the conventions, a line each."""
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
    cases = _bound_to_cases(test)
    for call in _calls(test):
        yield from (f"{test.name} {problem}" for problem in _in_call(call, cases))
    yield from (f"{test.name} {problem}" for problem in _aliases(test))


def _calls(node: ast.AST) -> list[ast.Call]:
    return [call for call in ast.walk(node) if isinstance(call, ast.Call)]


def _names_in(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _bound_to_cases(test: ast.FunctionDef) -> set[str]:
    """Return the names that a test gives to cases."""
    bound = [node for node in ast.walk(test) if isinstance(node, ast.Assign)]
    return {
        name
        for node in bound
        if any(map(_is_case, _calls(node.value)))
        for target in node.targets
        for name in _names_in(target)
    }


def _in_call(call: ast.Call, cases: set[str]) -> Iterator[str]:
    said = {word.arg for word in call.keywords}
    if isinstance(call.func, ast.Name) and call.func.id == "Case":
        if len(call.args) != 2 or any(isinstance(end, ast.Starred) for end in call.args):
            yield "has a case that does not name its clients and its servers"
        for word in ("open", "because"):
            if word not in said:
                yield f"has a case that does not say {word}="
    elif _is_by_cases(call):
        if not {"Case", *cases} & _names_in(call):
            yield "expects something and names no case"
        if said & {"open", "closed"}:
            yield "hides who asks whom in open= or closed=; write a case for each"
    elif _is_for_the_library(call):
        yield "expects paths that are no cases"
    elif _is_expectation(call) and not {"because", "of"} & said:
        yield "expects something and does not say because="


def _is_case(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Case"


def _is_by_cases(call: ast.Call) -> bool:
    func = call.func
    return (
        isinstance(func, ast.Attribute)
        and isinstance(func.value, ast.Name)
        and func.attr in BY_CASES.get(func.value.id, ())
    )


def _is_for_the_library(call: ast.Call) -> bool:
    return _is_expectation(call) and ast.unparse(call.func) in {
        f"expect.{name}" for name in FOR_THE_LIBRARY
    }


def _aliases(test: ast.FunctionDef) -> Iterator[str]:
    """Yield a line for each method that a test calls by another name or keeps uncalled."""
    called = {call.func.id for call in _calls(test) if isinstance(call.func, ast.Name)}
    for node in ast.walk(test):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute):
            names = {target.id for target in node.targets if isinstance(target, ast.Name)}
            for name in sorted(names & called):
                yield f"calls a method by another name: {name}"
    functions = {id(call.func) for call in _calls(test)}
    for node in ast.walk(test):
        if (
            isinstance(node, ast.Attribute)
            and ast.unparse(node.value) == "expect"
            and id(node) not in functions
        ):
            yield f"keeps expect.{node.attr} instead of calling it"


def parts_of(tree: ast.Module) -> Iterator[tuple[str, set[str], set[str]]]:
    """Each test with the parts that its marks name and those that its cases name."""
    known: dict[str, object] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant | ast.JoinedStr):
            known[ast.unparse(node.targets[0])] = _text(node.value, known)
    for test in tree.body:
        if isinstance(test, ast.FunctionDef):
            marks = [mark for mark in test.decorator_list if isinstance(mark, ast.Call)]
            verified = [mark for mark in marks if getattr(mark.func, "id", "") == "verifies"]
            cases = [call for call in _calls(test) if _is_case(call)]
            yield test.name, _named(verified, known), _named(cases, known)


def _named(calls: list[ast.Call], known: dict[str, object]) -> set[str]:
    words = [word for call in calls for word in call.keywords if word.arg == "part"]
    return {_text(word.value, known) for word in words}


def _text(node: ast.expr, known: dict[str, object]) -> str:
    """The text that a constant of the file, or an expression of such, has."""
    return str(eval(compile(ast.Expression(node), "suite", "eval"), {}, known))


def _is_expectation(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in SPEAKS_FOR_ITSELF
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SUITES)))
def test_a_suite_keeps_the_conventions(path: Path) -> None:
    found = offences(path)
    assert not found, f"what breaks the conventions of suites/, by line: {found}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SUITES)))
def test_parts_that_share_a_test_are_all_decided_by_its_cases(path: Path) -> None:
    for name, marked, of_cases in parts_of(ast.parse(path.read_text())):
        if of_cases:
            unnamed = [part for part in marked if not any(map(part.endswith, of_cases))]
            unknown = [end for end in of_cases if not any(part.endswith(end) for part in marked)]
            assert (name, unnamed, unknown) == (name, [], [])


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("    if pods:\n        expect.started(pods, because='x')", "contains If"),
        ("    for pod in pods:\n        pass", "contains For"),
        ("    expect.started(pods)", "does not say because="),
        ("    expect.change(pods)", "names no case"),
        ("    expect.matrix(open=[pods], closed=[pods], because='x')", "hides who asks whom"),
        ("    expect.reachable(pods, because='x')", "expects paths that are no cases"),
        ("    expect.control(pods, because='x')", "expects paths that are no cases"),
        ("    cases = [Case(pods, pods)]\n    expect.sources(pods, are=pods)", "names no case"),
        ("    connections.survive(pods, survives=pods, because='x')", "names no case"),
        ("    fragments.arrive(pods, because='x')", "names no case"),
        ("    pods += pods", "contains AugAssign"),
        ("    pods = {pod: pod for pod in pods}", "contains DictComp"),
        (
            "    expect.change(Case(pods, pods, tcp=80, open=True))",
            "case that does not say because=",
        ),
        (
            "    expect.change(Case(pods, pods, tcp=80, because='x'))",
            "case that does not say open=",
        ),
        ("    Case(*pods, open=True, because='x')", "does not name its clients and its servers"),
        ("    edit = expect.change\n    edit(pods)", "calls a method by another name: edit"),
        (
            "    edits = [expect.change]\n    edits[0](pods)",
            "keeps expect.change instead of calling it",
        ),
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
