# SPDX-License-Identifier: Apache-2.0
"""Remove from this Python's environment every package that no lock names.

python -I tools/prune_environment.py LOCK...

``pip install --requirement`` only adds packages. Without this script, a package that a lock has
dropped, or that a developer tried out, would stay and take part in tests. The project itself stays.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

ROOT = Path(__file__).parents[1]


def named(lock: str) -> set[NormalizedName]:
    """Return the packages that a lock names for this Python and system."""
    found: set[NormalizedName] = set()
    for line in lock.splitlines():
        if line[:1].isalnum():
            requirement = Requirement(line.removesuffix("\\"))
            if requirement.marker is None or requirement.marker.evaluate():
                found.add(canonicalize_name(requirement.name))
    return found


def main(locks: list[str]) -> int:
    """Remove these packages and return pip's exit code."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    kept = {canonicalize_name(project["name"])}
    for lock in locks:
        kept |= named(Path(lock).read_text(encoding="utf-8"))
    installed = {canonicalize_name(each.metadata["Name"]) for each in distributions()}
    foreign = sorted(installed - kept)
    if not foreign:
        return 0
    print(f"removing packages that no lock file names: {', '.join(foreign)}", flush=True)
    command = [sys.executable, "-I", "-m", "pip", "uninstall", "--yes", "--quiet", *foreign]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
