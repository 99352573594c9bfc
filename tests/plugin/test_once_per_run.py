# SPDX-License-Identifier: Apache-2.0
"""A run computes each claim's standing once; gates, outputs and exit code read that object."""

from __future__ import annotations

import json

import pytest

from .conftest import Project

COUNTING = """
import atexit, collections, json, os, pathlib, sys

COUNTED = {
    "_decide": "applicability.py",
    "to_json": "run.py",
    "write_json": "run.py",
    "parse": "stored.py",
    "judge": "gate.py",
}
ARGUMENTS = ("facts", "claim", "part", "windows")
calls = collections.Counter()

def count(frame, event, _):
    code = frame.f_code
    if event != "call" or COUNTED.get(code.co_name) != os.path.basename(code.co_filename):
        return
    given = ARGUMENTS if code.co_name == "_decide" else ()
    about = [repr(frame.f_locals[name]) for name in given]
    calls[code.co_name, *about] += 1

def pytest_sessionstart():
    sys.setprofile(count)

def pytest_unconfigure():
    sys.setprofile(None)
    pathlib.Path("calls.json").write_text(json.dumps(list(calls.items())))
"""


def calls(project: Project, *options: str) -> dict[str, list[int]]:
    """Function to how often it was called with the same arguments."""
    (project.path / "counting.py").write_text(COUNTING)
    run = project.run("-p", "counting", *options)
    assert run.code in (0, 6), run.out
    found: dict[str, list[int]] = {}
    for (name, *_), number in json.loads((project.path / "calls.json").read_text()):
        found.setdefault(name, []).append(number)
    return found


@pytest.mark.parametrize("selection", [[], ["--claim=DEMO-5"]], ids=["whole", "one claim"])
def test_a_run_decides_once_what_a_claim_is_about_and_makes_one_json_for_one_file(
    project: Project, selection: list[str]
) -> None:
    project.suite(
        """
@verifies("DEMO-5")
@pytest.mark.parametrize("number", range(3))
def test_good(number): pass

@verifies("CONN-1")
def test_other(): pass
"""
    )
    found = calls(project, "--require=core,policy", *selection)
    assert set(found["_decide"]) == {1}, "the same conditions and facts were decided again"
    assert found["to_json"] == found["write_json"] == [1]
    assert "parse" not in found, "a run read its own report back"
    assert found["judge"] == [2], (
        "sets are judged before the first test and at the end, all at once"
    )


def test_a_stored_report_is_read_where_the_user_names_one(project: Project) -> None:
    project.suite("@verifies('DEMO-5')\ndef test_good(): pass")
    assert project.run().code == 0
    (project.path / "reports" / "latest").resolve().rename(project.path / "earlier")
    found = calls(project, "--baseline=earlier")
    assert found["to_json"] == found["write_json"] == [1]
