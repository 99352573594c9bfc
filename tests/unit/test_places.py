# SPDX-License-Identifier: Apache-2.0
"""Every folder with programs is named in the README, and none is left out of lint."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted(
    folder.name
    for folder in ROOT.iterdir()
    if folder.is_dir()
    and not folder.name.startswith((".", "node_modules", "reports"))
    and any(folder.rglob("*.py"))
)


def test_the_readme_says_what_each_folder_is_for() -> None:
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Where things are")[2]
    assert [name for name in PROGRAMS if f"| `{name}/" not in table] == []


def test_lint_leaves_no_folder_out() -> None:
    commands = re.findall(r"\t.*/ruff .*", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert len(commands) == 2
    linted = [
        name for name in PROGRAMS if name != "manifests"
    ]  # probe programs: for Python 3.8, known by their hash
    assert [(name, line) for line in commands for name in linted if name not in line.split()] == []
