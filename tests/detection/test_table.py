# SPDX-License-Identifier: Apache-2.0
"""A table that contradicts itself is refused, and a row runs the claims that the row or its
layer names."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.detection.document import over_time
from tests.detection.runner import Outcome, conclusion_lines, differences
from tests.detection.selection import row_tests
from tests.detection.table import CONCLUSIONS, Row, Table, kinds_of, read, shipped
from tests.detection.taps.policy_edits import FIELDS
from tests.detection.taps.policy_lost import EVENTS
from tests.unit.conformance.evidence.test_layer import ROWS as LAYERS_OF_EVIDENCE

LAYERS = "dns: {areas: [dns], files: [lib/]}\nall: {areas: [dns, ipam], files: []}"
AT_MOST = 45
"""Tests that a row of some claims runs: about a minute of two workers, of which a gate has fifteen for fifteen rows."""
IPAM = "clean: {IPAM-1: CONFIRMED, IPAM-2: CONFIRMED}"


def table(folder: Path, rows: str, ipam: str = IPAM) -> Table:
    (folder / "rows").mkdir()
    (folder / "rows" / "dns.yaml").write_text(
        f"clean: {{DNS-1: CONFIRMED}}\nrows: {{row: {{what: it, {rows}}}}}"
    )
    (folder / "rows" / "ipam.yaml").write_text(ipam)
    (folder / "layers.yaml").write_text(LAYERS)
    return read(folder / "rows", folder / "layers.yaml")


@pytest.mark.parametrize(
    ("rows", "claims"),
    [
        ("layer: dns", ("DNS-1",)),
        ("layer: all", ("DNS-1", "IPAM-1", "IPAM-2")),
        ("layer: dns, claims: all", ()),
        ("layer: dns, claims: [IPAM-2], why: one is enough", ("IPAM-2",)),
    ],
)
def test_which_claims_a_row_runs(tmp_path: Path, rows: str, claims: tuple[str, ...]) -> None:
    (row,) = table(tmp_path, rows).rows
    assert row.claims == claims


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("layer: policy", "row row: layer policy is not in layers.yaml"),
        ("layer: dns, typo: 1", "row row: typo is unknown"),
        ("layer: dns, claims: [DNS-1]", "claims or tests and why"),
        ("layer: dns, only: name", "claims or tests and why"),
        ("layer: dns, why: quick", "claims or tests and why"),
        ("layer: dns, expect: {IPAM-1: UNMET}", "IPAM-1 is expected and not among its claims"),
        ("layer: dns, whole: {DNS-1: UNMET}", "whole and among them"),
        ("layer: dns, expect: {DNS-2: UNMET}", "DNS-2: UNMET: no such claim"),
        ("layer: dns, expect: {DNS-1: RED}", "DNS-1: RED: .* no such verdict"),
        ("layer: dns, expect: {DNS-1: CONFIRMED}", "leave it out"),
        ("layer: dns, concludes: [felix, weather]", "row row: weather: no such conclusion"),
        ("layer: dns, expect: {DNS-1: NOT_RUN}", "DNS-1: NOT_RUN needs what a reason says"),
        ("layer: dns, expect: {DNS-1: ADVISED}", "DNS-1: ADVISED needs what a reason says"),
    ],
)
def test_a_row_that_contradicts_itself_is_refused(tmp_path: Path, rows: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        table(tmp_path, rows)


def test_a_claim_of_two_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"ipam.yaml: clean: DNS-1: another file says it, too"):
        table(tmp_path, "layer: dns", ipam="clean: {DNS-1: CONFIRMED}")


@pytest.mark.parametrize("verdict", ["NOT_RUN", "ADVISED"])
def test_a_row_may_expect_that_a_claim_is_not_run_or_advised_with_its_reason(
    tmp_path: Path, verdict: str
) -> None:
    (row,) = table(
        tmp_path, f"layer: dns, expect: {{DNS-1: {verdict}}}, says: {{DNS-1: because}}"
    ).rows
    assert row.allowed("DNS-1", ("CONFIRMED",)) == (verdict,)


def test_with_all_claims_run_one_that_changes_is_only_what_the_row_says_of_it(
    tmp_path: Path,
) -> None:
    found = table(tmp_path, "layer: dns, expect: {DNS-1: VIOLATED}, whole: {IPAM-2: UNMET}")
    row = found.rows[0].of_all_claims()
    assert row.claims == ()
    assert [row.allowed(claim, found.healthy(claim)) for claim in ("DNS-1", "IPAM-1", "IPAM-2")] == [
        ("VIOLATED",), ("CONFIRMED",), ("UNMET",),
    ]  # fmt: skip


def test_a_row_of_one_claim_alone_says_nothing_of_what_else_its_tests_decide(
    tmp_path: Path,
) -> None:
    found = table(tmp_path, "layer: dns, expect: {DNS-1: VIOLATED}")
    told = [
        {
            "id": claim,
            "verdict": "VIOLATED",
            "reason": "so",
            "results": [{"verdict": "VIOLATED", "reason": "so", "test": "t"}],
        }
        for claim in ("DNS-1", "IPAM-1")
    ]
    seen = Outcome(report={"claims": told, "tests": []}, exit_code=0, output="", seconds=1.0)
    alone = found.rows[0].of_one_claim("DNS-1")
    assert differences(alone, found, seen, as_written=False) == []
    assert "IPAM-1   expected not run                  | observed VIOLATED" in differences(
        alone, found, seen
    )


@pytest.mark.parametrize("what", [*EVENTS, *FIELDS])
def test_each_event_and_field_has_rows_that_are_red_on_a_node_of_each_system(what: str) -> None:
    rows = {name: (linux, windows) for name, linux, windows in over_time(shipped())}
    assert "-" not in rows[f"`{what}`"], (
        "policy that is lost there goes unseen on one system: add a row"
    )


SOME = [row for row in shipped().rows if not row.long]


@pytest.fixture(scope="module")
def tests() -> dict[str, dict[str, frozenset[str]]]:
    return row_tests(SOME)


@pytest.mark.parametrize("row", SOME, ids=lambda row: row.name)
def test_the_tests_of_a_row_are_few_and_decide_the_claims_that_it_names_and_no_others(
    row: Row, tests: dict[str, dict[str, frozenset[str]]]
) -> None:
    found = tests[row.name]
    decided = frozenset[str]().union(*found.values())
    silent, besides = sorted(set(row.claims) - decided), sorted(decided - set(row.claims))
    assert not silent, (
        f"no test of this row decides {', '.join(silent)}: leave it out, or mend -k {row.only}"
    )
    assert not besides, (
        f"tests of this row decide {', '.join(besides)} too: name it, or take tests of its claims alone"
    )
    assert len(found) <= AT_MOST, (
        f"{len(found)} tests: take those that show what is wrong, with -k under only"
    )


@pytest.mark.parametrize("conclusion", [text for _, text in LAYERS_OF_EVIDENCE.values()])
def test_every_conclusion_about_the_layer_is_of_one_kind(conclusion: str) -> None:
    assert len(kinds_of(conclusion)) == 1


def test_every_kind_of_conclusion_is_one_that_evidence_leads_to() -> None:
    led_to = {kind for _, text in LAYERS_OF_EVIDENCE.values() for kind in kinds_of(text)}
    assert led_to == set(CONCLUSIONS)


BELOW = "z: the fault is below kube-proxy, in HNS"


@pytest.mark.parametrize(
    ("conclusions", "said"),
    [
        (["x on w: Felix did not program it", "y: the routes between nodes"], []),
        (["x on w: Felix did not program it"], ["expected to conclude routes"]),
        ([], ["expected to conclude felix or late-or-below", "expected to conclude routes"]),
        (
            ["x: Felix did not program it", "y: the routes between nodes", BELOW],
            [f"expected to conclude felix or late-or-below or routes | observed {BELOW}"],
        ),
    ],
    ids=["as the row says", "one is missing", "none", "a wrong one besides"],
)  # fmt: skip
def test_a_row_is_about_the_conclusions_that_it_names_and_no_other(
    tmp_path: Path, conclusions: list[str], said: list[str]
) -> None:
    found = table(tmp_path, "layer: dns, concludes: [felix or late-or-below, routes]")
    tests: list[dict[str, Any]] = [
        {"explanation": {"lines": {"layer": text}}} for text in conclusions
    ]
    told = [{"id": "DNS-1", "verdict": "CONFIRMED", "results": [1]}]
    report = {"claims": told, "tests": [*tests, {"explanation": None}]}
    seen = Outcome(report=report, exit_code=0, output="", seconds=1.0)
    different = differences(found.rows[0], found, seen)
    assert len(different) == len(said)
    assert all(line.startswith(begin) for line, begin in zip(different, said, strict=True))


def test_every_kind_of_conclusion_is_named_by_a_row_with_what_is_wrong() -> None:
    named = {kind for row in shipped().rows for kind in kinds_that(row)}
    assert named == set(CONCLUSIONS)


@pytest.mark.parametrize("kind", CONCLUSIONS)
def test_two_rows_drawn_by_seed_are_about_another_conclusion_and_refuse_this(kind: str) -> None:
    """A row reports each conclusion that it does not name."""
    others = [row for row in shipped().rows if row.concludes and kind not in kinds_that(row)]
    for row in random.Random(kind).sample(others, 2):
        (wrong,) = conclusion_lines(replace(row, concludes=row.concludes[:1]), [ANY_OF[kind]])[-1:]
        assert wrong.endswith(f"observed {ANY_OF[kind]}"), row.name


ANY_OF = {
    kind: next(text for _, text in LAYERS_OF_EVIDENCE.values() if kinds_of(text) == [kind])
    for kind in CONCLUSIONS
}
"""Kind to a conclusion of it."""


def kinds_that(row: Row) -> list[str]:
    """The kinds of conclusions that a row names."""
    return [kind for either in row.concludes for kind in either.split(" or ")]
