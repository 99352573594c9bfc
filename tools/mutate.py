# SPDX-License-Identifier: Apache-2.0
"""Change lines of the judge at random and see whether a test notices: ``python -m tools.mutate``.

Which lines are changed follows from the seed, by default the id of the commit. Everything happens in
a copy of the checkout. Each changed line is tried with the unit tests that execute it. A line that
only the import of its module executes is tried with all unit tests that execute something of its
file. A change that no test notices survives. So does a change whose tests took too long or fail
without it, too. Only if more survive than ``--survivors`` are the survivors tried with tests/plugin,
which takes many minutes each, until few enough are left. More survivors end the command with 1.
``--part 2/4`` tries the second quarter of the sample alone.
The changes are cosmic-ray's, the tests of a line are coverage's.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from itertools import islice
from pathlib import Path

from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from coverage import CoverageData

ROOT = Path(__file__).parents[1]
JUDGE = Path("lib/conformance")
LEFT_OUT = ("core/NoOp", "core/VariableInserter", "core/VariableReplacer")
"""Operators that need arguments or change nothing."""
UNIT_TESTS = ("tests/unit/conformance",)
SLOW_TESTS = ("tests/plugin", "-n", "2")
"""The tests that run the suite."""
TIMEOUT = 900.0
"""s.  After this the tests of a change are ended."""
TESTS_FAILED = 1
"""Exit code of pytest."""
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
"""A test that fails, in pytest's short summary."""

KILLED, SURVIVED, TIMED_OUT, NOT_COVERED = "killed", "SURVIVED", "TIMED OUT", "NOT COVERED"
OUTCOMES = (KILLED, SURVIVED, TIMED_OUT, NOT_COVERED)
"""What may become of a change. Of a line that is not covered no unit test executes anything."""

Span = tuple[tuple[int, int], tuple[int, int]]
"""First and last position: (line, column) each."""


@dataclass(frozen=True)
class Mutation:
    """One change that can be made to a file."""

    path: Path
    """Relative to the checkout."""
    line: int
    operator: str
    occurrence: int


def mutations(root: Path, path: Path) -> Iterator[Mutation]:
    """Every change that can be made to a file, but to annotations, which nothing evaluates."""
    source = (root / path).read_text()
    tree = get_ast(source)
    annotations = list(_annotations(ast.parse(source)))
    for name in plugins.operator_names():
        if name in LEFT_OUT:
            continue
        operator = plugins.get_operator(name)()
        spans = [span for node in ast_nodes(tree) for span in operator.mutation_positions(node)]
        for occurrence, (start, _) in enumerate(spans):
            if not any(first <= start <= last for first, last in annotations):
                yield Mutation(path, start[0], name, occurrence)


def _annotations(tree: ast.AST) -> Iterator[Span]:
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            found = getattr(node, name, None)
            if isinstance(found, ast.expr):
                yield (
                    (found.lineno, found.col_offset),
                    (found.end_lineno or 0, found.end_col_offset or 0),
                )


def chosen(root: Path, files: Iterable[Path], lines: int, seed: str) -> list[Mutation]:
    """Choose as many different lines, and one change of each that Python compiles.

    All lines are shuffled, and those without a change are passed over, so that the changes of a file
    are looked for only when one of its lines is drawn.
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
    """Clone the checkout, since tests ask git, with every file as it stands in the work tree."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(target)], check=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout
    for name in filter(None, listed.split("\0")):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name)


class TookTooLong(Exception):
    """The tests of a change did not end within TIMEOUT."""


def environment(checkout: Path) -> dict[str, str]:
    """Return an environment in which processes import from the copy, whatever is installed."""
    return os.environ | {"PYTHONPATH": os.pathsep.join((str(checkout / "lib"), str(checkout)))}


