# SPDX-License-Identifier: Apache-2.0
"""Tests that share a fixture of their module run in one worker, which makes the fixture once."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import group, shared_fixtures


@pytest.fixture(scope="module")
def lab() -> str:
    return "a lab"


@pytest.fixture(scope="module", params=["small", "large"])
def profile(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_fixtures_of_a_module_are_found_with_their_parameters(
    lab: str, profile: str, tmp_path: object, request: pytest.FixtureRequest
) -> None:
    number = 0 if profile == "small" else 1
    assert shared_fixtures(request.node) == {"lab": "", "profile": f"profile-{number}"}


def test_unit_tests_stay_together_by_file(request: pytest.FixtureRequest) -> None:
    assert group(request.node) == "tests/unit/test_groups_of_tests.py"


def test_without_a_shared_fixture_any_worker_gets_a_test(tmp_path: object) -> None:
    assert group(item("tests/lab/test_a.py::test_it", size="function")) == ""


def test_a_shared_fixture_keeps_the_tests_of_a_file_together() -> None:
    one, other = (item(f"tests/lab/test_a.py::test_{name}", lab="module") for name in "ab")
    assert group(one) == group(other) == "tests/lab/test_a.py"


def test_each_parameter_of_a_shared_fixture_may_have_a_worker_of_its_own() -> None:
    made = item("tests/lab/test_a.py::test_it[bgp-3]", lab="module", size="function")
    made.callspec = SimpleNamespace(indices={"lab": 2, "size": 3})
    assert group(made) == "tests/lab/test_a.py lab-2"


def item(node: str, **scopes: str) -> Any:
    """Return a stand-in for a collected test with fixtures of these scopes."""
    found = {name: [SimpleNamespace(scope=scope)] for name, scope in scopes.items()}
    return SimpleNamespace(nodeid=node, _fixtureinfo=SimpleNamespace(name2fixturedefs=found))
