# SPDX-License-Identifier: Apache-2.0
"""``make check-powershell`` runs the tests that execute PowerShell, and `make test` leaves them
out."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_without_a_powershell_it_ends_with_one_line_that_says_how_to_get_it(tmp_path: Path) -> None:
    for command in ("sh", "bash"):
        if path := shutil.which(command):
            (tmp_path / command).symlink_to(path)
    make = shutil.which("make")
    assert make
    done = subprocess.run(
        [make, "--silent", "check-powershell", f"BIN={tmp_path}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": str(tmp_path)},
        check=False,
    )
    first, last = done.stderr.splitlines()
    assert done.returncode == 2, "of make, which never has another"
    assert first.startswith(
        "make check-powershell: no pwsh on the PATH; PowerShell 7 for Linux is "
    )
    assert "https://" in first
    assert re.match(r"make(\[\d+\])?: ", last)


def test_every_test_that_executes_powershell_belongs_to_it_and_to_no_other_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    selected = re.findall(
        r"\$\((?:BIN\)/pytest|ONCE_MORE\)) ((?:tests|\$\(INSIDE\))[^;\n]*)", makefile
    )
    assert [words for words in selected if "-m powershell" in words] == [
        "tests/contract -n $$(($$(nproc) + 1)) --dist loadgroup -m powershell",
        "$(INSIDE) -n $$(nproc) --dist loadgroup -m powershell",
    ]
    places = ["tests/contract", *re.findall(r"^INSIDE = (.+)$", makefile, re.M)[0].split()]
    marked = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(r"^\W*(pytestmark = \W*)?pytest\.mark\.powershell", path.read_text(), re.M)
    ]
    assert marked
    assert [path for path in marked if not path.startswith(tuple(places))] == []
    (selftest,) = (words for words in selected if "not whole_run" in words)
    assert "not powershell" in selftest


def test_what_is_done_with_each_of_the_programs_is_marked_where_a_pwsh_executes_it() -> None:
    found = {}
    for words in ("powershell", "not powershell"):
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "tests/contract",
                "--co",
                "-q",
                "-m",
                words,
                "-p",
                "no:cacheprovider",
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        found[words] = [line for line in done.stdout.splitlines() if "::" in line]
    assert len(found["powershell"]) > 400
    assert [test for test in found["not powershell"] if re.search(r"[\[-]pwsh\b", test)] == []
