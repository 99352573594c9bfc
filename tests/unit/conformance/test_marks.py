# SPDX-License-Identifier: Apache-2.0
"""Marks check their arguments when a test file is imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conformance import marks
from conformance.catalog import Range, Version
from conformance.marks import manifest, needs, smoke, verifies


def test_an_unknown_claim_is_refused_with_its_neighbours() -> None:
    with pytest.raises(
        pytest.UsageError, match=r"verifies\('VXLAN-19'\): no such claim; did you mean VXLAN-9"
    ):
        verifies("VXLAN-19")


def test_an_active_half_must_be_known_to_the_catalog() -> None:
    assert verifies("VXLAN-9", active=True).mark.kwargs["active"] is True
    with pytest.raises(pytest.UsageError, match="no active half of CONN-1"):
        verifies("CONN-1", active=True)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"applies": {"modes": ["vxlan"]}},
            "name the part; conditions of a whole claim belong in the catalog",
        ),
        ({"provisional": True}, "name the part"),
        ({"part": "p", "applies": {"modus": ["vxlan"]}}, "part='p'.*unknown key 'modus'"),
        ({"part": "p", "applies": {"modes": ["overlay"]}}, "expected some of vxlan, bgp"),
    ],
)
def test_conditions_are_those_of_a_part_and_in_the_catalogs_words(
    given: dict[str, Any], words: str
) -> None:
    with pytest.raises(pytest.UsageError, match=words):
        verifies("CONN-3", **given)


@pytest.mark.parametrize("wrong", [-1, True])
def test_needs_are_numbers_of_nodes(wrong: int) -> None:
    with pytest.raises(pytest.UsageError, match="expected a number of nodes"):
        needs(windows=wrong)


def test_needs_carry_what_they_were_given() -> None:
    asked = needs(linux=2, windows=2, v3_api=True).mark.args[0]
    assert (asked.linux, asked.windows, asked.v3_api, asked.host_process) == (2, 2, True, False)


def test_a_manifest_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there.yaml").touch()
    monkeypatch.setattr(marks, "MANIFESTS", tmp_path)
    assert manifest("there.yaml").mark.args == ("there.yaml",)
    with pytest.raises(pytest.UsageError, match="no such file under"):
        manifest("missing.yaml")


@pytest.mark.parametrize("build", [17763, 18362, 19042, 20348, 25398, 26100, 26200])
def test_each_build_is_one_of_those_by_which_parts_are_told_apart(build: int) -> None:
    told = marks.each_build("CONN-6", "by {build}").mark.args[1]
    (own,) = [one for one in told if Version.of(build, 1432) in Range(one.values[0])]
    mark = own.marks[0].kwargs
    assert (mark["part"], str(mark["applies"].windows_builds)) == (
        f"by {own.id.replace('-', ' ')}",
        own.values[0],
    )


def test_smoke_is_a_plain_mark() -> None:
    assert smoke().name == "smoke"
