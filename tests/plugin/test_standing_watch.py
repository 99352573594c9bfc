# SPDX-License-Identifier: Apache-2.0
"""With ``--no-watch`` the parts that the standing watch decides are left out, and every output says
so."""

from __future__ import annotations

from .conftest import Project

SUITE = """
from conformance.marks import after_all_others

@after_all_others()
@verifies("POL-1", part="throughout the run")
def test_watched(): pass

@verifies("POL-1")
def test_other(record): pass
"""


def test_without_a_watch_what_decides_by_it_is_left_out_and_that_is_said(project: Project) -> None:
    project.suite(SUITE)
    run = project.run("--no-watch")
    assert [str(test["test"]).rpartition("::")[2] for test in run.report["tests"]] == ["test_other"]
    told = "--no-watch: whether policies stay in force all through the run (POL-1) is not watched"
    assert run.out.count(told) == 2  # at the beginning, and in the summary
    assert told in run.report["run"]["notes"]
    assert run.folder
    assert f'value="{told}"' in (run.folder / "junit.xml").read_text()
    assert told in (run.folder / "allure" / "environment.properties").read_text()
