"""Rows of the detection table start labs and runs, minutes in all: they are run when asked for, by ``-m detection``."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "detection: a whole run of the suite on a lab that is wrong on purpose")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "detection" in str(config.getoption("-m")):
        return
    rows = [item for item in items if item.get_closest_marker("detection")]
    if rows:
        config.hook.pytest_deselected(items=rows)
        items[:] = [item for item in items if item not in rows]
