# SPDX-License-Identifier: Apache-2.0
"""The file tree that the Containerfile makes, built without a container engine and without a
network.

The wheel is built from the files of the checkout. The judge's dependencies are copied from this
environment, whereas the image's build takes the same versions from the lock.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROJECT = "calico-windows-conformance"
_WRITING = {"PATH": "/usr/bin:/bin"}
"""The environment of a build: no variable in it forbids bytecode."""


def build(folder: Path) -> Path:
    """Return the folder that is ``/opt/suite`` in the image."""
    source = folder / "source"
    for name in subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0"):  # fmt: skip
        if name and (ROOT / name).is_file() and not name.startswith(("tests/", "docs/")):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run(
        [
            *pip,
            "wheel",
            "--no-deps",
            "--no-build-isolation",
            "--wheel-dir",
            str(folder),
            str(source),
        ],
        check=True,
    )
    (wheel,) = folder.glob("*.whl")
    suite = folder / "opt" / "suite"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(suite)], check=True)
    python = str(suite / "bin" / "python")
    subprocess.run(
        [*pip, "--python", python, "install", "--no-deps", "--no-index", str(wheel)], check=True
    )
    (packages,) = suite.glob("lib/python3.*/site-packages")
    for name in sorted(needed(PROJECT) - {PROJECT}):
        _copy(name, packages)
    shutil.rmtree(packages / "hybridlab")
    (suite / "bin" / "hybridlab").unlink()
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    last = re.sub(r"\\\n", " ", text).rpartition("\nRUN ")[2].partition("\n")[0]
    command = last.replace("/opt/suite", str(suite))
    subprocess.run(["sh", "-c", command], env=_WRITING, cwd=folder, check=True)
    return suite


def needed(name: str) -> set[str]:
    """Return the name of a distribution and of all its dependencies here, without its extras."""
    found: set[str] = set()
    left = [name]
    while left:
        one = _normal(left.pop())
        if one in found:
            continue
        found.add(one)
        for line in metadata.requires(one) or ():
            requirement, _, marker = line.partition(";")
            if "extra ==" not in marker and _applies(marker):
                left.append(re.split(r"[^\w.-]", requirement.strip())[0])
    return found


def _applies(marker: str) -> bool:
    from packaging.markers import Marker

    return not marker or Marker(marker).evaluate()


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _copy(name: str, packages: Path) -> None:
    """Copy the files of a distribution, except programs outside its packages."""
    for file in metadata.files(name) or ():
        if ".." in file.parts or "__pycache__" in file.parts:
            continue
        target = packages / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(str(file.locate()), target)
