# SPDX-License-Identifier: Apache-2.0
"""Words of -k that certainly select no test are found before anything starts; other words are
not reported."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance import plugin
from conformance.catalog import catalog
from conformance.plugin import words

TEXT = """\
@verifies("CONN-1")
@about("calicoctl")
def test_first(): pass

@verifies("VXLAN-10")
@pytest.mark.parametrize("where", ["remote_end"])
def test_second(): pass
"""


@pytest.fixture
def suites(tmp_path: Path) -> Path:
    folder = tmp_path / "suites"
    (folder / "paths").mkdir(parents=True)
    (folder / "policy").mkdir()
    (folder / "paths" / "test_pages.py").write_text(TEXT)
    (folder / "policy" / "shop.yaml").write_text("claim: POL-1\n")
    return folder


@pytest.mark.parametrize(
    ("expression", "nothing"),
    [
        pytest.param("CONN-1", False, id="a claim with a test"),
        pytest.param("conn-1", False, id="in small letters"),
        pytest.param("VXLAN-1", True, id="a claim without one, although its id begins another"),
        pytest.param("calicoctl", False, id="what a test says it is about"),
        pytest.param("vxlan and CONN-1", True, id="no test of both"),
        pytest.param("vxlan or CONN-2", False, id="a test of one"),
        pytest.param("not CONN-1", False, id="the others"),
        pytest.param("not (CONN-1 or vxlan)", True, id="no others"),
        pytest.param("first", False, id="a part of a test's name"),
        pytest.param("pages", False, id="a part of a file's name"),
        pytest.param("paths and second", False, id="a folder and a test"),
        pytest.param("first and second", True, id="two tests"),
        pytest.param("nowhere", True, id="nothing that is written anywhere"),
        pytest.param("shop", False, id="a world of policies"),
        pytest.param("remote_end", False, id="the id of a parameter"),
        pytest.param("3", False, id="a number may be an id"),
        pytest.param("linux-to-win", False, id="a part of a known id"),
        pytest.param("test_first[2-ingress]", False, id="ids in brackets"),
        pytest.param("test_first[nowhere]", True, id="unknown ids in brackets"),
        pytest.param("nowhere or not nowhere", False, id="always true"),
    ],
)
def test_an_expression_that_certainly_selects_nothing_is_found(
    suites: Path, expression: str, nothing: bool
) -> None:
    assert words.selects_nothing(expression, suites, catalog()) is nothing


def test_only_tests_of_the_given_claims_count(suites: Path) -> None:
    assert not words.selects_nothing("first", suites, catalog(), ["CONN-1", "CONN-2"])
    assert words.selects_nothing("first", suites, catalog(), ["VXLAN-10"])


def test_an_expression_that_cannot_be_read_is_refused(suites: Path) -> None:
    with pytest.raises(pytest.UsageError, match="-k first and: "):
        words.selects_nothing("first and", suites, catalog())


def test_subjects_and_claims_without_any_test_are_named(suites: Path) -> None:
    found = words.untested(
        "(vxlan or VXLAN-1) and not conn-2 or first or CONN-1", suites, catalog()
    )
    assert found == {"VXLAN-1": ["VXLAN-1"], "conn-2": ["CONN-2"]}
    ipam = words.untested("ipam", suites, catalog())
    assert ipam == {"ipam": [claim.id for claim in catalog().values() if "ipam" in claim.tags]}


def test_subjects_are_sorted_and_say_what_they_select() -> None:
    found = words.subjects(catalog())
    assert list(found) == sorted(found)
    assert {"vxlan", "windows", "calicoctl"} <= found.keys()


@pytest.mark.parametrize(
    ("expression", "claims", "why"),
    [
        ("", [], ""),
        ("first", [], ""),
        ("first", ["CONN-1"], ""),
        ("first", ["VXLAN-10", "CONN-2"], "-k 'first' selects no test of --claim VXLAN-10, CONN-2"),
        (
            "CONN-2",
            [],
            "-k 'CONN-2' selects no test: no test exists yet for CONN-2: CONN-2",
        ),
        ("nowhere", [], "-k 'nowhere' selects no test; the known words are"),
    ],
)
def test_a_selection_of_nothing_says_why_and_what_to_write(
    suites: Path, expression: str, claims: list[str], why: str
) -> None:
    option = SimpleNamespace(keyword=expression, claim=claims)
    found = plugin._why_nothing(option, suites)
    assert found.partition("\n")[0] == why
    listed = [line.split()[0] for line in found.splitlines()[1:]]
    assert listed == (list(words.subjects(catalog())) if expression == "nowhere" else [])


@pytest.mark.parametrize(
    ("arguments", "marks", "problem"),
    [
        (["suites"], "", ""),
        (["suites/paths/test_pages.py::test_first"], "", ""),
        (["suites", "tests"], "", "tests: there is no such file or folder"),
        (["suites"], "smoke", ""),
        (["suites"], "smoke and not parametrize", ""),
        (["suites"], "not (smoke or disruptive)", ""),
        (["suites"], "smoke(kind='a b', seen=True) and not disruptive", ""),
        (["suites"], "smok", "-m 'smok': no test has the mark smok; the marks are "),
        (
            ["suites"],
            "smok(kind=1)",
            "-m 'smok(kind=1)': no test has the mark smok; the marks are ",
        ),
    ],
)
def test_files_and_marks_that_do_not_exist_are_refused_before_a_lab_is_started(
    suites: Path, arguments: list[str], marks: str, problem: str
) -> None:
    config: Any = SimpleNamespace(
        args=arguments,
        option=SimpleNamespace(markexpr=marks),
        getini=lambda name: [],
        invocation_params=SimpleNamespace(dir=suites.parent),
    )
    if not problem:
        plugin._demand_known(config)
        return
    with pytest.raises(pytest.UsageError) as caught:
        plugin._demand_known(config)
    assert str(caught.value).startswith(problem)