def pytest(checkout: Path, *arguments: str) -> list[str]:
    """Run pytest in the copy, and return the failing tests.  Raises TookTooLong."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments]
    try:
        done = subprocess.run(
            command,
            cwd=checkout,
            env=environment(checkout),
            capture_output=True,
            check=False,
            timeout=TIMEOUT,
            text=True,
        )
    except subprocess.TimeoutExpired as late:
        raise TookTooLong from late
    return FAILED.findall(done.stdout) or ([*arguments] if done.returncode else [])


def coverage_by_test(checkout: Path) -> CoverageData:
    """Run the unit tests once, and record which test executes which line.

    Prints the tests that fail: they notice no change. Raises SystemExit if pytest itself fails.
    """
    settings = checkout / ".coveragerc"
    settings.write_text(f"[run]\nsource = {JUDGE}\ndynamic_context = test_function\n")
    command = [
        *(sys.executable, "-m", "coverage", "run", f"--rcfile={settings}"),
        *("-m", "pytest", "-q", *UNIT_TESTS),
    ]
    run = subprocess.run(
        command,
        cwd=checkout,
        env=environment(checkout),
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode not in (0, TESTS_FAILED):
        shown = run.stdout[-2000:] + run.stderr[-2000:]
        raise SystemExit(f"the unit tests do not run before anything is changed:\n{shown}")
    for test in FAILED.findall(run.stdout):
        print(f"fails before anything is changed: {test}", flush=True)
    data = CoverageData(str(checkout / ".coverage"))
    data.read()
    return data


def node_id(context: str) -> str:
    """Return pytest's address of a test function that coverage names by its module and name."""
    module, _, function = context.rpartition(".")
    return f"{module.replace('.', '/')}.py::{function}"


def covering(contexts: Mapping[int, Sequence[str]], line: int) -> list[str]:
    """Return the tests that execute a line, or, where none does, those that execute its file.

    A function of the judge whose name begins with ``test`` is a context too, but no test.
    """
    of_line, of_file = (
        sorted({node_id(context) for context in found if context.startswith("tests.")})
        for found in (contexts.get(line, ()), [one for each in contexts.values() for one in each])
    )
    return of_line or (of_file if line in contexts else [])


def changed(source: str, mutation: Mutation) -> str:
    """Return the source with the change made."""
    found: str = mutate_code(source, plugins.get_operator(mutation.operator)(), mutation.occurrence)
    return found


def is_python(checkout: Path, mutation: Mutation) -> bool:
    """Return whether the changed file compiles: the ``*`` between parameters is no operator."""
    source = (checkout / mutation.path).read_text()
    try:
        compile(changed(source, mutation), str(mutation.path), "exec")
    except SyntaxError:
        return False
    return True


def outcome(checkout: Path, mutation: Mutation, tests: Sequence[str]) -> str:
    """Make the change, run the tests, and take it back.

    A test that fails without the change as well has noticed nothing.
    """
    if not tests:
        return NOT_COVERED
    path = checkout / mutation.path
    source = path.read_text()
    path.write_text(changed(source, mutation))
    try:
        failing = pytest(checkout, *tests)
    except TookTooLong:
        return TIMED_OUT
    finally:
        path.write_text(source)
    try:
        return KILLED if failing and not pytest(checkout, *failing) else SURVIVED
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
    """Print each change and what became of it; 1 where too many survive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=60)
    parser.add_argument("--survivors", type=int, default=12, help="how many changes may survive")
    parser.add_argument("--seed", default="", help="default: the id of the commit")
    parser.add_argument("--part", type=part, default=(1, 1), help="N/M: this part of the sample")
    options = parser.parse_args(arguments)
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder)
        copy_checkout(checkout)
        print("The unit tests run once, and what each executes is recorded.", flush=True)
        data = coverage_by_test(checkout)
        files = [path.relative_to(checkout) for path in (checkout / JUDGE).rglob("*.py")]
        number, of = options.part
        drawn = chosen(checkout, files, options.lines, options.seed or head.strip())
        outcomes = tried(checkout, data, drawn[number - 1 :: of], options.survivors)
    counts = Counter(outcomes.values())
    found = ", ".join(f"{counts[word]} {word}" for word in OUTCOMES)
    print(f"{counts.total()} lines changed: {found}; at most {options.survivors} may be left alive")
    return int(len(alive(outcomes)) > options.survivors)


def tried(
    checkout: Path, data: CoverageData, drawn: Sequence[Mutation], survivors: int
) -> dict[Mutation, str]:
    """Print each change and what became of it, and return that."""
    outcomes: dict[Mutation, str] = {}
    for mutation in drawn:
        contexts = data.contexts_by_lineno(str(checkout / mutation.path))
        listed = checkout / ".mutation-tests"
        tests = covering(contexts, mutation.line)
        listed.write_text("\n".join(tests))
        outcomes[mutation] = outcome(checkout, mutation, [f"@{listed}"] if tests else [])
        _print(outcomes[mutation], mutation)
        print(difference(checkout, mutation), flush=True)
    for mutation in alive(outcomes):
        if len(alive(outcomes)) > survivors:
            slowly = outcome(checkout, mutation, SLOW_TESTS)
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
