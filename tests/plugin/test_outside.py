"""A path apart from its option is refused in words where pytest took it for the place of the tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conformance.plugin.options import WITH_PATHS

CHECKOUT = Path(__file__).parents[2]
OF_ANOTHER_PROJECT = """
def pytest_addoption(parser):
    parser.addoption("--timings")
"""


def collected(*arguments: str, where: Path = CHECKOUT) -> subprocess.CompletedProcess[str]:
    """Pytest's answer, with the entry point that an installed suite has."""
    command = [sys.executable, "-m", "pytest", "-p", "no:calico-conformance", "-p", "conformance.outside", *arguments]
    return subprocess.run(
        [*command, "--collect-only", "-q"], cwd=where, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("option", WITH_PATHS)
def test_a_path_apart_from_its_option_is_refused_with_what_to_write(option: str, tmp_path: Path) -> None:
    elsewhere = tmp_path / "a file"
    elsewhere.touch()
    (tmp_path / "pytest.ini").touch()  # else whatever lies in a directory above may be the root
    done = collected(option, str(elsewhere))
    assert done.returncode == 4
    assert f"ERROR: {option} PATH: write {option}=PATH; apart from its option pytest takes the path" in done.stderr
    assert f"(rootdir is {tmp_path})" in done.stderr


def test_a_path_with_an_equals_sign_is_taken(tmp_path: Path) -> None:
    elsewhere = tmp_path / "my timings.yaml"
    elsewhere.write_text("")
    done = collected(f"--timings={elsewhere}")
    assert (done.returncode, "tests collected" in done.stdout) == (0, True)


def test_another_projects_option_of_that_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(OF_ANOTHER_PROJECT)
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n")
    done = collected("--timings", "x", where=tmp_path)
    assert (done.returncode, "1 test collected" in done.stdout) == (0, True)


def test_options_that_nobody_knows_are_pytests_to_refuse(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n")
    done = collected("--nonsense", "x", where=tmp_path)
    assert (done.returncode, "unrecognized arguments: --nonsense" in done.stderr) == (4, True)
