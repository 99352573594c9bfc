# SPDX-License-Identifier: Apache-2.0
"""Marks of the tests of this project."""

from __future__ import annotations

from typing import Any

import pytest

MARKS = (
    "whole_run: runs the suite, or much of it, on a lab; mostly waits (`make check-runs`)",
    "powershell: executes PowerShell, with the pwsh of the PATH (`make check-powershell`)",
    "slow: takes minutes; runs only with -m slow",
    "detection: a whole run of the suite on a deliberately broken lab",
    "detection_row: one row of the detection table; options choose the rows of a run",
)
"""All marks are declared here, including those that only one folder uses. Since version 9.2 pytest
refuses an ``-m`` with a mark that it does not know yet, and it knows the marks of a folder's own
conftest.py only after collecting the folder. In xdist's workers such a refusal is an internal
error."""

BY_FILE = ("tests/unit/", "tests/worlds/", "tests/contract/field/", "tests/plugin/test_parts.py")
"""Tests without a lab are handed out by file: they are thousands of small tests, so this costs
less, and a file's shared computations are done in only one worker."""


def pytest_configure(config: pytest.Config) -> None:
    for mark in MARKS:
        config.addinivalue_line("markers", mark)
    if config.getoption("dist", "no") == "loadgroup" and pytest.version_tuple >= (9, 2):
        raise pytest.UsageError(
            f"with pytest {pytest.__version__}, pytest-xdist does not keep a group of tests in one worker, so each "
            "worker would start each file's lab; install pytest<9.2: make env"
        )


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests that a pwsh executes, and keep tests together that share a fixture."""
    callspec = getattr(item, "callspec", None)
    if callspec and any(_names_powershell(value) for value in callspec.params.values()):
        item.add_marker(pytest.mark.powershell)
    if not item.get_closest_marker("xdist_group") and (name := group(item)):
        item.add_marker(pytest.mark.xdist_group(name))


def group(item: pytest.Item) -> str:
    """Return the group of a test: one worker gets all tests of a group of a file. Empty: any worker
    gets the test alone.

    Tests that share a fixture of their module stay together, separately for each parameter of the
    fixture. Otherwise every worker would start the lab, or do the run, that the fixture provides.
    Tests of :data:`BY_FILE` stay together by file.
    """
    file = item.nodeid.partition("::")[0]
    if file.startswith(BY_FILE):
        return file
    shared = shared_fixtures(item)
    return " ".join(filter(None, [file, *shared.values()])) if shared else ""


def shared_fixtures(item: pytest.Item) -> dict[str, str]:
    """Map each module-wide fixture of a test to the number of its parameter, if it has one."""
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
