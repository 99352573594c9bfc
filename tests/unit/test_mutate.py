# SPDX-License-Identifier: Apache-2.0
"""Which changes of a line the mutation command makes, which lines it chooses, and how it names tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from coverage import CoverageData

from tools import mutate
from tools.mutate import (
    KILLED,
    NOT_COVERED,
    SLOW_TESTS,
    SURVIVED,
    TIMED_OUT,
    Mutation,
    Recorded,
    changed,
    chosen,
    covering,
    environment,
    is_python,
    mutations,
    outcome,
    part,
    record,
    statement,
    tried,
)

SOURCE = """\
def larger(a: int | None, b: int = 1) -> int | None:
    return a if a > b else b
"""


def found(tmp_path: Path) -> list[Mutation]:
    (tmp_path / "module.py").write_text(SOURCE)
    return list(mutations(tmp_path, Path("module.py")))


def test_a_comparison_is_changed_and_an_annotation_is_not(tmp_path: Path) -> None:
    texts = {changed(SOURCE, mutation) for mutation in found(tmp_path)}
    assert SOURCE.replace("a > b", "a < b") in texts
    assert all(
        text != SOURCE and "(a: int | None" in text and "-> int | None" in text for text in texts
    )


def test_each_change_is_made_on_the_line_that_it_names(tmp_path: Path) -> None:
    before = SOURCE.splitlines()
    for mutation in found(tmp_path):
        after = changed(SOURCE, mutation).splitlines()
        assert [
            number
            for number, (old, new) in enumerate(zip(before, after, strict=True), 1)
            if old != new
        ] == [mutation.line]


def drawn(tmp_path: Path, lines: int, seed: str) -> list[Mutation]:
    (tmp_path / "module.py").write_text(SOURCE)
    return chosen(tmp_path, [Path("module.py")], lines, seed)


def test_the_seed_alone_chooses_and_no_line_is_chosen_twice(tmp_path: Path) -> None:
    assert drawn(tmp_path, 2, "a") == drawn(tmp_path, 2, "a")
    assert sorted(mutation.line for mutation in drawn(tmp_path, 9, "a")) == [1, 2]
    assert len({tuple(drawn(tmp_path, 1, str(seed))) for seed in range(20)}) > 1


@pytest.mark.parametrize(
    "line",
    [
        "Names = int | dict[str, Text] | None",
        "@functools.lru_cache(64)",
        "@cache",
        "each = list(zip(a, b, strict=True))",
        'LATE = 5.0\n"""The wait, in seconds."""',
        "def f(self, cases, *, want): pass",
        "@dataclass(frozen=True, slots=True)",
    ],
)
def test_what_no_test_could_notice_is_not_changed(tmp_path: Path, line: str) -> None:
    after = "\nclass A:\n    pass\n" if line.startswith("@") else "\n"
    (tmp_path / "module.py").write_text(line + after)
    found = {one.operator for one in mutations(tmp_path, Path("module.py"))}
    assert found <= {"core/RemoveDecorator"} if "dataclass" in line else not found


@pytest.mark.parametrize(
    "line",
    [
        "FLAGS = READ | WRITE",
        "x = a | b",
        "f(a * b)",
        'NUMBER = 5 * 2\n"""second: how many."""',
        "@dataclass(order=True)",
    ],
)
def test_what_is_like_it_is_changed(tmp_path: Path, line: str) -> None:
    after = "\nclass A:\n    pass\n" if line.startswith("@") else "\n"
    (tmp_path / "module.py").write_text(line + after)
    found = {one.operator.partition("_")[0] for one in mutations(tmp_path, Path("module.py"))}
    assert found & {"core/ReplaceBinaryOperator", "core/ReplaceTrueWithFalse"}


TEXT = """\
table = {
    1: 2,
}
@cached
def f(
    a=1,
):
    if (a or
        b):
        return a
"""


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        pytest.param(2, {1, 2, 3}, id="a literal of several lines"),
        pytest.param(6, {4, 5, 6, 7}, id="the head of a function"),
        pytest.param(9, {8, 9}, id="a condition of two lines"),
        pytest.param(10, {10}, id="a statement of one"),
    ],
)
def test_a_line_belongs_to_a_statement(line: int, lines: set[int]) -> None:
    found = statement(TEXT, line)
    assert (found[0], set(found)) == (line, lines)


@pytest.mark.parametrize(
    ("lines", "tests"),
    [
        pytest.param([1], ["tests/a.py::test_a"], id="executed by a test"),
        pytest.param([2], ["tests/a.py::test_a", "tests/b.py::test_b"], id="by the import alone"),
        pytest.param([3], ["tests/b.py::test_b"], id="a process of a test executes it"),
        pytest.param([4], [], id="never executed"),
        pytest.param([4, 3, 1], ["tests/b.py::test_b"], id="another line of its statement is"),
    ],
)
def test_a_line_is_tried_with_the_tests_that_execute_it(lines: list[int], tests: list[str]) -> None:
    contexts = {
        1: ["", "tests/a.py::test_a"],
        2: [""],
        3: ["tests/b.py::test_b[x y] (call)", "tests/b.py::test_b (setup)|tests.inner"],
    }
    assert covering(contexts, lines) == tests


def records(tmp_path: Path, **seconds: float) -> Recorded:
    """Records in which these tests execute a line; the file of a test is its name's beginning."""
    data = CoverageData(no_disk=True)
    tests = {f"tests/{name.partition('_')[0]}.py::{name}": took for name, took in seconds.items()}
    for test in tests:
        data.set_context(test)
        data.add_lines({str(tmp_path / "module.py"): [2]})
    return Recorded(data, tests)


