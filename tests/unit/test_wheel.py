# SPDX-License-Identifier: Apache-2.0
"""setup.py puts everything that an installed wheel needs, apart from the packages, into the
wheel (`make check-wheel` installs one)."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

from conformance import product
from conformance.cli import ROOT

CHECKOUT = Path(__file__).parents[2]


def patterns() -> tuple[str, ...]:
    tree = ast.parse((CHECKOUT / "setup.py").read_text(encoding="utf-8"))
    (value,) = (
        assign.value
        for assign in tree.body
        if isinstance(assign, ast.Assign) and ast.unparse(assign.targets[0]) == "FILES"
    )
    found: tuple[str, ...] = ast.literal_eval(value)
    return found


def test_every_file_of_suites_and_manifests_is_put_into_the_wheel() -> None:
    packed = {path for pattern in patterns() for path in CHECKOUT.glob(pattern)}
    listed = subprocess.run(
        ["git", "ls-files", "--", "suites", "manifests"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split()
    assert {CHECKOUT / name for name in listed if (CHECKOUT / name).exists()} <= packed
    assert {CHECKOUT / "conftest.py", CHECKOUT / "pyproject.toml"} <= packed


def test_an_installed_suite_is_run_by_its_own_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(product, "_INSTALLED", tmp_path)
    assert (product.root(), product.command()) == (tmp_path, "calico-conformance run")


def test_a_checkout_is_used_where_it_is() -> None:
    assert product.root() == CHECKOUT == ROOT
    assert product.command() == "pytest"
    assert (product.MANIFESTS / "rbac" / "standard.yaml").is_file()
