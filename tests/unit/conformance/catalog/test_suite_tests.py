# SPDX-License-Identifier: Apache-2.0
"""Tests of the suites, their claims and their subjects, as their files' text shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.catalog import catalog
from conformance.catalog.suite_tests import SuiteTest, suite_tests

TEXT = """\
import pytest
from conformance.marks import about, after_all_others, each_build, verifies

other = [about("never")]
pytestmark = [verifies("DEMO-5"), about("paths")]

@verifies("CONN-1", part="linux")
@about("sizes", "windows")
def test_first(): pass

@each_build("VXLAN-1", "DEMO-1")
def test_second(): pass

@after_all_others
def test_last(): pass

@pytest.mark.parametrize("world", each_world())
def test_worlds(): pass

@pytest.mark.parametrize("story", each_story())
def test_stories(): pass

@pytest.mark.parametrize("number", each_number())
def test_numbers(): pass

def helper(): pass
"""
WORLD = """\
claim: [POL-1, POL-2]
cells:
- claim: POL-3
  beside: POL-4
beside: DEMO-2
"""


@pytest.fixture
def tests(tmp_path: Path) -> dict[str, SuiteTest]:
    """Tests of a folder of suites, by their names."""
    folder = tmp_path / "suites" / "dns"
    worlds = tmp_path / "suites" / "policy" / "worlds"
    worlds.mkdir(parents=True)
    folder.mkdir()
    (folder / "test_a.py").write_text(TEXT)
    (folder / "helpers.py").write_text("def test_no_test(): pass\n")
    (worlds / "a.yaml").write_text(WORLD)
    (worlds / "a.txt").write_text("claim: POL-9\n")
    return {test.names[2]: test for test in suite_tests(tmp_path / "suites")}


def test_each_test_function_of_a_test_file_is_found(tests: dict[str, SuiteTest]) -> None:
    names = ["first", "second", "last", "worlds", "stories", "numbers"]
    assert list(tests) == [f"test_{name}" for name in names]
    first = tests["test_first"]
    assert first.names == ("test_a.py", "dns", "test_first")
    assert first.place == "suites/dns/test_a.py::test_first"


def test_a_test_has_its_own_marks_and_those_of_its_file(tests: dict[str, SuiteTest]) -> None:
    assert tests["test_first"].claims == {"DEMO-5", "CONN-1"}
    assert tests["test_first"].said == {"paths", "sizes", "windows"}
    assert tests["test_second"].claims == {"DEMO-5", "VXLAN-1"}
    assert tests["test_second"].said == {"paths"}


def test_only_the_test_after_all_others_is_last(tests: dict[str, SuiteTest]) -> None:
    assert [name for name, test in tests.items() if test.is_last] == ["test_last"]


@pytest.mark.parametrize("name", ["test_worlds", "test_stories"])
def test_a_test_of_worlds_or_stories_has_the_claims_of_their_files(
    tests: dict[str, SuiteTest], name: str
) -> None:
    assert tests[name].claims == {"DEMO-5", "POL-1", "DEMO-2"}
    assert tests["test_numbers"].claims == {"DEMO-5"}


def test_a_test_is_about_its_claims_and_their_subjects_and_its_own() -> None:
    test = SuiteTest((), claims={"CONN-1", "NONE-1"}, said={"sizes"})
    assert test.about(catalog()) == {"CONN-1", "NONE-1", "sizes", *catalog()["CONN-1"].tags}
