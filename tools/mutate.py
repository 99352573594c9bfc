# SPDX-License-Identifier: Apache-2.0
"""Change lines of the judge at random and see whether a test notices: ``python -m tools.mutate``.

Which lines are changed follows from the seed, by default the id of the commit. Everything happens
in a copy of the checkout. The unit tests run once, and coverage records which test executes which
line. Each changed line is tried with the unit tests that execute it, the quickest first, until one
fails. If only the import of its module executes a line, the line is tried with all unit tests that
execute any part of its file. A change that no test notices survives. So does a change if its tests
fail, or take too long, even without the change. If more than ``--survivors`` changes survive, the
survivors are tried with tests/plugin, which takes many minutes each, until few enough are left.
More survivors end the command with 1. ``--part 2/4`` tries only the second quarter of the sample.
``--records FOLDER`` stores which lines the unit tests execute, for the next sample of the same
checkout. The changes are cosmic-ray's. Those that no test could notice are not made: annotations,
caches, arguments that only forbid mistakes (``frozen``, ``slots``, ``kw_only``, ``strict``), and
constants in seconds, since no test asserts speed.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from itertools import accumulate, chain, islice
from pathlib import Path

from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from coverage import CoverageData

ROOT = Path(__file__).parents[1]
JUDGE = Path("lib/conformance")
BINARY = "core/ReplaceBinaryOperator_"
COMPARISON = "core/ReplaceComparisonOperator_"
LEFT_OUT = (
    *("core/NoOp", "core/VariableInserter", "core/VariableReplacer"),
    *(f"{COMPARISON}{names}" for names in ("Is_Eq", "Eq_Is", "IsNot_NotEq", "NotEq_IsNot")),
)
"""Operators that need arguments or change nothing: equal texts and numbers are mostly identical."""
UNIT_TESTS = ("tests/unit/conformance",)
SLOW_TESTS = ("tests/plugin", "-n", "2")
"""The tests that run the suite."""
SLOW_TIMEOUT = 900.0
"""s. The time limit for the slow tests of a change."""
LEAST = 60.0
"""s. The minimum time limit for the unit tests of a change."""
LONGER = 5
"""The unit tests of a change may take this many times as long as they took when coverage was
recorded."""
MOST = 120.0
"""s. The maximum total duration of the tests that a change is tried with; the slowest tests are
left out."""
DATA = "coverage"
SECONDS = "seconds.json"
"""The files of the records."""
TESTS_FAILED = 1
"""pytest's exit code if tests failed."""
FAILED = re.compile(r"^(?:FAILED|ERROR) ([^\s[]+)", re.MULTILINE)
"""Matches a failed test function in pytest's short summary; the ids of parameters may contain
spaces."""
TEST = re.compile(r"[^\s\[|]+::[^\s\[|]+")
"""Matches the address of a test function at the beginning of a coverage context."""
DURATION = re.compile(r"^(\d+\.\d+)s (?:call|setup|teardown) +([^\s[]+)", re.MULTILINE)
"""Matches seconds and test function in pytest's list of the slowest tests."""
UNNOTICED = ("frozen", "slots", "kw_only", "strict", "flush")
"""Arguments that do not change the behaviour of a correct program."""
CACHES = ("cache", "lru_cache")
BUILT_IN = ("bool", "bytes", "dict", "float", "int", "list", "set", "str", "tuple")

KILLED, SURVIVED, TIMED_OUT, NOT_COVERED = "killed", "SURVIVED", "TIMED OUT", "NOT COVERED"
OUTCOMES = (KILLED, SURVIVED, TIMED_OUT, NOT_COVERED)
"""The possible outcomes of a change. NOT_COVERED: no unit test executes any part of the line's
file."""

Span = tuple[tuple[int, int], tuple[int, int]]
"""The first and the last position, each as (line, column)."""


@dataclass(frozen=True)
class Mutation:
    """One change that can be made to a file."""

    path: Path
    """The path relative to the checkout."""
    line: int
    operator: str
    occurrence: int


