# SPDX-License-Identifier: Apache-2.0
"""Reports and pages of tests, and readers of them."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.conformance.qualify.reports import BOTH, NEW, OLD, decided, report

HOSTILE = "<img src=x onerror=alert(1)>\"'&{{7*7}}"


def plain(*results: dict[str, Any], **run: Any) -> dict[str, Any]:
    """Return a whole report in its JSON form."""
    whole: dict[str, Any] = json.loads(json.dumps(report(results, builds=BOTH).plain))
    for claim in whole["claims"]:
        claim |= {
            "modality": "always",
            "sources": [{"title": "Docs", "url": "https://docs.example/x"}],
            "decided_parts": [],
        }
    whole["run"] |= {
        "seconds": 1.5, "exit_code": 0, "command": "pytest", "notes": [], "cut_short": None,
        "cluster": {"how": "lab", "why": "", "label": "a cluster"},
    } | run  # fmt: skip
    return whole | {
        "counts": {"VIOLATED": 1}, "matrix": {"pod-ip": {"linux->windows": "VIOLATED"}}, "gates": [], "waived": {},
        "attested": {}, "timings": {}, "suite": {"version": "1", "commit": "abc", "catalog": "f" * 64},
    }  # fmt: skip


LEAK = decided("DEMO-7", {OLD: "VIOLATED", NEW: "CONFIRMED"})


def section(page: str, name: str) -> str:
    """Return a section of a page."""
    return page.partition(f'<section id="{name}">')[2].partition("</section>")[0]
