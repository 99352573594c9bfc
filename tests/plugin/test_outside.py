# SPDX-License-Identifier: Apache-2.0
"""If pytest took a path for the place of the tests because a blank separates it from its option,
the message says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.plugin.options import WITH_PATHS
from tests.plugin import forked
from tests.plugin.conftest import variables

CHECKOUT = Path(__file__).parents[2]
OF_ANOTHER_PROJECT = """
def pytest_addoption(parser):
    parser.addoption("--timings")
"""


def collected(*arguments: str, own: Path, where: Path = CHECKOUT) -> tuple[int, str]:
    """Pytest's exit code and answer, with the entry point that an installed suite has."""
    plugins = ("-p", "no:cacheprovider", "-p", "no:calico-conformance", "-p", "conformance.outside")
    out = own.with_name(f"{own.name}.out")
    code = forked.run(
        [*plugins, *arguments, "--collect-only", "-q"], where, variables(where), out, 60
    )
    return code, out.read_text()


@pytest.mark.parametrize("option", WITH_PATHS)
def test_a_path_apart_from_its_option_is_refused_with_what_to_write(
    option: str, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "a file"
    elsewhere.touch()
    (tmp_path / "pytest.ini").touch()  # else whatever lies in a directory above may be the root
    code, said = collected(option, str(elsewhere), own=tmp_path)
    assert code == 4
    assert f"ERROR: {option} PATH: write {option}=PATH; pytest takes a separate PATH" in said
    assert f"(rootdir is {tmp_path})" in said


def test_a_path_with_an_equals_sign_is_taken(tmp_path: Path) -> None:
    elsewhere = tmp_path / "my timings.yaml"
    elsewhere.write_text("")
    code, said = collected(f"--timings={elsewhere}", own=tmp_path)
    assert (code, "tests collected" in said) == (0, True)


def test_another_projects_option_of_that_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(OF_ANOTHER_PROJECT)
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n")
    code, said = collected("--timings", "x", own=tmp_path, where=tmp_path)
    assert (code, "1 test collected" in said) == (0, True)


def test_options_that_nobody_knows_are_pytests_to_refuse(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n")
    code, said = collected("--nonsense", "x", own=tmp_path, where=tmp_path)
    assert (code, "unrecognized arguments: --nonsense" in said) == (4, True)
