# SPDX-License-Identifier: Apache-2.0
"""Which suite a report comes from, and how its patience differed from the packaged one."""

import subprocess
from collections.abc import Iterator
from dataclasses import fields
from importlib import metadata
from pathlib import Path
from typing import Any

from conformance.catalog import digest
from conformance.settings import Timings, load_timings


def suite(root: Path) -> dict[str, str]:
    """``version``, ``commit`` (of the checkout at ``root``; empty: it is none) and ``catalog``, its digest."""
    try:
        version = metadata.version("calico-windows-conformance")
    except metadata.PackageNotFoundError:  # run from a source tree that was never installed
        version = "unpackaged"
    return {"version": version, "commit": _commit(root), "catalog": digest()}


def _commit(root: Path) -> str:
    """``0123456789ab``, with ``, changed`` when the checkout differs from it."""
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
    """Entries that differ from the packaged ones: ``windows.hold`` to ``2 s instead of 5 s``."""
    return dict(_changed(timings, load_timings()))


def _changed(timings: Timings, packaged: Timings) -> Iterator[tuple[str, str]]:
    for section in fields(Timings):
        mine: Any = getattr(timings, section.name)
        usual: Any = getattr(packaged, section.name)
        for entry in fields(mine):
            now = getattr(mine, entry.name)
            before = getattr(usual, entry.name)
            if now != before:
                unit = "" if entry.type == "int" else " s"
                yield f"{section.name}.{entry.name}", f"{now:g}{unit} instead of {before:g}{unit}"
