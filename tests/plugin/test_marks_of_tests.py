# SPDX-License-Identifier: Apache-2.0
"""Marks of this project's own tests can be named where no test has them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_a_mark_of_one_folder_can_be_named_for_another(tmp_path: Path) -> None:
    """As ``-m 'not slow'`` does for a folder without slow tests: in workers of xdist it was an internal error."""
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text(encoding="utf-8"))
    (tmp_path / "test_one.py").write_text("def test_passes(): pass\n")
    words = [
        "-p",
        "no:cacheprovider",
        "-q",
        "-n",
        "1",
        "-m",
        "not whole_run and not slow and not detection",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
