# SPDX-License-Identifier: Apache-2.0
"""Start a lab as an ordinary user from a test that runs as root.

This needs an interpreter of the same Python version outside any home, which the ordinary user can
execute. The lab's packages, and libraries that were fetched for this interpreter, are copied to a
folder that this user can read.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from hybridlab.kernel.libnftables import FETCHED

UID = 65534
"""The user nobody, who exists everywhere and owns nothing."""


@dataclass(frozen=True)
class Unprivileged:
    """The command that starts an interpreter as an ordinary user, and a folder to which this user
    may write."""

    launcher: tuple[str, ...]
    environment: dict[str, str]
    directory: Path


def unprivileged_launcher(directory: Path) -> Unprivileged | str:
    """Return the launcher, or the reason why there is none."""
    interpreter = _interpreter()
    if interpreter is None:
        wanted = f"{sys.version_info.major}.{sys.version_info.minor}"
        return f"uid {UID} can execute no Python {wanted}: install the distribution's python3 beside {sys.executable}"
    packages = directory / "packages"
    packages.mkdir()
    shutil.copytree(Path(__file__).parents[3] / "lib" / "hybridlab", packages / "hybridlab")
    for name in _distributions("calico-windows-conformance"):
        _copy(name, packages)
    home = directory / "home"
    home.mkdir()
    for path in (directory, *directory.parents):
        if (
            path.stat().st_uid == os.getuid()
            and not path.stat().st_mode & 0o001
            and path != Path("/")
        ):
            path.chmod(path.stat().st_mode | 0o011)
    os.chown(home, UID, UID)
    drop = f"import os, sys; os.setgroups([]); os.setgid({UID}); os.setuid({UID}); os.execv(sys.argv[1], sys.argv[1:])"
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(packages),
        "TMPDIR": str(home),
        "HOME": str(home),
    }
    # libraries beside this interpreter, which the other interpreter does not find
    if FETCHED.exists():
        environment["LD_LIBRARY_PATH"] = str(shutil.copytree(FETCHED, directory / "libraries"))
    return Unprivileged((interpreter, "-c", drop, interpreter), environment, home)


def _interpreter() -> str | None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    candidates = [
        sys._base_executable,  # type: ignore[attr-defined]
        f"/usr/bin/python{version}",
        f"/usr/local/bin/python{version}",
    ]
    for candidate in candidates:
        check = f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
        try:
            done = subprocess.run(
                [candidate, "-c", check], user=UID, group=UID, extra_groups=[], env={}, cwd="/", check=False,
                capture_output=True, timeout=20,
            )  # fmt: skip
        except OSError:
            continue
        if done.returncode == 0:
            return str(candidate)
    return None


def _distributions(root: str) -> list[str]:
    """Return the distributions that the lab needs: the suite's extra ``lab``, and PyYAML."""
    found: list[str] = []
    waiting = ["PyYAML", *_requirements(root, extra="lab")]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.append(name)
            waiting += _requirements(name)
    return found


def _requirements(name: str, extra: str = "") -> list[str]:
    """Return the requirements of a distribution that apply here; with an extra, only the
    requirements that the extra adds."""
    needed = []
    for line in metadata.requires(name) or []:
        requirement, _, marker = line.partition(";")
        match = re.match(r"[A-Za-z0-9._-]+", requirement)
        extras = re.findall(r"extra == ['\"]([^'\"]+)", marker)
        if match and extras == ([extra] if extra else []):
            try:
                metadata.distribution(match.group())
            except metadata.PackageNotFoundError:
                continue  # the requirement's marker does not apply here
            needed.append(match.group())
    return needed


def _copy(name: str, packages: Path) -> None:
    for file in metadata.files(name) or []:
        if file.suffix == ".pyc" or ".." in file.parts:
            continue
        target = packages / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(str(file.locate()), target)