def mutations(root: Path, path: Path) -> Iterator[Mutation]:
    """Yield every possible change of a file that a test could notice."""
    source = (root / path).read_text()
    nodes = list(ast_nodes(get_ast(source)))
    parsed = ast.parse(source)
    unnoticed = list(_unnoticed(parsed))
    operators = list(_operators(parsed))
    for name in plugins.operator_names():
        if name in LEFT_OUT:
            continue
        operator = plugins.get_operator(name)()
        spans = [span for node in nodes for span in operator.mutation_positions(node)]
        for occurrence, (start, _) in enumerate(spans):
            if BINARY in name and not any(first <= start < last for first, last in operators):
                continue
            if not any(first <= start < last for first, last in unnoticed):
                yield Mutation(path, start[0], name, occurrence)


def _operators(tree: ast.Module) -> Iterator[Span]:
    """Yield the places of binary operators; the ``*`` between parameters is no operator."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp):
            yield _span(node.left)[1], _span(node.right)[0]


def _unnoticed(tree: ast.Module) -> Iterator[Span]:
    """Yield the places where a change has no effect that a test may assert: code that is never
    evaluated, caches, aliases of types, arguments that only forbid mistakes, and seconds."""
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            found = getattr(node, name, None)
            if isinstance(found, ast.expr):
                yield _span(found)
        for decorator in getattr(node, "decorator_list", ()):
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if getattr(called, "attr", getattr(called, "id", "")) in CACHES:
                (line, column), last = _span(decorator)
                yield (line, max(column - 1, 0)), last  # including its @
        if isinstance(node, ast.keyword) and node.arg in UNNOTICED:
            yield _span(node.value)
    for node, following in zip(tree.body, [*tree.body[1:], ast.Pass()], strict=True):
        if isinstance(node, ast.Assign) and (_is_type(node.value) or _is_of_seconds(following)):
            yield _span(node.value)


def _is_of_seconds(node: ast.stmt) -> bool:
    """Return whether a statement describes a constant in seconds: ``The wait, in seconds``."""
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return re.search(r"\bseconds\b", text, re.IGNORECASE) is not None
    return False


def _is_type(node: ast.expr) -> bool:
    """Return whether an expression is a type, or a union of types, by its names."""
    match node:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _is_type(left) and _is_type(right)
        case ast.Subscript(value=value):
            return _is_type(value)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.istitle() or not (name.isupper() or name.islower()) or name in BUILT_IN
    return isinstance(node, ast.Constant) and node.value is None


def _span(node: ast.expr) -> Span:
    last = (node.end_lineno or node.lineno, node.end_col_offset or 0)
    return (node.lineno, node.col_offset), last


def chosen(root: Path, files: Iterable[Path], lines: int, seed: str) -> list[Mutation]:
    """Choose this many different lines, and for each line one change that Python compiles.

    All lines are shuffled, and lines without a possible change are skipped. Thereby the changes of
    a file are computed only once one of its lines is drawn.
    """
    chance = random.Random(seed)
    places = [
        (path, number)
        for path in sorted(files)
        for number, _ in enumerate((root / path).read_text().splitlines(), 1)
    ]
    chance.shuffle(places)
    by_file: dict[Path, list[Mutation]] = {}
    found: list[Mutation] = []
    for path, number in places:
        if len(found) == lines:
            break
        if path not in by_file:
            by_file[path] = list(mutations(root, path))
        possible = [mutation for mutation in by_file[path] if mutation.line == number]
        chance.shuffle(possible)
        found += islice((mutation for mutation in possible if is_python(root, mutation)), 1)
    return found


def copy_checkout(target: Path) -> None:
    """Clone the checkout, because some tests call git, and copy every file as it is in the work
    tree."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(target)], check=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout
    for name in filter(None, listed.split("\0")):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name)


class TookTooLong(Exception):
    """The tests of a change exceeded their time limit."""


def environment(checkout: Path) -> dict[str, str]:
    """Return an environment in which processes import from the copy, even if the packages are
    installed. They write no bytecode: Python would take it for that of a changed file of the same
    size that was written in the same second."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    path = os.pathsep.join((str(checkout / "lib"), str(checkout)))
    return kept | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def pytest(checkout: Path, *arguments: str, within: float) -> list[str]:
    """Run pytest in the copy, and return the failing tests. Raise TookTooLong."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments]
    try:
        done = subprocess.run(
            command,
            cwd=checkout,
            env=environment(checkout),
            capture_output=True,
            check=False,
            timeout=within,
            text=True,
        )
    except subprocess.TimeoutExpired as late:
        raise TookTooLong from late
    return FAILED.findall(done.stdout) or ([*arguments] if done.returncode else [])


