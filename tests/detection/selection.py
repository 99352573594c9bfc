# SPDX-License-Identifier: Apache-2.0
"""Finds out which tests each row runs, and which claims these tests decide, by one collection of
the suite that starts no lab."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.detection.table import Row

ROOT = Path(__file__).parents[2]
COLLECT = """
import json, sys, pytest
from conformance.catalog import catalog
from conformance.plugin.judge.stash import PLANNED
from conformance.plugin.words import selected

class Tests:
    def pytest_collection_finish(self, session):
        told = []
        for item in session.items:
            test = item.stash[PLANNED]
            claims = test.claims(catalog())
            own = {word for claim in claims for word in (claim.id, *claim.tags)} - (
                set() if test.about_windows else {"windows"}
            )
            words = [word for word in json.loads(sys.argv[1]) if not word or selected(item, word, own, catalog())]
            if not item.get_closest_marker("skip"):  # `make new-claim` begins tests that are skipped
                told.append([item.nodeid, [claim.id for claim in claims], words])
        print("tests", json.dumps(told))

pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider"], plugins=[Tests()])
"""


def row_tests(rows: Iterable[Row]) -> dict[str, dict[str, frozenset[str]]]:
    """Map each row to its tests (``suites/...::test_...[...]``), each with the claims that it
    decides."""
    rows = tuple(rows)
    words = json.dumps(sorted({row.only for row in rows}))
    done = subprocess.run(
        [sys.executable, "-c", COLLECT, words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    line = next(line for line in done.stdout.splitlines() if line.startswith("tests "))
    tests = [
        (name, frozenset(claims), words)
        for name, claims, words in json.loads(line.removeprefix("tests "))
    ]
    return {
        row.name: {
            name: claims
            for name, claims, words in tests
            if row.only in words and (not row.claims or claims.intersection(row.claims))
        }
        for row in rows
    }
