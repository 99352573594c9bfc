# SPDX-License-Identifier: Apache-2.0
"""Versions are compared by their numbers without suffixes, and ranges by all their terms."""

from __future__ import annotations

import pytest

from conformance.catalog.versions import NEWEST, Range, Version


@pytest.mark.parametrize(
    ("text", "numbers", "shown"),
    [
        ("v3.31.2", (3, 31, 2), "3.31.2"),
        ("3.32.0-rc1", (3, 32), "3.32"),
        ("v3.33.0-0.dev-211-gabc", (3, 33), "3.33"),
        ("1.34.1+rke2r1", (1, 34, 1), "1.34.1"),
        ("v1.30.1_vmware.1", (1, 30, 1), "1.30.1"),
        ("v1.30.1.el9", (1, 30, 1), "1.30.1"),
        ("v3.31.2@sha256:00", (3, 31, 2), "3.31.2"),
        ("3", (3,), "3.0"),
        ("1.0", (1,), "1.0"),
        (" v3.31.2 ", (3, 31, 2), "3.31.2"),
        ("10.0.20348.2762", (10, 0, 20348, 2762), "10.0.20348.2762"),
        ("1.2.3.4.5", (1, 2, 3, 4), "1.2.3.4"),
    ],
)
def test_a_version_is_its_numbers(text: str, numbers: tuple[int, ...], shown: str) -> None:
    assert Version.parse(text) == Version.of(*numbers)
    assert str(Version.parse(text)) == shown


@pytest.mark.parametrize("text", ["", "latest", "v", "3.x", "v3.31.2 beta"])
def test_a_text_without_numbers_is_no_version(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a version such as v3\.31\.2"):
        Version.parse(text)


def test_a_pre_release_is_its_release_and_the_unknown_is_the_newest() -> None:
    assert Version.parse("v3.32.0-rc1") == Version.parse("v3.32")
    assert Version.parse("v3.9") < Version.parse("v3.10") < Version.of(4) < NEWEST
    assert str(NEWEST) == "newest"


@pytest.mark.parametrize(
    ("bounds", "within", "without"),
    [
        (">=3.16 <3.27", ("3.16", "3.16.1", "3.26.9"), ("3.15.9", "3.27", "4.0")),
        ("<=3.27", ("3.27", "3.0"), ("3.27.1",)),
        (">3.27", ("3.27.1", "3.28"), ("3.27",)),
        ("= 1.34", ("1.34", "1.34.0-rc1"), ("1.34.1",)),
    ],
)
def test_a_range_holds_the_versions_that_meet_all_its_terms(
    bounds: str, within: tuple[str, ...], without: tuple[str, ...]
) -> None:
    versions = Range(bounds)
    assert all(Version.parse(text) in versions for text in within)
    assert not any(Version.parse(text) in versions for text in without)
    assert str(versions) == bounds
    assert (NEWEST in versions) is (bounds == ">3.27")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "an empty range"),
        ("  ", "an empty range"),
        ("3.16", "is not a range"),
        (">=3.16 3.27", "is not a range"),
        (">=3.16<3.27", "is not a version"),
        (">=x", "is not a version"),
    ],
)
def test_a_range_that_cannot_be_read_is_refused_at_once(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Range(text)
