"""Hooks that this plugin offers: the seams at which tests of the plugin, and later parts, take the place of its own."""

from __future__ import annotations

import pytest

from conformance.plugin.provider import Provider


@pytest.hookspec(firstresult=True)
def pytest_conformance_provider(config: pytest.Config) -> Provider | None:
    """Who opens clusters, finds out facts and hands out connections."""
