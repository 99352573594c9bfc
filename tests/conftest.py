"""Marks of the tests of this project."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "whole_run: runs the suite, or much of it, on a lab; mostly waits (`make check-runs`)"
    )
