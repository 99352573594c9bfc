# SPDX-License-Identifier: Apache-2.0
"""The source of a measurement: figures of different sources are never added up."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

ROOT = Path(__file__).parents[2]
MEASURED = ("lib", "suites", "manifests")


@functools.cache
def source() -> str:
    """Return a short hash of everything that runs: lib, suites and manifests as they are on
    disk."""
    digest = hashlib.sha256()
    for folder in MEASURED:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and ".egg-info" not in str(path):
                digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]
