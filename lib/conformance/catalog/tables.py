# SPDX-License-Identifier: Apache-2.0
"""What documents list by version of Calico (``tables.yaml``), with the place of each row.  It knows no cluster."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from conformance.catalog.versions import NEWEST, Range, Version


@dataclass(frozen=True)
class Row:
    """One row of a table."""

    versions: Range
    """Of Calico."""
    listed: tuple[str, ...]
    source: str
    """A document with its versions, or ``owner/repository@commit:path``."""


@functools.cache
def tables() -> Mapping[str, tuple[Row, ...]]:
    """Every table by its name."""
    plain = yaml.safe_load(Path(__file__).with_name("tables.yaml").read_text(encoding="utf-8"))
    return {
        name: tuple(
            Row(Range(row["versions"]), tuple(row["listed"]), row["source"]) for row in rows
        )
        for name, rows in plain.items()
    }


def row(table: str, calico: str | None) -> Row | None:
    """The row for a version of Calico, an unknown one being the newest; None: the table does not know it."""
    version = Version.parse(calico) if calico else NEWEST
    return next((row for row in tables()[table] if version in row.versions), None)