def test_the_quickest_tests_come_first_file_by_file_and_the_slowest_are_left_out(
    tmp_path: Path,
) -> None:
    (tmp_path / "module.py").write_text(SOURCE)
    recorded = records(tmp_path, a_1=30.0, b_1=4.0, a_2=2.0, b_2=9.0, c_1=80.0)
    listed = recorded.tests(tmp_path, Mutation(tmp_path / "module.py", 2, "", 0))
    assert [test.rpartition("::")[2] for test in listed] == ["b_1", "b_2", "a_2", "a_1"]
    assert recorded.total(listed) == 45.0


def test_a_line_that_only_a_slow_test_executes_is_tried_with_it(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(SOURCE)
    mutation = Mutation(tmp_path / "module.py", 2, "", 0)
    assert records(tmp_path, a_1=900.0).tests(tmp_path, mutation) == ["tests/a.py::a_1"]


def test_processes_of_tests_import_from_the_copy(tmp_path: Path) -> None:
    assert environment(tmp_path)["PYTHONPATH"] == f"{tmp_path}/lib:{tmp_path}"


def test_a_part_of_the_sample_has_a_number() -> None:
    assert part("2/4") == (2, 4)


def test_a_comparison_by_identity_with_a_literal_is_not_tried(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("x = 1 <= a <= 2\ny = b is c\nz = a == b\n")
    found = list(mutations(tmp_path, Path("module.py")))
    left_out = {one.operator.rpartition("r_")[2] for one in found if not is_python(tmp_path, one)}
    assert left_out == {"LtE_Is", "LtE_IsNot"}
    names = {one.operator.rpartition("r_")[2] for one in found} - left_out
    assert {"Eq_NotEq", "Is_IsNot"} <= names
    assert names.isdisjoint({"Eq_Is", "Is_Eq"})


@pytest.mark.parametrize(
    ("test", "within", "word"),
    [
        pytest.param("assert larger(1, 2) == 2", 120.0, KILLED, id="noticed"),
        pytest.param("assert larger(1, 1) == 1", 120.0, SURVIVED, id="not noticed"),
        pytest.param("assert larger(1, 2) == number", 120.0, KILLED, id="by a case with a space"),
        pytest.param("assert larger(1, 2) == 3", 120.0, SURVIVED, id="failed before, too"),
        pytest.param("while True: pass", 5.0, TIMED_OUT, id="took too long"),
        pytest.param("while larger(1, 2) != 2: pass", 30.0, KILLED, id="never ends with it"),
    ],
)
def test_a_change_is_noticed_only_by_a_test_that_passes_without_it(
    tmp_path: Path, test: str, within: float, word: str
) -> None:
    (tmp_path / "test_module.py").write_text(
        "import pytest\nfrom module import larger\n\n"
        "@pytest.mark.parametrize('number', [pytest.param(2, id='a - b c')])\n"
        f"def test_it(number):\n    {test}\n"
    )
    swapped = next(each for each in found(tmp_path) if "a < b" in changed(SOURCE, each))
    assert outcome(tmp_path, swapped, ["test_module.py"], within) == word
    assert (tmp_path / "module.py").read_text() == SOURCE


@pytest.mark.parametrize(
    ("survivors", "slow", "words"),
    [
        pytest.param(2, "", ["NOT COVERED", "NOT COVERED"], id="few enough without the slow tests"),
        pytest.param(1, "killed", ["killed", "NOT COVERED"], id="few enough after the first"),
        pytest.param(0, "killed", ["killed", "killed"], id="all of them"),
        pytest.param(1, "TIMED OUT", ["NOT COVERED", "NOT COVERED"], id="never few enough"),
    ],
)
def test_slow_tests_run_only_while_too_many_changes_survive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, survivors: int, slow: str, words: list[str]
) -> None:
    drawn_lines = drawn(tmp_path, 2, "a")
    monkeypatch.setattr(
        mutate, "outcome", lambda _, __, tests, ___: slow if tests == SLOW_TESTS else NOT_COVERED
    )
    outcomes = tried(tmp_path, records(tmp_path), drawn_lines, survivors)
    assert list(outcomes.values()) == words


def test_a_test_that_fails_before_any_change_is_printed_and_the_others_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mutate, "JUDGE", Path("lib/halves"))
    module = tmp_path / "lib" / "halves" / "half.py"
    module.parent.mkdir(parents=True)
    module.write_text("def half(a):\n    return a / 2\n")
    folder = tmp_path / "tests" / "unit" / "conformance"
    folder.mkdir(parents=True)
    (folder / "test_halves.py").write_text(
        "from halves.half import half\n"
        "def test_two():\n    assert half(2) == 3\n"
        "def test_four():\n    assert half(4) == 2\n"
    )
    folder.joinpath("test_process.py").write_text(
        "import subprocess, sys\n"
        "def test_process():\n"
        "    subprocess.run([sys.executable, '-c', 'import halves.half; halves.half.half(2)'])\n"
    )
    (tmp_path / "tools").symlink_to(mutate.ROOT / "tools")
    (tmp_path / "records").mkdir()
    record(tmp_path, tmp_path / "records")
    recorded = Recorded.read(tmp_path / "records")
    contexts = recorded.data.contexts_by_lineno("lib/halves/half.py")
    address = "tests/unit/conformance/test_halves.py::test_"
    assert covering(contexts, [2]) == [
        f"{address}four",
        f"{address}two",
        "tests/unit/conformance/test_process.py::test_process",
    ]
    assert recorded.seconds["tests/unit/conformance/test_process.py::test_process"] > 0.01
    assert capsys.readouterr().out == f"fails even without a change: {address}two\n"