@dataclass(frozen=True)
class Recorded:
    """The lines that the unit tests executed, and the duration of each test."""

    data: CoverageData
    seconds: Mapping[str, float]
    """Map each test function to its seconds; functions of a hundredth of a second or less are
    missing."""

    @classmethod
    def read(cls, folder: Path) -> Recorded:
        """Read the records that :func:`record` wrote."""
        data = CoverageData(str(folder / DATA))
        data.read()
        return cls(data, json.loads((folder / SECONDS).read_text()))

    def tests(self, root: Path, mutation: Mutation) -> list[str]:
        """Return the tests of a change: file by file, the quickest file first."""
        contexts = self.data.contexts_by_lineno(str(mutation.path))
        lines = statement((root / mutation.path).read_text(), mutation.line)
        found = covering(contexts, lines)
        cost: defaultdict[str, float] = defaultdict(float)
        for test in found:
            cost[test.partition("::")[0]] += self._cost(test)
        found.sort(
            key=lambda test: (
                cost[test.partition("::")[0]],
                test.partition("::")[0],
                self._cost(test),
            )
        )
        spent = accumulate(map(self._cost, found))
        return [test for test, until in zip(found, spent, strict=True) if until <= MOST] or found[
            :1
        ]

    def total(self, tests: Iterable[str]) -> float:
        """Return the seconds that tests took."""
        return sum(map(self._cost, tests))

    def _cost(self, test: str) -> float:
        return self.seconds.get(test, 0.01)


