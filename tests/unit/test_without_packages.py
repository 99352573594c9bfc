# SPDX-License-Identifier: Apache-2.0
"""A pytest of another Python, such as an editor's, prints one line that says what to do, instead
of a traceback."""

from __future__ import annotations

import importlib.util
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_a_python_without_the_suites_packages_is_told_which_command_makes_one_with_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "tenacity" else found(name)
    )
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "conftest.py"))
    assert ended.value.code == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert "lacks packages that the suite needs (tenacity); install them: make suite" in line
    command = line.partition("make ")[2].partition(" ")[0]
    assert f"\n{command}:" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_nothing_is_said_where_they_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert runpy.run_path(str(ROOT / "conftest.py"))["pytest_plugins"] == ["conformance.plugin"]
    assert capsys.readouterr().err == ""
