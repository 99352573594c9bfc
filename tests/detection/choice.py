# SPDX-License-Identifier: Apache-2.0
"""The rows of the detection table that a gate runs: those whose verdicts a change may have changed,
as many as a gate can afford.

A change is the difference from a base: the commit that ``DETECTION_BASE`` names, else the point
where this branch left ``origin/main``, else, on main itself, the first parent. If there is no base
(a clone of depth 1, the first commit), no row counts as changed, and the commit's id alone chooses.
The id also decides which rows of a changed area come first, and which rows fill the remaining
places. Over many commits all rows are therefore run, and the same commit always gets the same rows.

Rows that run every test of the suite are never chosen: a few of them, or one that is run twice,
would exceed the minutes of a gate. ``make check-detection`` runs them whole; with ``CLAIM=ID`` it
runs one claim in each.
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
"""How the paths of files begin that may change every row where no layer claims them."""
NO_CODE = (".md", ".txt")


@dataclass(frozen=True, kw_only=True)
class Change:
    """What is new since the base."""

    commit: str
    """Id of the commit that is checked out."""
    base: str
    """Id of the base; empty: there is none."""
    files: tuple[str, ...] = ()
    """Paths that differ, from the root."""
    rows: frozenset[str] = frozenset()
    """Names of rows, as in the file, that are new or read otherwise than at the base."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What a gate runs."""

    rows: tuple[Row, ...]
    left_out: tuple[Row, ...]
    """Rows that the change can have changed and for which there was no place, or which are too long for a gate."""
    says: str
    """Why these, in one line."""


def commit() -> str:
    """The id of the commit that is checked out, hexadecimal.  Raises CalledProcessError where there is no git."""
    return _git("rev-parse", "HEAD")


def turn(of: int, commit_id: str) -> int:
    """Return which of this many turns a commit gets, from 0; always the same one."""
    return int(commit_id, 16) % of


def change() -> Change:
    """The change that is checked out.  Raises CalledProcessError where there is no git."""
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
    named = os.environ.get("DETECTION_BASE", "").strip(
        "0"
    )  # a forge names the first push's base 0000...
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
    """At most so many of these rows, none that is long.

    Changed ones, then those of changed areas, those of changed layers, and any others.
    """
    by_rank: dict[int, list[Row]] = {}
    rank_of = _ranks(table, changed)
    for row in rows:
        by_rank.setdefault(rank_of(row), []).append(row)
    order = [row for rank in sorted(by_rank) for row in _shuffled(by_rank[rank], changed.commit)]
    # by name, which is a row's own: rows themselves take long to compare
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

    0: the row itself is changed; 1: tests of claims that it turns are; 2: a file of its layer is;
    3: neither.
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
    """The name of a row as in the file, which has a lab for each node."""
    return row.name.removesuffix(f"-{row.node}" if row.node else "")


def layers(table: Table, files: Iterable[str]) -> set[str]:
    """Layers whose rows a change of these files may change; all of them for code that belongs to none."""
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
    """The rows in an order that the commit decides; of a row with a lab for each node one node comes first."""

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
