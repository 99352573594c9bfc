# SPDX-License-Identifier: Apache-2.0
"""A fake API server for what fetches results."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.conformance.kube.fake_api import FakeApi


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """A running fake API server."""
    server = FakeApi()
    server.start()
    yield server
    server.stop()
