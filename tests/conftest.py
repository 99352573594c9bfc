"""Marks of the tests of this project."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "whole_run: runs the suite, or much of it, on a lab; mostly waits (`make check-runs`)"
    )
    if config.getoption("dist", "no") == "loadgroup" and pytest.version_tuple >= (9, 2):
        raise pytest.UsageError(
            f"with pytest {pytest.__version__} pytest-xdist keeps no group of tests in one worker, each would start "
            "the lab of each file: make env (installs pytest<9.2)"
        )
