# SPDX-License-Identifier: Apache-2.0
"""Waivers and attestations that cannot be used are refused in one line, before anything is touched."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from conformance.catalog import catalog
from conformance.errors import UsageProblem
from conformance.model.verdict import ClaimVerdict
from conformance.qualify import attest, waivers

TODAY = datetime.date(2026, 11, 22)
GOOD: dict[str, Any] = {
    "claim": "RST-1", "verdicts": ["VIOLATED"], "reason": "streams do not come back", "link": "https://x.example/7",
    "owner": "jane", "expires": datetime.date(2026, 12, 31),
}  # fmt: skip
ANSWER: dict[str, Any] = {
    "claim": "PLAT-9", "answer": "CONFIRMED", "who": "jane", "when": datetime.date(2026, 11, 20),
    "evidence": "ticket 4711",
}  # fmt: skip


def written(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def test_a_waiver_is_read_with_everything_that_it_says(tmp_path: Path) -> None:
    waiver = waivers.load(written(tmp_path / "w", [GOOD | {"build": "17763"}]), catalog(), TODAY)[0]
    assert (waiver.claim, waiver.verdicts, waiver.build) == (
        "RST-1",
        (ClaimVerdict.VIOLATED,),
        "17763",
    )
    assert waiver.covers("RST-1", ClaimVerdict.VIOLATED, part="any", build="17763")
    assert not waiver.covers("RST-1", ClaimVerdict.VIOLATED, part="any", build="20348")
    assert not waiver.covers("RST-1", ClaimVerdict.UNMET, part="any", build="17763")


@pytest.mark.parametrize(
    "where",
    [
        {"part": "egress, linux to windows"},
        {"part": "active half"},
        {"build": "17763 before .1432"},
    ],
)
def test_a_waiver_is_for_a_part_that_the_suite_has_or_a_build_as_decisions_name_it(
    tmp_path: Path, where: dict[str, str]
) -> None:
    waiver = waivers.load(written(tmp_path / "w", [GOOD | where]), catalog(), TODAY)[0]
    assert [waiver.part or waiver.build] == list(where.values())


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"expires": datetime.date(2026, 11, 21)},
            r"entry 1 \(RST-1\): the waiver expired on 2026-11-21; renew it",
        ),
        ({"claim": "RST-99"}, r"entry 1: the catalog has no claim RST-99"),
        ({"verdicts": ["INCONCLUSIVE"]}, r"INCONCLUSIVE cannot be waived"),
        ({"verdicts": ["BAD"]}, r"'BAD' is not a verdict"),
        ({"owner": ""}, r"lacks owner"),
        ({"until": "x"}, r"has unknown keys until"),
        (
            {"part": "ingres"},
            r"entry 1 \(RST-1\): the suite has no part 'ingres' of the claim; the nearest: ingress, windows",
        ),
        (
            {"claim": "POL-1", "part": "after an evnt: both ways"},
            r"the nearest: after an event: both .{,900}\Z",
        ),
        (
            {"build": 2022},
            r"build must be a Windows build such as 20348, or 17763 before \.1432: '2022'",
        ),
        ({"expires": "soon"}, r"expires must be a date such as 2026-12-31: 'soon'"),
    ],
)
def test_a_waiver_that_cannot_be_used_is_refused_with_its_entry(
    tmp_path: Path, change: dict[str, Any], expected: str
) -> None:
    with pytest.raises(UsageProblem, match=expected) as caught:
        waivers.load(written(tmp_path / "w", [GOOD | change]), catalog(), TODAY)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "expected"), [("a: [", r"not YAML"), ({"claim": "x"}, r"expected a list")]
)
def test_a_file_that_holds_no_waivers_is_refused(
    tmp_path: Path, content: Any, expected: str
) -> None:
    with pytest.raises(UsageProblem, match=expected):
        waivers.load(written(tmp_path / "w", content), catalog(), TODAY)


def test_a_waiver_holds_on_its_last_day(tmp_path: Path) -> None:
    assert waivers.load(written(tmp_path / "w", [GOOD | {"expires": TODAY}]), catalog(), TODAY)


def test_an_attestation_is_read_by_its_claim(tmp_path: Path) -> None:
    found = attest.load(written(tmp_path / "a", [ANSWER]), catalog(), TODAY)
    assert str(found["PLAT-9"]) == "attested by jane on 2026-11-20: ticket 4711"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"claim": "DEMO-7"}, r"DEMO-7 is decided by tests, not by attestation"),
        ({"claim": "NONE-1"}, r"the catalog has no claim NONE-1"),
        ({"answer": "fine"}, r"the answer must be one of CONFIRMED"),
        ({"answer": "INCONCLUSIVE"}, r"the answer must be one of CONFIRMED"),
        (
            {"when": datetime.date(2027, 1, 1)},
            r"field when must be a date that is not in the future",
        ),
        ({"who": ""}, r"expected claim, answer, who, when, evidence, each with a value"),
    ],
)
def test_an_attestation_that_cannot_be_used_is_refused_with_its_entry(
    tmp_path: Path, change: dict[str, Any], expected: str
) -> None:
    with pytest.raises(UsageProblem, match=expected):
        attest.load(written(tmp_path / "a", [ANSWER | change]), catalog(), TODAY)


def test_one_claim_is_attested_once(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="entry 2: PLAT-9 is answered twice"):
        attest.load(written(tmp_path / "a", [ANSWER, ANSWER]), catalog(), TODAY)
