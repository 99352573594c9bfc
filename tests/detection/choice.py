# SPDX-License-Identifier: Apache-2.0
"""Choose the rows of the detection table that a gate runs: rows that a change may have changed, as
many as a gate can afford.

A change is the difference from the base. The base is the commit in ``DETECTION_BASE``; otherwise
the commit where this branch left ``origin/main``; on main itself, the first parent. Without a base
(a clone of depth 1, the first commit) no row counts as changed. The commit's id decides which rows
of a changed area come first, and which rows fill the remaining places. Thereby all rows are run
over many commits, and the same commit always gets the same rows.

Rows that run every test of the suite are never chosen: a gate fails after some minutes, which a few
of these rows would use up. ``make check-detection`` runs them whole; with ``CLAIM=ID`` it runs one
claim in each row.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.detection.table import ROWS, Row, Table

ROOT = Path(__file__).parents[2]
EVERYWHERE = ("lib/", "manifests/", "tests/detection/")
"""The beginnings of paths of files that may change every row, unless a layer claims the file."""
NO_CODE = (".md", ".txt")


@dataclass(frozen=True, kw_only=True)
class Change:
    """The difference from the base."""

    commit: str
    """The id of the commit that is checked out."""
    base: str
    """The id of the base; empty: there is none."""
    files: tuple[str, ...] = ()
    """The paths of changed files, relative to the root."""
    rows: frozenset[str] = frozenset()
    """The names, as in the file, of rows that are new or differ from the base."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The rows that a gate runs."""

    rows: tuple[Row, ...]
    left_out: tuple[Row, ...]
    """Rows that the change may have changed, but that found no place or are too long for a gate."""
    says: str
    """The reason for this choice, in one line."""


def commit() -> str:
    """Return the id of the commit that is checked out, hexadecimal. Raise CalledProcessError
    without git."""
    return _git("rev-parse", "HEAD")


def turn(of: int, commit_id: str) -> int:
    """Return the number, from 0, of the turn that a commit gets among ``of`` turns. The same
    commit always gets the same turn."""
    return int(commit_id, 16) % of


def change() -> Change:
    """Return the change that is checked out. Raise CalledProcessError without git."""
    own = commit()
    base = _base(own)
    if not base:
        return Change(commit=own, base="")
    files = tuple(_git("diff", "--name-only", base, own).splitlines())
    here = f"{ROWS.relative_to(ROOT).as_posix()}/"
    before: dict[str, Any] = {}
    now: dict[str, Any] = {}
    for path in files:
        if path.startswith(here):
            before |= _rows_in(_git("show", f"{base}:{path}", missing=""))
            now |= _rows_in(
                (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).is_file() else ""
            )
    return Change(
        commit=own,
        base=base,
        files=files,
        rows=frozenset(name for name, given in now.items() if before.get(name) != given),
    )


def _base(own: str) -> str:
    # a forge calls the base of the first push 0000...
    named = os.environ.get("DETECTION_BASE", "").strip("0")
    if named:
        return _git("rev-parse", "--verify", "--quiet", f"{named}^{{commit}}", missing="")
    forked = _git("merge-base", "HEAD", "origin/main", missing="")
    return (
        forked
        if forked not in {"", own}
        else _git("rev-parse", "--verify", "--quiet", "HEAD^1", missing="")
    )


def _git(*arguments: str, missing: str | None = None) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, check=missing is None, capture_output=True, text=True
    )
    return done.stdout.strip() if done.returncode == 0 else str(missing)


def _rows_in(text: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (yaml.safe_load(text) or {}).get("rows", {})
    return found


def chosen(table: Table, rows: Sequence[Row], changed: Change, at_most: int) -> Choice:
    """Choose at most ``at_most`` of these rows, and no row that is too long.

    Changed rows come first, then rows of changed areas, then rows of changed layers, then all other
    rows.
    """
    by_rank: dict[int, list[Row]] = {}
    rank_of = _ranks(table, changed)
    for row in rows:
        by_rank.setdefault(rank_of(row), []).append(row)
    order = [row for rank in sorted(by_rank) for row in _shuffled(by_rank[rank], changed.commit)]
    # compared by name, which is unique: comparing rows takes long
    taken = {row.name for row in [row for row in order if not row.long][:at_most]}
    about = {row.name for rank, some in by_rank.items() if rank < ANY for row in some}
    kept = tuple(row for row in rows if row.name in taken)
    left_out = tuple(row for row in rows if row.name in about - taken)
    concerned = sum(row.name in about for row in kept)
    counts = f"{concerned} of the {len(about)} that the change since {changed.base[:12]} concerns"
    says = f"detection: {len(kept)} of {len(rows)} labs, {counts if changed.base else 'no base to compare with'}"
    return Choice(
        rows=kept, left_out=left_out, says=f"{says}; the rest by commit {changed.commit[:12]}"
    )


ANY = 3
"""The rank of rows that a change does not concern."""


def _ranks(table: Table, changed: Change) -> Callable[[Row], int]:
    """Return a function that ranks rows.

    0: the row itself has changed; 1: tests of claims in the row have changed; 2: a file of its
    layer has changed; 3: none of these.
    """
    split = (path.split("/") for path in changed.files)
    areas = {parts[1] for parts in split if len(parts) > 2 and parts[0] == "suites"}
    claims = {claim for claim, area in table.areas.items() if area in areas}
    concerned = layers(table, changed.files)

    def rank(row: Row) -> int:
        if _without_node(row) in changed.rows:
            return 0
        if claims and not claims.isdisjoint(row.named):
            return 1
        return 2 if row.layer in concerned else ANY

    return rank


def _without_node(row: Row) -> str:
    """Return a row's name as in the file, where a row may stand for one lab per node."""
    return row.name.removesuffix(f"-{row.node}" if row.node else "")


def layers(table: Table, files: Iterable[str]) -> set[str]:
    """Return the layers whose rows a change of these files may change; for code that belongs to no
    layer, all of them."""
    found: set[str] = set()
    for path in files:
        own = {name for name, layer in table.layers.items() if path.startswith(layer.files)}
        if own:
            found |= own
        elif (
            path.startswith(EVERYWHERE)
            and not path.startswith("tests/detection/rows/")
            and not path.endswith(NO_CODE)
        ):
            found |= set(table.layers)
    return found


def _shuffled(rows: Iterable[Row], commit: str) -> list[Row]:
    """Return the rows in an order that the commit decides. Of a row with one lab per node, one lab
    comes first and the others later."""

    def key(text: str) -> str:
        return hashlib.sha256(f"{commit} {text}".encode()).hexdigest()

    by_name: dict[str, list[Row]] = {}
    for row in rows:
        by_name.setdefault(_without_node(row), []).append(row)
    ordered = {
        name: sorted(some, key=lambda row: key(row.name)) if len(some) > 1 else some
        for name, some in by_name.items()
    }
    names = sorted(ordered, key=key)
    most = max(map(len, ordered.values()), default=0)
    return [ordered[name][at] for at in range(most) for name in names if at < len(ordered[name])]
