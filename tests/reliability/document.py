# SPDX-License-Identifier: Apache-2.0
"""Writes docs/reliability.md: one generated section per measurement, each by its own command."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

from benchmarks import machine
from tests.reliability.source import source

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"


def write(section: str, lines: Sequence[str], path: Path = PAGE) -> None:
    """Replace the section's lines with ``lines``.  Raise ValueError if the page has no such section."""
    text = path.read_text(encoding="utf-8")
    begin, end = f"<!-- {section} -->\n", f"<!-- end of {section} -->\n"
    if begin not in text or end not in text:
        raise ValueError(f"{path} has no section {section!r}")
    before, _, rest = text.partition(begin)
    after = rest.partition(end)[2]
    body = "\n".join([measured(), "", *lines, ""])
    path.write_text(f"{before}{begin}{body}{end}{after}", encoding="utf-8")


def measured() -> str:
    """Return the day, the source and the machine of the measurements."""
    day = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
    return f"Measured until {day}, source {source()}. Machine: {machine.describe()}."
