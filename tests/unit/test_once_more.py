# SPDX-License-Identifier: Apache-2.0
"""A test that fails only beside others is named and fails no build; a broken test fails it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tools import once_more

LATE = """
from pathlib import Path
def test_late():
    marker = Path({marker!r})
    known = marker.exists()
    marker.touch()
    assert known
"""
BROKEN = "def test_broken_{number}():\n    assert False\n"

Run = Callable[[str, str], tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Run the tests of a text in a folder, on two workers as `make test` does; with the output."""

    def in_folder(folder: str, text: str) -> tuple[int, str]:
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "test_made.py").write_text(text)
        monkeypatch.chdir(tmp_path)
        status = once_more.main(["-n", "2", "--dist", "loadgroup", folder])
        return status, capfd.readouterr().out

    return in_folder


def late(tmp_path: Path) -> str:
    grouped = "import pytest\n@pytest.mark.xdist_group('lab')" + LATE.lstrip("\n").replace(
        "from pathlib import Path\n", "\n"
    )
    return "from pathlib import Path\n" + grouped.format(marker=str(tmp_path / "marker"))


def test_a_test_that_passes_alone_is_named_and_fails_no_build(run: Run, tmp_path: Path) -> None:
    status, output = run("tests/lab", late(tmp_path))
    assert status == 0
    assert "1 failed" in output, "the first failure is printed"
    assert output.splitlines()[-1] == (
        "UNSTABLE: passed only when run alone: tests/lab/test_made.py::test_late"
    )


def test_a_broken_test_fails_again(run: Run) -> None:
    status, output = run("tests/lab", BROKEN.format(number=1))
    assert (status, output.count("1 failed")) == (1, 2)


def test_many_failures_are_final(run: Run) -> None:
    status, output = run("tests/lab", "".join(BROKEN.format(number=n) for n in range(4)))
    assert (status, "once more" in output) == (1, False)


def test_a_unit_test_gets_no_second_run(run: Run, tmp_path: Path) -> None:
    status, output = run("tests/unit", late(tmp_path))
    assert (status, "once more" in output) == (1, False)


def test_tests_that_cannot_be_read_and_other_exit_codes_are_final(run: Run) -> None:
    status, output = run("tests/lab", "import nothing_of_this_name\n")
    assert (status, "once more" in output) == (1, False)
    assert run("tests/other", "")[0] == 5
