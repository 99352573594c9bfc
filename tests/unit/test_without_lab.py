# SPDX-License-Identifier: Apache-2.0
"""The judge installs and runs without the packages that only the embedded lab needs: the extra
`lab`."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from hybridlab.cli import machine

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BLOCKED = f"import sys\nsys.modules.update(dict.fromkeys({machine.PACKAGES!r}))\n"
"""Program that makes the import of each of these packages fail, as if it was not installed."""
FOR_TYPES = {"typing_extensions"}
"""Imported where types are checked alone."""
IMPORT_JUDGE = """
import importlib, pathlib, sys
for path in sorted(pathlib.Path("lib/conformance").rglob("*.py")):
    if "__main__" not in path.name:
        importlib.import_module(".".join(path.with_suffix("").parts[1:]).removesuffix(".__init__"))
lab = [name for name in sys.modules if name.partition(".")[0] == "hybridlab"]
sys.exit(f"the judge imports modules of the lab: {lab}") if lab else None
print(len(sys.modules))
"""


@pytest.fixture
def without_lab(tmp_path: Path) -> dict[str, str]:
    """The environment of processes in which the lab's packages cannot be imported."""
    (tmp_path / "sitecustomize.py").write_text(BLOCKED)
    return os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT / 'lib'}"}


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=\[]", line)[0].lower() for line in requirements}


def test_the_extra_has_what_the_lab_alone_needs() -> None:
    assert names(PROJECT["optional-dependencies"]["lab"]) == set(machine.PACKAGES)
    assert names(PROJECT["dependencies"]).isdisjoint(machine.PACKAGES)
    assert PROJECT["name"] == machine.SUITE


def test_the_lab_imports_no_package_beyond_its_extra_and_those_of_every_installation() -> None:
    imported = set()
    for path in (ROOT / "lib" / "hybridlab").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imported.add(node.module.partition(".")[0])
    packages = imported - sys.stdlib_module_names - {"hybridlab", "nftables", *FOR_TYPES}
    assert packages == {*machine.PACKAGES, "argcomplete", "multidict", "yaml"}


def test_every_module_of_the_judge_can_be_imported_without_it(without_lab: dict[str, str]) -> None:
    done = run(without_lab, "-c", IMPORT_JUDGE)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 200


@pytest.mark.parametrize("command", [["up"], ["profiles"], ["faults", "list"]], ids=" ".join)
def test_a_command_of_the_lab_is_one_line_that_installs_its_packages(
    without_lab: dict[str, str], command: list[str]
) -> None:
    done = run(without_lab, "-m", "hybridlab", *command)
    assert done.returncode == 7
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        "hybridlab: Python packages of the lab are not installed (aiohttp, dnslib, "
    )
    assert re.search(
        r": (make suite|\S+ -m pip install '\S+\[lab\]'); with --kubeconfig=FILE ", line
    )


def test_without_an_installation_make_makes_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(machine, "SUITE", "never-installed")
    assert "install them with: make suite; " in machine.missing_packages()


def test_a_run_without_a_cluster_ends_with_seven_and_the_line_that_installs_the_lab(
    without_lab: dict[str, str], tmp_path: Path
) -> None:
    options = ["--claim=DS-1", "-p", "no:cacheprovider", f"--report-dir={tmp_path / 'reports'}"]
    done = run(without_lab, "-m", "pytest", *options)
    assert done.returncode == 7, done.stdout
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
    assert "Python packages of the lab are not installed (aiohttp" in line
    assert "[lab]'" in line or "make suite" in line