def record(checkout: Path, folder: Path) -> None:
    """Run the unit tests once, and record which test executes which line.

    Tests that fail are printed, and used for no change. Raise SystemExit if pytest itself fails.
    """
    settings = checkout / ".coveragerc"
    settings.write_text(
        f"[run]\nsource = {checkout / JUDGE}\nrelative_files = True\nparallel = True\n"
        f"data_file = {folder / DATA}\npatch = _exit\n"
        "context = ${PYTEST_CURRENT_TEST-}\n"
        f"[paths]\nsource =\n    {JUDGE}\n    */{JUDGE}\n"
    )
    tests = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "-p", "no:cacheprovider"]
    names = ["-p", "tools.coverage_contexts", "--durations=0", "--durations-min=0.01"]
    run = subprocess.run(
        [*tests, *UNIT_TESTS, *names],
        cwd=checkout,
        env=environment(checkout) | {"COVERAGE_PROCESS_START": str(settings)},
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode not in (0, TESTS_FAILED):
        shown = run.stdout[-2000:] + run.stderr[-2000:]
        raise SystemExit(f"pytest cannot run the unit tests even without a change:\n{shown}")
    for test in FAILED.findall(run.stdout):
        print(f"fails even without a change: {test}", flush=True)
    combine = [sys.executable, "-m", "coverage", "combine", "--quiet", f"--rcfile={settings}"]
    subprocess.run(combine, cwd=checkout, check=True)
    seconds: defaultdict[str, float] = defaultdict(float)
    for took, test in DURATION.findall(run.stdout):
        seconds[test] += float(took)
    (folder / SECONDS).write_text(json.dumps(seconds))


def statement(source: str, line: int) -> list[int]:
    """Return the line, followed by the other lines of its statement, without the statements inside
    it.

    If a statement has several lines, coverage does not report all of them.
    """
    found = range(0)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            begin = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
            end = body[0].lineno if body else (node.end_lineno or node.lineno) + 1
            inside = range(begin, max(end, node.lineno + 1))
            if line in inside and (not found or len(inside) <= len(found)):
                found = inside
    return [line, *found]


def covering(contexts: Mapping[int, Sequence[str]], lines: Sequence[int]) -> list[str]:
    """Return the tests that execute the first of these lines that any test executes; if there is
    none, return the tests that execute any part of the file."""
    for line in lines:
        if found := _tests(contexts.get(line, ())):
            return found
    executed = any(line in contexts for line in lines)
    return _tests(chain.from_iterable(contexts.values())) if executed else []


def _tests(contexts: Iterable[str]) -> list[str]:
    """Return the tests that the contexts name: tests themselves, and tests that started a
    process."""
    return sorted({found.group() for found in map(TEST.match, contexts) if found})


def changed(source: str, mutation: Mutation) -> str:
    """Return the source with the change made."""
    found: str = mutate_code(source, plugins.get_operator(mutation.operator)(), mutation.occurrence)
    return found


def is_python(checkout: Path, mutation: Mutation) -> bool:
    """Return whether the changed file compiles without a warning. This excludes changes of the
    ``*`` between parameters, and comparisons with a literal by identity."""
    source = (checkout / mutation.path).read_text()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            compile(changed(source, mutation), str(mutation.path), "exec")
        except (SyntaxError, SyntaxWarning):
            return False
    return True


def outcome(checkout: Path, mutation: Mutation, tests: Sequence[str], within: float) -> str:
    """Make the change, run the tests, and undo the change.

    A test that fails or does not end even without the change has noticed nothing.
    """
    if not tests:
        return NOT_COVERED
    path = checkout / mutation.path
    source = path.read_text()
    path.write_text(changed(source, mutation))
    try:
        failing = pytest(checkout, *tests, within=within)
    except TookTooLong:
        failing = [*tests]
    finally:
        path.write_text(source)
    try:
        again = failing and pytest(checkout, *failing, within=within)
        return KILLED if failing and not again else SURVIVED
    except TookTooLong:
        return TIMED_OUT


def difference(checkout: Path, mutation: Mutation) -> str:
    """Return the changed lines, before and after."""
    source = (checkout / mutation.path).read_text()
    lines = unified_diff(
        source.splitlines(), changed(source, mutation).splitlines(), n=0, lineterm=""
    )
    return "\n".join(
        f"    {line}" for line in lines if line[:3] not in ("---", "+++") and line[0] in "+-"
    )


def part(value: str) -> tuple[int, int]:
    """Return ``2/4`` as (2, 4)."""
    number, _, of = value.partition("/")
    return int(number), int(of)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print each change with its outcome; return 1 if too many changes survive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=60)
    parser.add_argument(
        "--survivors",
        type=int,
        default=12,
        help="maximum number of surviving changes (default: 12)",
    )
    parser.add_argument("--seed", default="", help="default: the id of the commit")
    parser.add_argument(
        "--records", default="", help="folder for records of what the unit tests execute"
    )
    parser.add_argument(
        "--part", type=part, default=(1, 1), help="N/M: only part N of M parts of the sample"
    )
    options = parser.parse_args(arguments)
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder) / "checkout"
        copy_checkout(checkout)
        records = Path(options.records or Path(folder) / "records")
        if not (records / SECONDS).exists():
            print(
                "Running the unit tests once to record which lines each test executes.", flush=True
            )
            records.mkdir(parents=True, exist_ok=True)
            record(checkout, records)
        files = [path.relative_to(checkout) for path in (checkout / JUDGE).rglob("*.py")]
        number, of = options.part
        drawn = chosen(checkout, files, options.lines, options.seed or head.strip())
        recorded = Recorded.read(records)
        outcomes = tried(checkout, recorded, drawn[number - 1 :: of], options.survivors)
    counts = Counter(outcomes.values())
    found = ", ".join(f"{counts[word]} {word}" for word in OUTCOMES)
    print(f"{counts.total()} changes: {found}; at most {options.survivors} may survive")
    return int(len(alive(outcomes)) > options.survivors)


def tried(
    checkout: Path, recorded: Recorded, drawn: Sequence[Mutation], survivors: int
) -> dict[Mutation, str]:
    """Print each change with its outcome, and return the outcomes."""
    outcomes: dict[Mutation, str] = {}
    for mutation in drawn:
        listed = checkout / ".mutation-tests"
        tests = recorded.tests(checkout, mutation)
        listed.write_text("\n".join(tests))
        within = max(LEAST, LONGER * recorded.total(tests))
        outcomes[mutation] = outcome(checkout, mutation, [f"@{listed}"] if tests else [], within)
        _print(outcomes[mutation], mutation)
        print(difference(checkout, mutation), flush=True)
    for mutation in alive(outcomes):
        if len(alive(outcomes)) > survivors:
            slowly = outcome(checkout, mutation, SLOW_TESTS, SLOW_TIMEOUT)
            outcomes[mutation] = slowly if slowly == KILLED else outcomes[mutation]
            _print(f"{slowly} in tests/plugin:", mutation)
    return outcomes


def alive(outcomes: Mapping[Mutation, str]) -> list[Mutation]:
    """Return the changes that no test has noticed."""
    return [mutation for mutation, word in outcomes.items() if word != KILLED]


def _print(word: str, mutation: Mutation) -> None:
    print(f"{word} {mutation.path}:{mutation.line} {mutation.operator}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
