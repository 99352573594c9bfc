# SPDX-License-Identifier: Apache-2.0
"""Marks of the tests of this project."""

from __future__ import annotations

from typing import Any

import pytest

MARKS = (
    "whole_run: runs the suite, or much of it, on a lab; mostly waits (`make check-runs`)",
    "powershell: executes PowerShell, with the pwsh of the PATH (`make check-powershell`)",
    "slow: takes minutes; run when asked for, by -m slow",
    "detection: a whole run of the suite on a lab that is wrong on purpose",
    "detection_row: one row of the table; those to run are chosen among these",
)
"""Marks of all folders, although some are used in one folder only. Since 9.2 pytest refuses an
``-m`` with a mark that it does not know yet, and it reads a folder's own conftest.py only when
it collects there. In xdist's workers that is an internal error."""

BY_FILE = ("tests/unit/", "tests/worlds/", "tests/contract/field/", "tests/plugin/test_parts.py")
"""Folders of tests without a lab. Thousands of small tests cost less to distribute by files, and
values that a file computes once for all its tests are computed in one worker only."""


def pytest_configure(config: pytest.Config) -> None:
    for mark in MARKS:
        config.addinivalue_line("markers", mark)
    if config.getoption("dist", "no") == "loadgroup" and pytest.version_tuple >= (9, 2):
        raise pytest.UsageError(
            f"with pytest {pytest.__version__} pytest-xdist keeps no group of tests in one worker, each would start "
            "the lab of each file: make env (installs pytest<9.2)"
        )


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests that execute PowerShell programs, and keep tests together that share a
    fixture."""
    callspec = getattr(item, "callspec", None)
    if callspec and any(_names_powershell(value) for value in callspec.params.values()):
        item.add_marker(pytest.mark.powershell)
    if not item.get_closest_marker("xdist_group") and (name := group(item)):
        item.add_marker(pytest.mark.xdist_group(name))


def group(item: pytest.Item) -> str:
    """Return the name under which one worker gets a test together with others of its file; empty:
    any worker gets the test alone.

    Tests that share a fixture of their module stay together, separately for each parameter of the
    fixture: otherwise every worker would start the lab, or do the run, that the fixture is. Tests
    of :data:`BY_FILE` stay together by file.
    """
    file = item.nodeid.partition("::")[0]
    if file.startswith(BY_FILE):
        return file
    shared = shared_fixtures(item)
    return " ".join(filter(None, [file, *shared.values()])) if shared else ""


def shared_fixtures(item: pytest.Item) -> dict[str, str]:
    """Map fixtures of a test that its module shares to the number of their parameter, if any."""
    known: Any = getattr(item, "_fixtureinfo", None)
    definitions = known.name2fixturedefs.items() if known else ()
    indices = getattr(getattr(item, "callspec", None), "indices", {})
    return {
        name: f"{name}-{indices[name]}" if name in indices else ""
        for name, found in definitions
        if found and found[-1].scope == "module"
    }


def _names_powershell(value: Any) -> bool:
    return value == "pwsh" or (isinstance(value, tuple) and "pwsh" in value)
