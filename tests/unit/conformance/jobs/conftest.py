# SPDX-License-Identifier: Apache-2.0
"""A fake API server for tests that fetch results, and stored runs for tests that merge them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.cli import main
from tests.unit.conformance.jobs.stored_runs import Merge, Plain, kept
from tests.unit.conformance.kube.fake_api import FakeApi


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """A running fake API server."""
    server = FakeApi()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> Plain:
    """Return a stored report of a run of a whole small suite."""
    return kept("healthy", monkeypatch)


@pytest.fixture
def merged(tmp_path: Path) -> Merge:
    """Return a function that runs ``calico-conformance merge`` on such reports."""

    def merge(*reports: Plain) -> tuple[int, Path]:
        folders = []
        for number, plain in enumerate(reports):
            folder = tmp_path / f"run-{number}"
            folder.mkdir(exist_ok=True)
            (folder / "conformance.json").write_text(json.dumps(plain))
            folders.append(str(folder))
        return main(["merge", *folders, f"--to={tmp_path / 'merged'}"]), tmp_path / "merged"

    return merge
