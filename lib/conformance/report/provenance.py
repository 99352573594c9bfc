# SPDX-License-Identifier: Apache-2.0
"""The suite that produced a report, and the differences of its timings from the packaged
timings."""

import subprocess
from collections.abc import Iterator
from dataclasses import fields
from importlib import metadata
from pathlib import Path
from typing import Any

from conformance.catalog import digest
from conformance.settings import Timings, load_timings
from conformance.settings.timings import SECTIONS


def suite(root: Path) -> dict[str, str]:
    """Return ``version``, ``commit`` (of the checkout at ``root``; empty without one) and
    ``catalog``, its digest."""
    try:
        version = metadata.version("calico-windows-conformance")
    except metadata.PackageNotFoundError:  # run from a source tree that was never installed
        version = "unpackaged"
    return {"version": version, "commit": _commit(root), "catalog": digest()}


def _commit(root: Path) -> str:
    """Return the commit, such as ``0123456789ab``, with ``, changed`` if the checkout differs from
    it."""
    if not (root / ".git").exists():
        return ""
    try:
        head, status = (
            subprocess.run(
                ["git", *words], cwd=root, capture_output=True, text=True, timeout=10, check=True
            ).stdout
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        )
    except (OSError, subprocess.SubprocessError):  # no git, or not this user's checkout
        return ""
    return head.strip()[:12] + (", changed" if status.strip() else "")


def changed(timings: Timings) -> dict[str, str]:
    """Map each entry that differs from the packaged timings to its difference: ``windows.hold`` to
    ``2 s instead of 5 s``."""
    return dict(_changed(timings, load_timings()))


def _changed(timings: Timings, packaged: Timings) -> Iterator[tuple[str, str]]:
    for section in SECTIONS:
        mine: Any = getattr(timings, section)
        usual: Any = getattr(packaged, section)
        for entry in fields(mine):
            now = getattr(mine, entry.name)
            before = getattr(usual, entry.name)
            if now != before:
                unit = "" if entry.type == "int" else " s"
                yield f"{section}.{entry.name}", f"{now:g}{unit} instead of {before:g}{unit}"
