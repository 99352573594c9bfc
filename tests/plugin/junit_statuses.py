# SPDX-License-Identifier: Apache-2.0
"""Reads the status of each test in a JUnit file."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as Xml

from conformance.report.junit import PROPERTY


def statuses(path: Path) -> dict[str, str]:
    """Map each test (node id) to ``failure``, ``error``, ``skipped`` or ``passed``; a test with
    several cases gets the worst of them."""
    tags: dict[str, set[str]] = {}
    for case in Xml.parse(path).getroot().iter("testcase"):
        named = [
            str(entry.get("value"))
            for entry in case.iter("property")
            if entry.get("name") == PROPERTY
        ]
        ident = (
            named[0]
            if named
            else f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
        )
        tags.setdefault(ident, set()).update(child.tag for child in case)
    return {
        ident: next((tag for tag in ("failure", "error", "skipped") if tag in found), "passed")
        for ident, found in tags.items()
    }
