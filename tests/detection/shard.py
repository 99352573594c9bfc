"""One share of the detection rows per commit, so that a gate can afford them and all are run over many commits."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def commit() -> str:
    """The id of the commit that is checked out: hexadecimal digits."""
    folder = Path(__file__).parent
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True)
    return asked.stdout.strip()


def chosen(of: int, commit_id: str) -> int:
    """Which of so many shares a commit gets, from 0.

    The commit decides and not the date: the same commit is green or red tomorrow for the same reason as today.
    """
    return int(commit_id, 16) % of


def share(rows: Sequence[T], index: int, of: int) -> list[T]:
    """Every ``of``-th row, beginning with that one: together the shares are all rows, each once."""
    return list(rows[index::of])
