# SPDX-License-Identifier: Apache-2.0
"""An environment that `make` updates keeps no package that its lock does not name."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools import prune_environment

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "prune_environment.py"
HASH = "--hash=sha256:" + "0" * 64


def plant(site: Path, name: str) -> None:
    """A package as pip leaves it."""
    (site / f"{name}.py").write_text("")
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "INSTALLER").write_text("pip\n")
    files = [
        f"{name}.py",
        *(f"{name}-1.0.dist-info/{each}" for each in ("METADATA", "INSTALLER", "RECORD")),
    ]
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with pip and this one's packaging, which the tool needs."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    from packaging import __file__ as packaging

    (site / "packaging").symlink_to(Path(str(packaging)).parent)
    return folder


def prune(environment: Path, *locks: Path) -> str:
    python = environment / "bin" / "python"
    done = subprocess.run(
        [python, "-I", TOOL, *locks], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_foreign_package_goes_and_those_of_each_lock_and_the_project_stay(
    environment: Path, tmp_path: Path
) -> None:
    (site,) = environment.glob("lib/python3*/site-packages")
    for name in ("planted", "dropped_one", "kept_one", "of_dev", "calico_windows_conformance"):
        plant(site, name)
    lock, dev = tmp_path / "lock", tmp_path / "dev"
    lock.write_text(
        f"# dropped-one==1.0\nkept-one==1.0 \\\n    {HASH}\n    # via planted\npip==1\n"
    )
    dev.write_text(
        f"of-dev==1.0 \\\n    {HASH}\ndropped-one==1.0 ; sys_platform == 'never' \\\n    {HASH}\n"
        "setuptools==1\n"
    )
    assert (
        prune(environment, lock, dev)
        == "removing packages that no lock file names: dropped-one, planted\n"
    )
    left = {path.name for path in site.glob("*.dist-info")}
    assert {"kept_one-1.0.dist-info", "of_dev-1.0.dist-info"} <= left
    assert "calico_windows_conformance-1.0.dist-info" in left
    assert not left & {"planted-1.0.dist-info", "dropped_one-1.0.dist-info"}
    assert not (site / "planted.py").exists()
    assert prune(environment, lock, dev) == ""


def test_the_locks_name_what_the_tool_needs() -> None:
    for lock in ("requirements.lock", "requirements-dev.lock"):
        found = prune_environment.named((ROOT / lock).read_text())
        assert {"pip", "setuptools", "packaging", "pytest"} <= found


@pytest.mark.parametrize(
    ("target", "locks"),
    [
        (
            "suite",
            "requirements.lock $(if $(wildcard $(VENV)/env-from-lock),requirements-dev.lock)",
        ),
        ("env", "requirements.lock requirements-dev.lock"),
    ],
)
def test_make_prunes_what_it_has_installed(target: str, locks: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    (recipe,) = re.findall(
        rf"^\$\(VENV\)/{target}-from-lock:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE
    )
    lines = recipe.splitlines()
    installs = [number for number, line in enumerate(lines) if "$(LOCKED)" in line]
    assert lines[installs[-1] + 1] == f"\t$(PRUNE) {locks}"
