# SPDX-License-Identifier: Apache-2.0
"""The tables of documents by version of Calico or of Kubernetes (``tables.yaml``), with the source
of each row.  They are independent of any cluster."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from conformance.catalog.loading import LOADER
from conformance.catalog.versions import KNOWN, NEXT, Range, Version
from conformance.errors import MissingCapability


@dataclass(frozen=True)
class Row:
    """A row of a table."""

    versions: Range
    """Versions of Calico; in the table ``windows``, versions of Kubernetes."""
    listed: tuple[str, ...]
    source: str
    """A document with its versions, or ``owner/repository@commit:path``."""


@functools.cache
def tables() -> Mapping[str, tuple[Row, ...]]:
    """Return every table by its name."""
    plain = yaml.load(Path(__file__).with_name("tables.yaml").read_text(encoding="utf-8"), LOADER)
    return {
        name: tuple(
            Row(Range(row["versions"]), tuple(row["listed"]), row["source"]) for row in rows
        )
        for name, rows in plain.items()
    }


def row(table: str, calico: str | None) -> Row | None:
    """Return the row for a version of Calico, or None if the table has no such row. An unknown
    version counts as the newest. Raise MissingCapability for releases that are newer than every
    table."""
    version = Version.parse(calico or KNOWN)
    if version >= NEXT:
        raise MissingCapability(
            f"Calico {calico} is not in the suite's table; this suite knows Calico up to {KNOWN}",
            "run a newer release of this suite",
        )
    return next((row for row in tables()[table] if version in row.versions), None)
